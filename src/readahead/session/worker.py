"""One thread that reads ahead for what is being typed; knows no answers.

It does what is most urgent for the text as it stands, and leaves it within one model step when the
text has moved on or an answer runs. Where guesses of several sessions wait for the model, each
leaves it to the next after ``SLICE_S``, and goes on where it was when its turn has come again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal

from readahead.config import PrefetchConfig
from readahead.errors import InputError, ReadaheadError, outline
from readahead.lm.base import Cancelled
from readahead.session.line import (
    NOTHING,
    Typed,
    can_finish,
    next_change_s,
    stage_of,
    state_of,
    too_early_s,
)
from readahead.session.status import Status, titles_of
from readahead.speculation.retrieval.guess import Request
from readahead.speculation.retrieval.prefetch import Prefetcher
from readahead.trace import Trace
from readahead.turns import Turns

_Task = Literal["finish", "guess", "warm", "suggest"]
_URGENT = ("finish", "guess")  # for typed text; the others leave as soon as one of these waits
SLICE_S = 0.5  # of the model's time, before another session's guess for typed text
GOES_FIRST = "An answer is being written, which goes first."
FAULTY = "Nothing is read ahead in this conversation any more, after a fault."
_log = logging.getLogger("readahead.session")
_RETRY_S = 0.05  # until an answer of another session has ended


class Worker:
    """Guesses for a line that is being typed.

    Attributes:
        fault: A mistake of the program that ended the guessing; None as long as there was none.

    Args:
        prefetcher: Does the guessing.
        request: What it guesses for.
        turns: Who may use the model.
        config: What may be done ahead, and when.
        refresh: Called before each task, to drop what has become stale; returns if anything was.
        new_trace: Makes the trace that the first guess of a question begins.
        idle: What to do while the line is empty, between two turns; returns if it is done.
    """

    def __init__(
        self,
        prefetcher: Prefetcher,
        request: Request,
        turns: Turns,
        config: PrefetchConfig,
        *,
        refresh: Callable[[], bool],
        new_trace: Callable[[], Trace],
        idle: Callable[[Cancelled, Trace], bool],
    ) -> None:
        self.status = Status()
        self.fault: Exception | None = None
        self._prefetcher = prefetcher
        self._request = request
        self._turns = turns
        self._config = config
        self._refresh = refresh
        self._new_trace = new_trace
        self._idle = idle
        self._trace: Trace | None = None
        self._typed: Typed | None = None
        self._done: dict[_Task, tuple[str, bool]] = {}  # the text, and whether it was settled
        self._is_closed = False
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None

    def type(self, text: str) -> None:
        """Say what stands in the line now; returns at once."""
        now_s = time.monotonic()
        with self._wake:
            if not text.strip():
                self._typed = None
                self.status = Status()
            elif self._typed is None:
                self._typed = Typed(text, now_s, now_s)
            elif text != self._typed.text:
                self._typed = Typed(text, self._typed.first_s, now_s)
            self._start()

    @property
    def is_waiting(self) -> bool:
        """Return whether something is typed, and an answer has the model."""
        return self._typed is not None and self._turns.is_answering

    @property
    def has_begun(self) -> bool:
        """Return whether anything was ever guessed."""
        return self._thread is not None

    def take_line(self) -> Trace:
        """Empty the line, whose question was asked; return the trace that its guesses began."""
        with self._wake:
            trace, self._trace = self._trace, None
            self._typed = None
            self.status = Status()
        return trace or self._new_trace()

    def go_on(self) -> None:
        """Guess for the next question, perhaps typed already; the last one was answered."""
        with self._wake:
            self._trace = None
            self._done.clear()
            self._start()

    def begin_anew(self) -> None:
        """Do all for the line once more: the knowledge base has changed."""
        with self._wake:
            self._done.clear()
            self.status = Status()
            self._wake.notify_all()

    def _start(self) -> None:
        """Start the thread, or wake it."""
        if self._thread is None and self._config.enabled and not self._is_closed:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        self._wake.notify_all()

    @property
    def is_closed(self) -> bool:
        """Return whether there is no more guessing."""
        return self._is_closed

    def close(self) -> None:
        """Stop guessing, within one model step."""
        with self._wake:
            self._is_closed = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            self._work_until_over()
        except InputError:  # the engine was closed
            return
        except Exception as error:
            self.fault = error
            _log.exception("reading ahead ended")

    def _work_until_over(self) -> None:
        while True:
            with self._wake:
                while not self._is_over and (task := self._due()) is None:
                    self._wake.wait(self._patience_s())
                if self._is_over:
                    return
                typed = self._typed or NOTHING
            assert task is not None
            is_urgent = task in _URGENT
            self._turns.run_guess(partial(self._do, task, typed), is_urgent=is_urgent)

    @property
    def _is_over(self) -> bool:
        return self._is_closed or self.fault is not None

    def _due(self) -> _Task | None:
        """Return what is to be done for the line now."""
        typed = self._typed
        if self._turns.is_answering:
            return None
        if typed is None:
            return None if "suggest" in self._done else "suggest"
        if too_early_s(typed, self._config) > 0:
            return None
        state = state_of(typed, self._config)
        if can_finish(typed, self._config):
            # Once to read it all and, when no key has moved for long enough, once to decode.
            return None if self._done.get("finish") == stage_of(typed, self._config) else "finish"
        if self._done.get("guess") != state:
            return "guess"
        _, is_settled = state
        return "warm" if is_settled and self._done.get("warm") != state else None

    def _patience_s(self) -> float | None:
        """Return in how many seconds something may be due though no key is struck."""
        typed = self._typed
        if self._turns.is_answering:
            return _RETRY_S
        return None if typed is None else next_change_s(typed, self._config)

    def _do(self, task: _Task, typed: Typed) -> None:
        part, is_settled = state_of(typed, self._config)
        stage = stage_of(typed, self._config)
        gives_way = self._giving_way(task)

        def cancelled() -> bool:
            self._show_fetching()
            return self._is_outdated(task, typed, part) or gives_way()

        is_late = task not in _URGENT and self._turns.is_awaited
        if is_late or self._is_outdated(task, typed, part):  # while it waited for the model
            return
        # Held here, too: the answer may take it over before this step ends.
        trace = self._trace = self._trace or self._new_trace()
        fault = None
        try:
            if self._refresh():
                self.begin_anew()
                return
            is_done = self._step(task, typed, is_settled, stage[1], cancelled, trace)
            reason = self._prefetcher.reason
        except ReadaheadError as error:
            # A guess that fails costs nothing: the question, once asked, says what is wrong. What
            # it had half read is not relied on.
            self._prefetcher.reset()
            _log.warning("a guess failed", exc_info=True)  # the log decides if its text is told
            is_done, reason = True, outline(error)
        # Nor must a fault of ours cost more than the reading ahead of this session.
        except Exception as error:
            self._prefetcher.reset()
            _log.exception("reading ahead ended")
            is_done, reason, fault = True, f"a fault: {outline(error)}", error
        with self._wake:
            if is_done:
                self._done[task] = stage if task == "finish" else (part, is_settled)
            if self._typed is not None:
                self.status = Status.of(self._prefetcher, reason)
            self.fault = fault

    def _giving_way(self, task: _Task) -> Cancelled:
        """Return what tells between the steps of ``task`` whether another session's turn has come.

        A guess for typed text goes on behind its search at least, however long that took.
        """
        if task not in _URGENT:
            return lambda: self._turns.is_awaited
        end_s, has_begun = time.monotonic() + SLICE_S, False

        def gives_way() -> bool:
            nonlocal has_begun
            had_begun, has_begun = has_begun, True
            return had_begun and self._turns.is_awaited and time.monotonic() >= end_s

        return gives_way

    def _show_fetching(self) -> None:
        """Tell what is about to be read: on a slow machine that takes a while."""
        titles = titles_of(self._prefetcher.prompt)
        with self._wake:
            if self._typed is not None:
                self.status = replace(self.status, fetching=titles, reason="")

    def _step(
        self,
        task: _Task,
        typed: Typed,
        is_settled: bool,
        is_resting: bool,
        cancelled: Callable[[], bool],
        trace: Trace,
    ) -> bool:
        """Do a task; return whether it is done for this text."""
        prefetcher, request = self._prefetcher, self._request
        if task == "suggest":
            return self._idle(cancelled, trace)
        if task == "finish":
            return prefetcher.finish(
                typed.text, request, decodes=is_resting, cancelled=cancelled, trace=trace
            )
        if task == "warm":
            return prefetcher.warm(request, cancelled=cancelled, trace=trace)
        now_s = time.monotonic()
        return prefetcher.guess(
            typed.text,
            request,
            since_first_s=now_s - typed.first_s,
            since_last_s=now_s - typed.last_s,
            is_settled=is_settled,
            cancelled=cancelled,
            trace=trace,
        )

    def _is_outdated(self, task: _Task, typed: Typed, part: str) -> bool:
        """Return whether something else is more urgent than ``task``."""
        now = self._typed
        if self._is_closed or self._turns.is_answering:
            return True
        if now is None or task == "suggest":
            return now is not None or task != "suggest"
        if task != "guess":
            return now.text != typed.text
        return can_finish(now, self._config) or state_of(now, self._config)[0] != part
