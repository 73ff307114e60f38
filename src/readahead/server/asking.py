"""The bridge from an engine's generator, made by a thread, to whoever sends it; knows no engine.

A client that leaves cancels its request wherever it is: in the queue, or within one model step.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import copy_context
from typing import Generic, TypeVar

from fastapi import Request

from readahead.lm.base import Cancelled
from readahead.server.admission import Admission
from readahead.server.observability.logs import CLIENT_CLOSED
from readahead.server.observability.serving import admitted, arrived, failed
from readahead.server.problems import Problem
from readahead.server.state import Caller, Service

T = TypeVar("T")
Make = Callable[[Cancelled], Generator[T]]
"""From what is asked between two model steps to the events of an answer."""


class Asking(Generic[T]):
    """One request while it is answered.

    Args:
        make: Makes the events; called and run by a thread of ``executor``.
        admission: Says when.
        caller: Who waits.
        executor: Has a thread for each answer that runs.
    """

    def __init__(
        self, make: Make[T], admission: Admission, caller: str, executor: Executor
    ) -> None:
        self._make = make
        self._admission = admission
        self._caller = caller
        self._executor = executor
        self._cancelled = threading.Event()
        self._has_left = False
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[T | _Failed | None] = asyncio.Queue()
        self._admitted = asyncio.Event()
        arrived()

    async def events(self, request: Request) -> AsyncIterator[T]:
        """Wait for a place, and yield the events; who stops taking them cancels the request.

        Raises:
            Problem: 429, too many wait; 499, the client has left.
        """
        await self._begin(request)
        try:
            while (event := await self._events.get()) is not None:
                if isinstance(event, _Failed):
                    raise event.error
                yield event
            if self._has_left:
                raise _left()
        finally:
            self.cancel()
            if self._has_left:  # a stream has told another status already
                failed(CLIENT_CLOSED)

    async def _begin(self, request: Request) -> None:
        """Return once the answer is being made."""
        running = asyncio.create_task(self._run())
        watching = asyncio.create_task(self._watch(request, running))
        running.add_done_callback(lambda _: watching.cancel())
        admitted = asyncio.create_task(self._admitted.wait())
        try:
            await asyncio.wait({running, admitted}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.cancel()
            running.cancel()
            raise
        finally:
            admitted.cancel()
        if not self._admitted.is_set():
            with suppress(asyncio.CancelledError):
                await running  # raises why there is no place
            raise _left()

    def cancel(self) -> None:
        """End the answer within one model step."""
        self._cancelled.set()

    async def _run(self) -> None:
        async with self._admission.place(self._caller):
            self._admitted.set()
            admitted()
            run = copy_context().run  # the thread logs and reports for this request
            making = self._loop.run_in_executor(self._executor, run, self._produce)
            while not making.done():  # a thread cannot be left behind: it has the place
                try:
                    await asyncio.shield(making)
                except asyncio.CancelledError:
                    self.cancel()

    def _produce(self) -> None:
        """Make the events, on a thread."""
        events = None
        try:
            events = self._make(self._cancelled.is_set)
            for event in events:
                self._put(event)
        except Exception as error:
            self._put(_Failed(error))
        finally:
            if events is not None:
                events.close()
            self._put(None)

    def _put(self, event: T | _Failed | None) -> None:
        with suppress(RuntimeError):  # the loop has ended, and nobody listens
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def _watch(self, request: Request, running: asyncio.Task[None]) -> None:
        """Cancel once the client has left."""
        while (await request.receive())["type"] != "http.disconnect":
            pass
        self._has_left = True
        self.cancel()
        if not self._admitted.is_set():
            running.cancel()


def _left() -> Problem:
    return Problem(CLIENT_CLOSED, "The client has left.", code="client_closed_request")


class _Failed:
    """Stands for the error that ended an answer."""

    def __init__(self, error: Exception) -> None:
        self.error = error


async def begun(
    request: Request,
    service: Service,
    caller: Caller,
    make: Make[T],
    *,
    is_stream: bool = False,
) -> AsyncIterator[T]:
    """Return the events of an answer, once the first of them is there.

    What is wrong with a request shows by then, while there is a status to tell it with.

    Args:
        request: Of the client, who may leave.
        service: Has the queue and the threads.
        caller: Who waits.
        make: Makes the events.
        is_stream: Whether the response must begin after ``server.heartbeat_s`` at the latest; what
            is wrong later, the events raise.

    Raises:
        Problem: 429, too many wait; 499, the client has left; or whatever ``make`` raises first.
    """

    def affordable(cancelled: Cancelled) -> Generator[T]:
        service.check_budget(caller)  # others may have used it up while this one waited
        return make(cancelled)

    asking = Asking(affordable, service.admission, caller.name, service.threads)
    events = asking.events(request)
    first = asyncio.ensure_future(anext(events))
    try:
        heartbeat_s = service.config.server.heartbeat_s
        await asyncio.wait({first}, timeout=heartbeat_s if is_stream else None)
    except asyncio.CancelledError:
        first.cancel()
        raise
    error = first.exception() if first.done() else None
    if error is not None and not isinstance(error, StopAsyncIteration):
        raise error
    return _behind(first, events)


async def _behind(first: Awaitable[T], events: AsyncIterator[T]) -> AsyncIterator[T]:
    try:
        yield await first
    except StopAsyncIteration:
        return
    async for event in events:
        yield event
