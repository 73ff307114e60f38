"""The names of OpenTelemetry's GenAI conventions, all that are used here, in one place.

They stand in development and change from version to version: those here are of the conventions'
own repository, v0.1.0, where retrieval is a span of its own and tokens carry no ``prompt`` or
``completion``. [OTelGenAI]
"""

from __future__ import annotations

OPERATION_NAME = "gen_ai.operation.name"
PROVIDER_NAME = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
RESPONSE_TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"  # seconds
USAGE_INPUT_TOKENS = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ_INPUT_TOKENS = "gen_ai.usage.cache_read.input_tokens"

# Text: only where the settings ask for it.
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
RETRIEVAL_QUERY_TEXT = "gen_ai.retrieval.query.text"

CHAT = "chat"
TEXT_COMPLETION = "text_completion"
RETRIEVAL = "retrieval"
PROVIDER = "readahead"
