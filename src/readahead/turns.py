"""Who may use the model: answers before guesses, one step at a time; knows no model."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class Turns:
    """Shared by all that runs on one model.

    A guess holds the model while it runs, asks ``is_answering`` between its steps, and leaves when
    it is true; so an answer waits for one step of a guess at most, and is never slowed by one.
    """

    def __init__(self) -> None:
        self._model = threading.Lock()
        self._count = threading.Lock()
        self._num_answers = 0

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

    @contextmanager
    def step(self) -> Iterator[None]:
        """Have the model for the ``with`` body."""
        with self._model:
            yield

    def steps(self, items: Iterator[T]) -> Iterator[T]:
        """Yield ``items``, having the model while each is made, not while it is used."""
        while True:
            with self._model:
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item
