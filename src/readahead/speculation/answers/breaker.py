"""A circuit breaker: stop asking a part that fails, and try it again later; knows no part."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal

State = Literal["closed", "open", "half-open"]


class Breaker:
    """Counts failures in a row; may be used from several threads.

    - ``closed``: the part is used. After ``num_failures`` in a row it becomes ``open``.
    - ``open``: the part is left alone for ``retry_after_s``.
    - ``half-open``: one trial is allowed. If it succeeds the breaker closes, if it fails it opens
      again. A trial that never reports, because it was cancelled, is given up after
      ``retry_after_s``, and another is allowed.

    Who was not allowed has nothing to report. A request that was allowed before the breaker opened
    and reports afterwards is not heard, unless a trial runs: then it is taken for the trial.

    Args:
        num_failures: In a row, after which the breaker opens.
        retry_after_s: Seconds from opening, or from the last trial, to the next trial.
        now_s: The clock; it never goes back.

    Raises:
        ValueError: ``num_failures`` is below 1.
    """

    def __init__(
        self,
        num_failures: int = 3,
        retry_after_s: float = 30.0,
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        if num_failures < 1:
            raise ValueError(f"num_failures is {num_failures}; a breaker needs at least 1")
        self._num_failures = num_failures
        self._retry_after_s = retry_after_s
        self._now_s = now_s
        self._lock = threading.Lock()
        self._num_in_a_row = 0
        self._waits_since_s: float | None = None  # None while closed
        self._is_on_trial = False
        self._reason = ""

    @property
    def state(self) -> State:
        """Return the state at this moment."""
        with self._lock:
            if self._waits_since_s is None:
                return "closed"
            return "half-open" if self._is_on_trial or self._has_waited() else "open"

    @property
    def reason(self) -> str:
        """Return why the last of the failures in a row failed; empty after a success."""
        with self._lock:
            return self._reason

    def allow(self) -> bool:
        """Return whether the part may be used now; who was allowed reports how it went."""
        with self._lock:
            if self._waits_since_s is None:
                return True
            if not self._has_waited():
                return False
            self._waits_since_s = self._now_s()
            self._is_on_trial = True
            return True

    def succeeded(self) -> None:
        """Report that the part did its work."""
        with self._lock:
            if self._is_heard():
                self._waits_since_s = None
                self._is_on_trial = False
                self._num_in_a_row = 0
                self._reason = ""

    def failed(self, reason: str) -> None:
        """Report that the part failed, or took too long."""
        with self._lock:
            if not self._is_heard():
                return
            self._reason = reason
            self._num_in_a_row += 1
            if self._is_on_trial or self._num_in_a_row >= self._num_failures:
                self._waits_since_s = self._now_s()
                self._is_on_trial = False

    def _has_waited(self) -> bool:
        assert self._waits_since_s is not None
        return self._now_s() - self._waits_since_s >= self._retry_after_s

    def _is_heard(self) -> bool:
        return self._waits_since_s is None or self._is_on_trial
