"""Spans and counters of one request; the one place where times are taken.

A trace knows nothing about what it measures. All times are seconds since the trace began, read
from a monotonic clock, so spans of one trace can be compared and drawn on one axis.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(slots=True)
class Span:
    """A named interval ``[start_s, end_s)``; ``end_s`` is None while it runs.

    ``count`` and ``busy_s`` aggregate repeated short steps, such as decode steps, in one span.
    """

    name: str
    start_s: float
    end_s: float | None = None
    count: int = 1
    busy_s: float = 0.0
    attributes: dict[str, object] = field(default_factory=dict)

    @property
    def duration_s(self) -> float:
        """Return the seconds between start and end, 0.0 while the span runs."""
        return 0.0 if self.end_s is None else self.end_s - self.start_s


class Trace:
    """What happened in one request, when, and how often; attributes are JSON values."""

    def __init__(self, kind: str, **attributes: object) -> None:
        self.id = uuid.uuid4().hex[:12]
        self.kind = kind
        self.started_at = time.time()
        self.attributes: dict[str, object] = dict(attributes)
        self.spans: list[Span] = []
        self.counters: dict[str, int] = {}
        self._starts_s: dict[str, list[float]] = {}  # of steps, by name
        self._origin = time.perf_counter()

    def now_s(self) -> float:
        """Return the seconds since the trace began."""
        return time.perf_counter() - self._origin

    @contextmanager
    def span(self, name: str, **attributes: object) -> Iterator[Span]:
        """Record the time spent in the ``with`` body, also when it raises."""
        span = Span(name, self.now_s(), attributes=dict(attributes))
        self.spans.append(span)
        try:
            yield span
        except BaseException as error:
            span.attributes["error"] = type(error).__name__
            raise
        finally:
            span.end_s = self.now_s()
            span.busy_s = span.duration_s

    @contextmanager
    def step(self, name: str) -> Iterator[Span]:
        """Record one of many short steps: steps of one name are aggregated in one span."""
        start_s = self.now_s()
        self._starts_s.setdefault(name, []).append(start_s)
        span = next((s for s in reversed(self.spans) if s.name == name), None)
        if span is None:
            span = Span(name, start_s, count=0)
            self.spans.append(span)
        try:
            yield span
        finally:
            span.end_s = self.now_s()
            span.count += 1
            span.busy_s += span.end_s - start_s

    def count(self, name: str, amount: int = 1) -> None:
        """Add ``amount`` to the counter ``name``."""
        self.counters[name] = self.counters.get(name, 0) + amount

    def total_s(self, name: str, since_s: float = 0.0) -> float:
        """Return the busy seconds of all spans called ``name`` that began since ``since_s``."""
        spans = (span for span in self.spans if span.name == name and span.start_s >= since_s)
        return sum(span.busy_s for span in spans)

    def gaps_s(self, name: str) -> list[float]:
        """Return the seconds from the start of each step called ``name`` to that of the next."""
        return [later - start for start, later in pairwise(self._starts_s.get(name, ()))]

    def to_json(self) -> dict[str, object]:
        """Return the trace as JSON values."""
        return {
            "id": self.id,
            "kind": self.kind,
            "started_at": self.started_at,
            "attributes": self.attributes,
            "counters": self.counters,
            "spans": [
                {
                    "name": span.name,
                    "start_s": span.start_s,
                    "end_s": span.end_s,
                    "count": span.count,
                    "busy_s": span.busy_s,
                    "attributes": span.attributes,
                }
                for span in self.spans
            ],
        }
