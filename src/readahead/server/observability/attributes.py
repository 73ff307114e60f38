"""What the spans of a finished trace tell of it, by the conventions' names; draws nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from readahead.server.observability import genai
from readahead.server.observability.outcomes import (
    abstention_of,
    asked_s,
    guess_of,
    method_of,
    number,
)
from readahead.server.observability.serving import Served
from readahead.trace import Span, Trace

PREFIX = "readahead."
_WORDS = frozenset({"moment", "policy"})  # attributes whose text is the program's own
_OPERATIONS = {"completion": genai.TEXT_COMPLETION}  # by the kind of a trace
_FINISH_REASONS = {"failed": genai.ERROR, "cancelled": genai.ERROR}
_ASKED = {  # by the field of a request
    "stream": genai.REQUEST_STREAM,
    "n": genai.REQUEST_CHOICE_COUNT,
    "seed": genai.REQUEST_SEED,
    "max_tokens": genai.REQUEST_MAX_TOKENS,
    "max_completion_tokens": genai.REQUEST_MAX_TOKENS,
    "temperature": genai.REQUEST_TEMPERATURE,
    "top_p": genai.REQUEST_TOP_P,
    "frequency_penalty": genai.REQUEST_FREQUENCY_PENALTY,
    "presence_penalty": genai.REQUEST_PRESENCE_PENALTY,
}

Attributes = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Telling:
    """What there is to tell of one answer.

    Attributes:
        trace: Of the answer.
        one: The request that it is for, if there is one.
        arrived_s: When that arrived, on the clock of the trace.
        with_text: Whether questions, answers and queries are told.
    """

    trace: Trace
    one: Served | None
    arrived_s: float
    with_text: bool

    @property
    def ttft_s(self) -> float:
        """Return the seconds from the arrival to the first text, 0 if there is none."""
        ttft_s = number(self.trace, "ttft_s")
        return asked_s(self.trace) - self.arrived_s + ttft_s if ttft_s else 0.0

    def request(self) -> Attributes:
        """Return what is told of the whole."""
        trace, one = self.trace, self.one
        told = {
            "method": method_of(trace),
            "trace_id": trace.id,
            "request_id": one.id if one else "",
            "queue_s": one.queue_s if one else 0.0,
            "ttft_s": self.ttft_s,
            "finish_reason": trace.attributes.get("finish_reason", ""),
            "guess": guess_of(trace),
            "abstention": abstention_of(trace),
        }
        told |= trace.counters
        return self._failure() | _named({name: value for name, value in told.items() if value})

    def answer(self) -> Attributes:
        """Return what is told of the model's part."""
        attributes, counters = self.trace.attributes, self.trace.counters
        reason = str(attributes.get("finish_reason", ""))
        told: Attributes = {
            genai.OPERATION_NAME: _OPERATIONS.get(self.trace.kind, genai.CHAT),
            genai.PROVIDER_NAME: genai.PROVIDER,
            genai.REQUEST_MODEL: str(attributes.get("target", "")),
            genai.RESPONSE_FINISH_REASONS: [_FINISH_REASONS.get(reason, reason)],
            genai.USAGE_INPUT_TOKENS: counters.get("prompt_tokens", 0),
            genai.USAGE_OUTPUT_TOKENS: counters.get("completion_tokens", 0),
            genai.USAGE_CACHE_READ_INPUT_TOKENS: max(0, counters.get("reused_tokens", 0)),
        }
        if self.with_text:
            told |= {
                genai.INPUT_MESSAGES: _message("user", attributes.get("question")),
                genai.OUTPUT_MESSAGES: _message("assistant", attributes.get("answer")),
            }
        return told | self._asked() | self._failure()

    def retrieval(self) -> Attributes:
        """Return what is told of a retrieval."""
        told: Attributes = {
            genai.OPERATION_NAME: genai.RETRIEVAL,
            genai.PROVIDER_NAME: genai.PROVIDER,
        }
        if self.with_text:
            told[genai.RETRIEVAL_QUERY_TEXT] = str(self.trace.attributes.get("question", ""))
        return told

    def step(self, span: Span) -> Attributes:
        """Return what is told of a step: all numbers and flags, and only harmless words."""
        told = _named(
            {
                name: value
                for name, value in span.attributes.items()
                if isinstance(value, bool | int | float)
                or (isinstance(value, str) and (self.with_text or name in _WORDS))
            }
        )
        if span.count > 1:
            told |= _named({"count": span.count, "busy_s": span.busy_s})
        return told | failure(span.attributes)

    def _failure(self) -> Attributes:
        return failure(self.trace.attributes)

    def _asked(self) -> Attributes:
        """Return how the client wants its answer, and what that is called."""
        if self.one is None or self.one.body is None:
            return {}
        body = self.one.body
        given = {field: getattr(body, field, None) for field in _ASKED}
        told = {
            _ASKED[field]: value
            for field, value in given.items()
            if value is not None and value is not False
        }
        if told.get(genai.REQUEST_CHOICE_COUNT) == 1:
            del told[genai.REQUEST_CHOICE_COUNT]
        settings = getattr(getattr(body, "readahead", None), "settings", None) or {}
        if "generation.top_k" in settings:
            told[genai.REQUEST_TOP_K] = settings["generation.top_k"]
        if body.stream and self.ttft_s:
            told[genai.RESPONSE_TIME_TO_FIRST_CHUNK] = self.ttft_s
        return told | {genai.RESPONSE_ID: self.one.response_id}


def failure(attributes: Mapping[str, object]) -> Attributes:
    """Return what is told of an error, if there was one."""
    error = attributes.get("error")
    return {genai.ERROR_TYPE: str(error)} if error else {}


def _named(told: Mapping[str, Any]) -> Attributes:
    return {PREFIX + name: value for name, value in told.items()}


def _message(role: str, text: object) -> str:
    """Return one message as the conventions write it, as JSON."""
    parts = [{"type": "text", "content": str(text or "")}]
    return json.dumps([{"role": role, "parts": parts}], ensure_ascii=False)
