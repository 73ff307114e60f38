"""How much each key may use: tokens a day, requests a minute; knows no HTTP but its refusals.

Tokens are counted once an answer is done, so a day's budget is exceeded at most by the answers that
were running when it ended. They survive a restart; the requests of the last minute do not.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from readahead.config import ServerConfig
from readahead.server.guard.files import write_json
from readahead.server.guard.keys import Key
from readahead.server.problems import Problem

if TYPE_CHECKING:
    from readahead.server.state import Caller

FILE_NAME = "budgets.json"
DAY_S = 86_400  # in UTC
MINUTE_S = 60.0
_log = logging.getLogger("readahead.server")


class Budgets:
    """Counts what keys use; one event loop and any threads may tell it.

    Args:
        folder: Of the knowledge base.
        config: The limits of keys that have none of their own.
        now_s: The time since 1970.
    """

    def __init__(
        self, folder: Path, config: ServerConfig, now_s: Callable[[], float] = time.time
    ) -> None:
        self._path = folder / FILE_NAME
        self._config = config
        self._now_s = now_s
        self._day, self._tokens = _read(self._path)
        self._requests: defaultdict[str, deque[float]] = defaultdict(deque)
        self._spending = threading.Lock()

    def count_request(self, key: Key) -> None:
        """Count a request.

        Raises:
            Problem: 429, there were too many within a minute; this one does not count.
        """
        limit = key.requests_per_minute or self._config.requests_per_minute
        if limit is None:
            return
        now_s, times_s = self._now_s(), self._requests[key.name]
        while times_s and not 0 <= now_s - times_s[0] < MINUTE_S:  # clocks are set back, too
            times_s.popleft()
        if len(times_s) >= limit:
            wait_s = MINUTE_S - (now_s - times_s[0])
            raise _exhausted("requests", f"{limit} requests a minute", wait_s)
        times_s.append(now_s)

    def check_tokens(self, key: Key) -> None:
        """Raise Problem, 429, if the key has used its tokens of today."""
        limit = key.tokens_per_day or self._config.tokens_per_day
        if limit is not None and self.num_tokens(key.name) >= limit:
            wait_s = DAY_S - self._now_s() % DAY_S
            raise _exhausted("tokens", f"{limit} tokens a day", wait_s)

    def num_tokens(self, name: str) -> int:
        """Return how many tokens a key has used today; waits for nothing."""
        return self._tokens[name] if self._day == self._today() else 0

    def spend(self, caller: Caller, num_tokens: int) -> None:
        """Count tokens that were read and written for somebody; without a key, nothing."""
        if not caller.key or not num_tokens:
            return
        with self._spending:  # also while it is written: the last count is to be the one that stays
            if (today := self._today()) != self._day:
                self._day, self._tokens = today, Counter()
            self._tokens[caller.key] += num_tokens
            self._write()

    def _write(self) -> None:
        try:  # not synced: a power failure may cost a count, a sync would cost every answer time
            write_json(
                self._path, {"day": self._day, "tokens": dict(self._tokens)}, is_synced=False
            )
        except OSError as error:
            _log.warning("budgets cannot be written: %s", error.strerror)

    def _today(self) -> int:
        return int(self._now_s() // DAY_S)


def _read(path: Path) -> tuple[int, Counter[str]]:
    """Return the last day and its tokens; a damaged file begins the day anew."""
    with suppress(FileNotFoundError):
        try:
            kept = json.loads(path.read_bytes())
            return int(kept["day"]), Counter({str(k): int(n) for k, n in kept["tokens"].items()})
        except (ValueError, TypeError, KeyError, AttributeError):
            _log.warning("%s is damaged: all budgets begin anew", path)
    return 0, Counter()


def _exhausted(what: str, limit: str, wait_s: float) -> Problem:
    wait = max(1, math.ceil(wait_s))
    return Problem(
        429,
        f"This key may use {limit}, and has. Try again in {wait} s.",
        code=f"{what}_exhausted",
        headers={"Retry-After": str(wait)},
    )
