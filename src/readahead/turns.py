"""Who may use the model: answers before guesses, one step at a time; knows no model."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Literal, TypeVar

from readahead.errors import InputError
from readahead.trace import Trace

T = TypeVar("T")


class Turns:
    """One thread that has the model; shared by all that runs on it.

    A guess keeps the thread while it runs, asks ``is_answering`` between its steps, and leaves when
    it is true; so an answer waits for one step of a guess at most, and is never slowed by one. It
    asks ``is_awaited``, too, for guesses take turns among themselves.

    It is a thread, not a lock, because each thread that computes in parallel has workers of its
    own: with two such threads there are more workers than cores, and each step takes longer.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "model", self._enter)
        self._ident: int | None = None
        self._count = threading.Lock()
        self._num_answers = 0
        self._urgent: set[object] = set()  # guesses that have not begun
        self._interrupted: set[int] = set()  # threads whose waiting was interrupted
        self._waiting: deque[Callable[[], None]] = deque()
        self._beginning: deque[Callable[[], None]] = deque()
        self._is_long = False
        self._between: Literal["", "step", "beginning"] = ""  # what is made between two steps
        self._given_s = 0.0

    def close(self) -> None:
        """End the thread once it is idle."""
        self._thread.shutdown(wait=False)

    @property
    def is_answering(self) -> bool:
        """Return whether an answer runs, or waits for its first step."""
        return self._num_answers > 0

    @property
    def is_awaited(self) -> bool:
        """Return whether an urgent guess has not begun yet: one that runs is to leave soon."""
        return bool(self._urgent)

    @contextmanager
    def answer(self) -> Iterator[None]:
        """Keep guesses away during the ``with`` body."""
        with self._count:
            self._num_answers += 1
        try:
            yield
        finally:
            with self._count:
                self._num_answers -= 1

    def run_guess(self, function: Callable[[], T], *, is_urgent: bool) -> T:
        """Return what ``function`` returns; until it begins, ``is_awaited`` if it is urgent.

        Raises:
            InputError: The thread was ended.
        """
        if not is_urgent:
            return self.run(function)
        guess = object()

        def begin() -> T:
            self._urgent.discard(guess)
            return function()

        self._urgent.add(guess)
        try:
            return self.run(begin)
        finally:
            self._urgent.discard(guess)  # also where it never began

    def run_later(self, function: Callable[[], object]) -> None:
        """Have ``function`` run by the thread that has the model, once it is free; do not wait.

        Nothing happens where the thread was ended.
        """
        with suppress(RuntimeError):
            self._thread.submit(function)

    def run_long(self, function: Callable[[], T], *, trace: Trace | None = None) -> T:
        """Return what ``function`` returns; between its steps other answers may begin, too.

        Args:
            function: Asks ``cancelled`` between its steps.
            trace: Gets a ``wait`` span, until it begins.

        Raises:
            InputError: The thread was ended.
        """

        def alone() -> T:
            self._is_long = True
            try:
                return function()
            finally:
                self._is_long = False

        return self.run(alone, trace=trace)

    def run(
        self,
        function: Callable[[], T],
        *,
        is_step: bool = False,
        begins: bool = False,
        trace: Trace | None = None,
    ) -> T:
        """Return what ``function`` returns, run by the thread that has the model.

        Args:
            function: Asks ``cancelled`` between its steps, if it has several.
            is_step: Whether it is one short step of an answer, which may go first between two steps
                of something longer.
            begins: Whether an answer begins with it, which may go between two steps of
                ``run_long``.
            trace: Gets a ``wait`` span, until the thread is free for it.

        Raises:
            InputError: The thread was ended.
        """
        if threading.get_ident() == self._ident:
            return function()
        with ExitStack() as waiting:
            if trace is not None:
                waiting.enter_context(trace.span("wait"))
                function = _first(waiting.close, function)
            return self._wait_for(function, is_step=is_step, begins=begins)

    def _wait_for(self, function: Callable[[], T], *, is_step: bool, begins: bool) -> T:
        try:
            if is_step or begins:
                future = self._queued(function, self._waiting if is_step else self._beginning)
            else:
                future = self._thread.submit(function)
        except RuntimeError:
            raise InputError("The engine is closed.", remedy="Open another one.") from None
        try:
            return future.result()
        except BaseException:
            self._end(future)
            raise

    def _end(self, future: Future[T]) -> None:
        """Wait for the end of a step of this thread's answer, which is to come soon.

        Nobody may touch what it works on before, however often the waiting is interrupted.
        """
        caller = threading.get_ident()
        self._interrupted.add(caller)
        try:
            while not future.done():
                with suppress(KeyboardInterrupt):
                    wait([future])
        finally:
            self._interrupted.discard(caller)

    def or_interrupted(self, cancelled: Callable[[], bool]) -> Callable[[], bool]:
        """Return what is true if ``cancelled`` is, or an interrupt waits for the running step.

        An interrupt counts in the thread that calls this: it ends no answer of another one. It is
        asked between two steps; the waiting steps of other answers go first then, so nobody
        who is being answered waits for another's whole prompt or drafts.
        """
        caller = threading.get_ident()

        def between() -> bool:
            self._give_way()
            return caller in self._interrupted or cancelled()

        return between

    def steps(
        self, items: Generator[T], *, is_step: bool = False, trace: Trace | None = None
    ) -> Iterator[T]:
        """Yield ``items``, having the model while each is made, not while it is used.

        Args:
            items: Made by the thread that has the model.
            is_step: Whether the first one is a short step, too; it may read a whole prompt.
            trace: Gets a ``wait`` span, until the first one is begun.
        """

        def make() -> T | _End:
            return next(items, _END)

        try:
            while (item := self.run(make, is_step=is_step, begins=True, trace=trace)) is not _END:
                assert not isinstance(item, _End)
                yield item
                is_step, trace = True, None
        finally:
            self.run(items.close, is_step=True)

    def _queued(self, function: Callable[[], T], queue: deque[Callable[[], None]]) -> Future[T]:
        future: Future[T] = Future()
        queue.append(partial(_resolve, future, function))
        self._thread.submit(self._next, queue)
        return future

    @staticmethod
    def _next(queue: deque[Callable[[], None]]) -> None:
        """Make the step that has waited longest, if it was not made in between."""
        step = None
        with suppress(IndexError):
            step = queue.popleft()
        if step is not None:
            step()

    @property
    def given_s(self) -> float:
        """Return how long what ran has stood aside for others, all together."""
        return self._given_s

    def _give_way(self) -> None:
        """Make each step that waits now, and, where something long runs, let answers begin.

        Only the thread that has the model does. What begins may read a whole prompt: between its
        steps those that wait go first, too, but none begins; a step gives way to nobody.
        """
        if threading.get_ident() != self._ident or self._between == "step":
            return
        begun_s, is_outermost = time.monotonic(), not self._between
        self._make_all("step", self._waiting)
        if self._is_long and is_outermost:
            self._make_all("beginning", self._beginning)
        if is_outermost:
            self._given_s += time.monotonic() - begun_s

    def _make_all(
        self, kind: Literal["step", "beginning"], queue: deque[Callable[[], None]]
    ) -> None:
        around, self._between = self._between, kind
        try:
            for _ in range(len(queue)):
                self._next(queue)
        finally:
            self._between = around

    def _enter(self) -> None:
        self._ident = threading.get_ident()


def _first(do: Callable[[], object], function: Callable[[], T]) -> Callable[[], T]:
    """Return ``function`` with ``do`` done in front of it."""

    def both() -> T:
        do()
        return function()

    return both


def _resolve(future: Future[T], function: Callable[[], T]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)


class _End:
    """Stands behind the last item."""


_END = _End()
