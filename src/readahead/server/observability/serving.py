"""One request while it is served, and what is noted of it on the way; logs and counts nothing."""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from readahead.server.observability.outcomes import asked_s
from readahead.trace import Trace

if TYPE_CHECKING:
    from readahead.server.schemas.requests import Sampling


@dataclass(slots=True)
class Served:
    """One request while it is served.

    Attributes:
        id: The client's own, if it is harmless.
        traceparent: The trace that the client takes it for part of, as W3C writes it.
        status: Of the response, 0 before there is one; of an error in a stream, that of the error.
        num_tokens: Of the prompts and answers so far.
        trace_id: Of the last answer from documents.
        arrived_s: When it came to the queue, by ``time.perf_counter``; 0 if it needs no place.
        admitted_s: When it got its place, likewise.
        body: What it asks for, if that is an answer; no text of it is logged.
        response_id: Of the answer, as the client gets it.
    """

    id: str
    traceparent: str = ""
    status: int = 0
    num_tokens: int = 0
    trace_id: str = ""
    arrived_s: float = 0.0
    admitted_s: float = 0.0
    body: Sampling | None = None
    response_id: str = ""

    @property
    def queue_s(self) -> float:
        """Return how long it has waited for its place."""
        return (self.admitted_s or time.perf_counter()) - self.arrived_s if self.arrived_s else 0.0


# Not passed on by hand: whatever is logged for a request is to carry its id, wherever it happens.
_SERVED: ContextVar[Served | None] = ContextVar("served", default=None)


def served() -> Served | None:
    """Return the request that the calling code serves, None outside of one."""
    return _SERVED.get()


def begin(one: Served) -> None:
    """Note that the calling task, and all that it begins, serves a request."""
    _SERVED.set(one)


def asks(body: Sampling, response_id: str) -> None:
    """Note what answer the request that is being served asks for, and what its id will be."""
    if (one := served()) is not None:
        one.body, one.response_id = body, response_id


def arrived() -> None:
    """Note that the request that is being served is read, and asks for a place."""
    if (one := served()) is not None:
        one.arrived_s = time.perf_counter()


def admitted() -> None:
    """Note that the request that is being served has its place."""
    if (one := served()) is not None:
        one.admitted_s = time.perf_counter()


def arrived_s(trace: Trace) -> float:
    """Return when the request that is being served arrived, on the clock of its trace.

    Below 0 if the trace began later. Without a request: when the question was asked.
    """
    one = served()
    if one is None or not one.arrived_s:
        return asked_s(trace)
    return trace.now_s() - (time.perf_counter() - one.arrived_s)


def failed(status: int) -> None:
    """Note that the request that is being served failed while its response went out."""
    if (one := served()) is not None:
        one.status = status
