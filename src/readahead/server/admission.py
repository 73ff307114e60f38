"""Who is answered now and who waits: a bounded queue, fair between callers; knows no model."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from readahead.server.problems import Problem

_SMOOTHING = 0.2  # of the latest answer in the running mean of how long one takes
_FIRST_GUESS_S = 5.0


class Admission:
    """Lets a bounded number of answers run, and a bounded number wait.

    Callers take turns: one that sends many requests waits for its own. Used by one event loop.

    Args:
        max_running: Answers that are written in turns.
        max_queued: Requests that wait.
    """

    def __init__(self, max_running: int, max_queued: int) -> None:
        self._max_running = max_running
        self._max_queued = max_queued
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._mean_s = _FIRST_GUESS_S
        self.num_running = 0

    @property
    def num_queued(self) -> int:
        """Return how many requests wait."""
        return sum(map(len, self._queues.values()))

    @property
    def retry_after_s(self) -> int:
        """Return in how many seconds there is room, by how long answers took lately."""
        return max(1, round(self._mean_s * (self.num_queued + 1) / self._max_running))

    @asynccontextmanager
    async def place(self, caller: str) -> AsyncIterator[None]:
        """Wait until an answer of ``caller`` may run; it may during the ``with`` body.

        Raises:
            Problem: 429, too many wait.
        """
        await self._wait(caller)
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        try:
            yield
        finally:
            self._mean_s += _SMOOTHING * (loop.time() - begun_s - self._mean_s)
            self.num_running -= 1
            self._admit()

    async def _wait(self, caller: str) -> None:
        if self.num_running < self._max_running and not self._queues:
            self.num_running += 1
            return
        if self.num_queued >= self._max_queued:
            raise Problem(
                429,
                f"{self.num_queued} requests wait already, the most there may be. Try again in "
                f"{self.retry_after_s} s.",
                code="queue_full",
                headers={"Retry-After": str(self.retry_after_s)},
            )
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            self._leave(caller, turn)
            raise

    def _leave(self, caller: str, turn: asyncio.Future[None]) -> None:
        """Give up a place in the queue, or one that was given just now."""
        queue = self._queues.get(caller, deque())
        if turn in queue:
            queue.remove(turn)
            if not queue:
                del self._queues[caller]
        elif turn.done() and not turn.cancelled():
            self.num_running -= 1
            self._admit()

    def _admit(self) -> None:
        """Let who has waited longest of the next caller go on."""
        while self._queues and self.num_running < self._max_running:
            caller, queue = next(iter(self._queues.items()))
            turn = queue.popleft()
            self._queues.move_to_end(caller)
            if not queue:
                del self._queues[caller]
            if not turn.done():
                self.num_running += 1
                turn.set_result(None)
