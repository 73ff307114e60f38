"""Who may use the model: answers before guesses, one step at a time; knows no model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

from readahead.errors import InputError

T = TypeVar("T")


class Turns:
    """One thread that has the model; shared by all that runs on it.

    A guess keeps the thread while it runs, asks ``is_answering`` between its steps, and leaves when
    it is true; so an answer waits for one step of a guess at most, and is never slowed by one.

    It is a thread, not a lock, because each thread that computes in parallel has workers of its
    own: with two such threads there are more workers than cores, and each step takes longer.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "model", self._enter)
        self._ident: int | None = None
        self._count = threading.Lock()
        self._num_answers = 0
        self._is_interrupted = False

    def close(self) -> None:
        """End the thread once it is idle."""
        self._thread.shutdown(wait=False)

    @property
    def is_answering(self) -> bool:
        """Return whether an answer runs, or waits for its first step."""
        return self._num_answers > 0

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

    def run(self, function: Callable[[], T]) -> T:
        """Return what ``function`` returns, run by the thread that has the model.

        Raises:
            InputError: The thread was ended.
        """
        if threading.get_ident() == self._ident:
            return function()
        try:
            future: Future[T] = self._thread.submit(function)
        except RuntimeError:
            raise InputError("The engine is closed.", remedy="Open another one.") from None
        try:
            return future.result()
        except BaseException:
            # An interrupt ends the waiting; nobody may touch what the step works on before it ends.
            self._is_interrupted = True
            wait([future])
            self._is_interrupted = False
            raise

    def or_interrupted(self, cancelled: Callable[[], bool]) -> Callable[[], bool]:
        """Return what is true if ``cancelled`` is, or an interrupt waits for the running step."""
        return lambda: self._is_interrupted or cancelled()

    def steps(self, items: Generator[T]) -> Iterator[T]:
        """Yield ``items``, having the model while each is made, not while it is used."""
        try:
            while (item := self.run(lambda: next(items, _END))) is not _END:
                assert not isinstance(item, _End)
                yield item
        finally:
            self.run(items.close)

    def _enter(self) -> None:
        self._ident = threading.get_ident()


class _End:
    """Stands behind the last item."""


_END = _End()
