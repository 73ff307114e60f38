"""The names of OpenTelemetry's GenAI conventions, all that are used here, in one place.

They stand in development and change from version to version: those here are of the conventions'
own repository, v0.1.0, where retrieval is a span of its own and tokens carry no ``prompt`` or
``completion``. [OTelGenAI]
"""

from __future__ import annotations

OPERATION_NAME = "gen_ai.operation.name"
PROVIDER_NAME = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
REQUEST_CHOICE_COUNT = "gen_ai.request.choice.count"
REQUEST_SEED = "gen_ai.request.seed"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE = "gen_ai.request.temperature"
REQUEST_TOP_K = "gen_ai.request.top_k"
REQUEST_TOP_P = "gen_ai.request.top_p"
REQUEST_FREQUENCY_PENALTY = "gen_ai.request.frequency_penalty"
REQUEST_PRESENCE_PENALTY = "gen_ai.request.presence_penalty"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
RESPONSE_TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"  # seconds; of streams
USAGE_INPUT_TOKENS = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ_INPUT_TOKENS = "gen_ai.usage.cache_read.input_tokens"
ERROR_TYPE = "error.type"

# Text: only where the settings ask for it.
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
RETRIEVAL_QUERY_TEXT = "gen_ai.retrieval.query.text"

CHAT = "chat"
TEXT_COMPLETION = "text_completion"
RETRIEVAL = "retrieval"
ERROR = "error"  # the finish reason of what failed or was cancelled
PROVIDER = "readahead"
