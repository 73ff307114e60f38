"""The end of a server: running requests finish, new ones do not begin; knows no HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Draining:
    """Counts the requests that run; used by one event loop.

    Attributes:
        has_begun: Whether no new request may begin.
        num_running: Of requests that change something or ask for an answer.
    """

    def __init__(self) -> None:
        self.has_begun = False
        self.num_running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count one request during the ``with`` body."""
        self.num_running += 1
        self._idle.clear()
        try:
            yield
        finally:
            self.num_running -= 1
            if not self.num_running:
                self._idle.set()

    async def finish(self, timeout_s: float) -> None:
        """Let no new request begin, and wait for those that run, but not for ever."""
        self.has_begun = True
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), timeout_s)
