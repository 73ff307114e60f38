"""A finished trace as OpenTelemetry's spans; needs the extra ``otel``."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Thread

from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from readahead import __version__
from readahead.reply import RETRIEVAL_SPANS
from readahead.server.observability import genai
from readahead.server.observability.attributes import Attributes, Telling, failure
from readahead.server.observability.outcomes import asked_s, number
from readahead.server.observability.serving import Served, arrived_s, served
from readahead.trace import Span, Trace

CLOSE_S = 5.0
REQUEST, QUEUE, AHEAD = "request", "queue", "read ahead"


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
        one, arrived, asked = served(), arrived_s(trace), asked_s(trace)
        drawing, telling = _Drawing(self, trace), Telling(trace, one, arrived, self._with_text)
        start_s, end_s = min(0.0, arrived), drawing.end_s
        root = drawing.draw(
            Drawn(REQUEST, start_s, end_s, telling.request(), SpanKind.SERVER), _parent(one)
        )
        if one is not None and one.arrived_s:
            drawing.draw(Drawn(QUEUE, arrived, arrived + one.queue_s), root)
        has_ahead = any(span.start_s < asked for span in trace.spans)
        ahead = drawing.draw(Drawn(AHEAD, 0.0, asked), root) if has_ahead else root
        told = telling.answer()
        name = f"{told[genai.OPERATION_NAME]} {told[genai.REQUEST_MODEL]}".rstrip()
        answer = drawing.draw(Drawn(name, asked, end_s, told), root)
        for step in _steps(trace.spans):
            is_both = step[0].start_s < asked < drawing.end_of(step)  # of one kind, one span
            parent = root if is_both else ahead if step[0].start_s < asked else answer
            drawing.step(step, telling, parent)


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
        if error := (drawn.attributes or {}).get(genai.ERROR_TYPE):
            span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end(self._at_ns(drawn.end_s))
        return set_span_in_context(span, parent)

    def step(self, step: Sequence[Span], telling: Telling, parent: Context) -> None:
        """Draw a step; a retrieval stands around what it takes."""
        if step[-1].name in RETRIEVAL_SPANS:
            told = telling.retrieval() | failure(step[-1].attributes)
            whole = Drawn(genai.RETRIEVAL, step[0].start_s, self.end_of(step), told)
            parent = self.draw(whole, parent)
        for span in step:
            drawn = Drawn(span.name, span.start_s, self.end_of([span]), telling.step(span))
            self.draw(drawn, parent)

    def end_of(self, step: Sequence[Span]) -> float:
        """Return when a step ends; with the trace, if nobody ended it."""
        return self.end_s if step[-1].end_s is None else step[-1].end_s

    def _at_ns(self, seconds: float) -> int:
        return int((self._trace.started_at + seconds) * 1e9)


def _provider() -> TracerProvider:
    own = Resource({"service.name": "readahead", "service.version": __version__})
    resource = own.merge(OTELResourceDetector().detect())
    return TracerProvider(resource=resource, shutdown_on_exit=False)  # ``close`` does that


def _parent(one: Served | None) -> Context:
    """Return the span of the client that the request named, in an otherwise empty context."""
    empty = Context()
    if one is None or not one.traceparent:
        return empty
    carrier = {"traceparent": one.traceparent}
    return TraceContextTextMapPropagator().extract(carrier, empty)


def _steps(spans: Sequence[Span]) -> list[list[Span]]:
    """Return the spans step by step: a query that is encoded and its search are one retrieval.

    Several threads may retrieve at the same time: the two are matched in their order.
    """
    steps: list[list[Span]] = []
    encoded: deque[list[Span]] = deque()
    for span in spans:
        if span.name == "search" and encoded:
            encoded.popleft().append(span)
            continue
        steps.append([span])
        if span.name == "encode" and "error" not in span.attributes:
            encoded.append(steps[-1])
    return steps
