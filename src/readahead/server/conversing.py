"""The conversations of a tenant that clients hold by ids: bounded, and forgotten when idle.

So is the memory of what they have read: those that are idle longest give theirs back.

Nobody finds a session by guessing: ids are random, and each tenant has a store of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from readahead.server.problems import Problem
from readahead.server.served import Clock, ServedSession, gone
from readahead.session import DocumentChat, Session


class Sessions:
    """The conversations of one tenant.

    Args:
        max_sessions: Beyond, the one idle longest goes; one that is answering never does.
        idle_s: Until a session is forgotten.
        clock: Tells seconds.
        budget_bytes: Returns the memory that what they have read may take, all together; None: any.
    """

    def __init__(
        self,
        max_sessions: int,
        idle_s: float,
        clock: Clock = time.monotonic,
        *,
        budget_bytes: Callable[[], int] | None = None,
    ) -> None:
        self._max_sessions = max_sessions
        self._idle_s = idle_s
        self._clock = clock
        self._budget_bytes = budget_bytes
        self._sessions: dict[str, ServedSession] = {}
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[ServedSession]:
        """Return those that are open, in the order of their making."""
        with self._lock:
            return iter([one for one in self._sessions.values() if not self._is_over(one)])

    def open(
        self, about: Session | DocumentChat, settings: dict[str, object] | None = None
    ) -> ServedSession:
        """Keep a conversation, and return it with its id.

        Raises:
            Problem: 429, there is no room: all are answering.
        """
        self.expire()
        session = ServedSession(
            about, settings or {}, clock=self._clock, on_answered=self.release_surplus
        )
        try:
            with self._lock:
                oldest = self._make_room()
                self._sessions[session.id] = session
        except Problem:
            session.close()
            raise
        if oldest is not None:
            oldest.close()
        return session

    def get(self, id: str) -> ServedSession:
        """Return a session; waits for nothing.

        Raises:
            NotFound: There is none with this id, or it was idle for too long.
        """
        with self._lock:
            session = self._sessions.get(id)
        if session is None or self._is_over(session):
            raise gone()
        return session

    def remove(self, id: str) -> None:
        """Close a session for good; an answer that runs ends within one model step.

        Raises:
            NotFound: There is none with this id.
        """
        session = self.get(id)
        with self._lock:
            self._sessions.pop(id, None)
        session.close()

    @property
    def num_bytes(self) -> int:
        """Return the memory that what they have read takes, beside the prefix tree."""
        return sum(session.num_bytes for session in self)

    def release_surplus(self) -> None:
        """Have those that are idle longest give memory back, until all fit into the budget.

        One that answers or is typed into keeps its own.
        """
        held = {one: num for one in self if (num := one.num_bytes)}
        if self._budget_bytes is None or not held:
            return
        surplus = sum(held.values()) - self._budget_bytes()
        for session in sorted(held, key=lambda one: -one.idle_s):
            if surplus <= 0:
                return
            surplus -= session.release()

    def expire(self) -> None:
        """Close those that were idle for too long, and see to the memory of the others."""
        with self._lock:
            over = [one for one in self._sessions.values() if self._is_over(one) and one.retire()]
            for session in over:
                del self._sessions[session.id]
        for session in over:
            session.close()
        self.release_surplus()

    def close(self) -> None:
        """Close all."""
        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()
        for session in sessions:
            session.close()

    def _is_over(self, session: ServedSession) -> bool:
        return session.idle_s > self._idle_s

    def _make_room(self) -> ServedSession | None:
        """Take the session that is idle longest out if there are as many as there may be."""
        if len(self._sessions) < self._max_sessions:
            return None
        for session in sorted(self._sessions.values(), key=lambda one: -one.idle_s):
            if session.retire():
                return self._sessions.pop(session.id)
        raise Problem(
            429,
            f"All {self._max_sessions} sessions are answering. Close one, or wait for an answer.",
            code="too_many_sessions",
            headers={"Retry-After": "5"},
        )
