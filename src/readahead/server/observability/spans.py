"""A finished trace as OpenTelemetry's spans; needs the extra ``otel``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Thread
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from readahead import __version__
from readahead.reply import RETRIEVAL_SPANS
from readahead.server.observability import genai
from readahead.server.observability.logs import served
from readahead.server.observability.outcomes import (
    abstention_of,
    asked_s,
    guess_of,
    method_of,
    number,
)
from readahead.trace import Span, Trace

PREFIX = "readahead."
CLOSE_S = 5.0
REQUEST, AHEAD = "request", "read ahead"
_WORDS = frozenset({"error", "moment", "policy"})  # attributes whose text is the program's own
_OPERATIONS = {"completion": genai.TEXT_COMPLETION}  # by the kind of a trace

Attributes = dict[str, Any]


class Spans:
    """Tells OpenTelemetry of finished traces; may be used from several threads.

    Args:
        processor: Gets the spans.
        with_text: Whether questions, answers and queries are told.
    """

    def __init__(self, processor: SpanProcessor, *, with_text: bool = False) -> None:
        self._provider = _provider()
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("readahead", __version__)
        self._with_text = with_text

    def close(self) -> None:
        """Send what waits, for ``CLOSE_S`` at most: a receiver that hangs holds up no end."""
        closing = Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_S)

    def saw(self, trace: Trace) -> None:
        """Tell of a finished trace, as part of the trace that its client named, if it did."""
        drawing = _Drawing(self, trace)
        root = drawing.draw(
            Drawn(REQUEST, 0.0, drawing.end_s, self._request(trace), SpanKind.SERVER), _parent()
        )
        asked = asked_s(trace)
        has_ahead = any(span.start_s < asked for span in trace.spans)
        ahead = drawing.draw(Drawn(AHEAD, 0.0, asked), root) if has_ahead else root
        answer = drawing.draw(Drawn(*self._answer(trace, drawing.end_s)), root)
        for span in trace.spans:
            end_s = drawing.end_s if span.end_s is None else span.end_s
            is_both = span.start_s < asked < end_s  # steps of one kind are one span
            parent = root if is_both else ahead if span.start_s < asked else answer
            name = genai.RETRIEVAL if span.name in RETRIEVAL_SPANS else span.name
            drawing.draw(Drawn(name, span.start_s, end_s, self._step(span, trace)), parent)

    def _request(self, trace: Trace) -> Attributes:
        one = served()
        told = {
            "method": method_of(trace),
            "trace_id": trace.id,
            "request_id": one.id if one else "",
            "guess": guess_of(trace),
            "abstention": abstention_of(trace),
            "error": trace.attributes.get("error", ""),
        }
        return _named({name: value for name, value in (told | trace.counters).items() if value})

    def _answer(self, trace: Trace, end_s: float) -> tuple[str, float, float, Attributes]:
        """Return name, start, end and attributes of the model's part."""
        counters = trace.counters
        model = str(trace.attributes.get("target", ""))
        operation = _OPERATIONS.get(trace.kind, genai.CHAT)
        told: Attributes = {
            genai.OPERATION_NAME: operation,
            genai.PROVIDER_NAME: genai.PROVIDER,
            genai.REQUEST_MODEL: model,
            genai.RESPONSE_ID: trace.id,
            genai.RESPONSE_FINISH_REASONS: [str(trace.attributes.get("finish_reason", ""))],
            genai.RESPONSE_TIME_TO_FIRST_CHUNK: number(trace, "ttft_s"),
            genai.USAGE_INPUT_TOKENS: counters.get("prompt_tokens", 0),
            genai.USAGE_OUTPUT_TOKENS: counters.get("completion_tokens", 0),
            genai.USAGE_CACHE_READ_INPUT_TOKENS: max(0, counters.get("reused_tokens", 0)),
        }
        if self._with_text:
            told |= {
                genai.INPUT_MESSAGES: _message("user", trace.attributes.get("question")),
                genai.OUTPUT_MESSAGES: _message("assistant", trace.attributes.get("answer")),
            }
        return f"{operation} {model}".rstrip(), asked_s(trace), end_s, told

    def _step(self, span: Span, trace: Trace) -> Attributes:
        """Return the attributes of a step: all numbers and flags, and only harmless words."""
        told = _named(
            {
                name: value
                for name, value in span.attributes.items()
                if isinstance(value, bool | int | float)
                or (isinstance(value, str) and (self._with_text or name in _WORDS))
            }
        )
        if span.count > 1:
            told |= _named({"count": span.count, "busy_s": span.busy_s})
        if span.name in RETRIEVAL_SPANS:
            told |= {
                genai.OPERATION_NAME: genai.RETRIEVAL,
                genai.PROVIDER_NAME: genai.PROVIDER,
                PREFIX + "step": span.name,
            }
            if self._with_text:
                told[genai.RETRIEVAL_QUERY_TEXT] = str(trace.attributes.get("question", ""))
        return told


@dataclass(frozen=True, slots=True)
class Drawn:
    """One span to be: times in seconds, on the clock of its trace."""

    name: str
    start_s: float
    end_s: float
    attributes: Attributes | None = None
    kind: SpanKind = SpanKind.INTERNAL


class _Drawing:
    """Draws the spans of one trace, whose times are all known already."""

    def __init__(self, spans: Spans, trace: Trace) -> None:
        self._tracer = spans._tracer
        self._trace = trace
        ends = (span.end_s or span.start_s for span in trace.spans)
        self.end_s = max([asked_s(trace) + number(trace, "e2e_s"), *ends])

    def draw(self, drawn: Drawn, parent: Context) -> Context:
        """Draw a span below ``parent``, and return what its own parts are drawn below."""
        span = self._tracer.start_span(
            drawn.name,
            parent,
            drawn.kind,
            drawn.attributes,
            start_time=self._at_ns(drawn.start_s),
        )
        if error := (drawn.attributes or {}).get(PREFIX + "error"):
            span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end(self._at_ns(drawn.end_s))
        return set_span_in_context(span, parent)

    def _at_ns(self, seconds: float) -> int:
        return int((self._trace.started_at + seconds) * 1e9)


def _provider() -> TracerProvider:
    own = Resource({"service.name": "readahead", "service.version": __version__})
    resource = own.merge(OTELResourceDetector().detect())
    return TracerProvider(resource=resource, shutdown_on_exit=False)  # ``close`` does that


def _parent() -> Context:
    """Return the span of the client that the request named, in an otherwise empty context."""
    one, empty = served(), Context()
    if one is None or not one.traceparent:
        return empty
    carrier = {"traceparent": one.traceparent}
    return TraceContextTextMapPropagator().extract(carrier, empty)


def _named(told: Mapping[str, Any]) -> Attributes:
    return {PREFIX + name: value for name, value in told.items()}


def _message(role: str, text: object) -> str:
    """Return one message as the conventions write it, as JSON."""
    parts = [{"type": "text", "content": str(text or "")}]
    return json.dumps([{"role": role, "parts": parts}], ensure_ascii=False)
