"""A person at the keyboard, for measurements: types in real time; knows no documents."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

WORDS_PER_S = 3.0
PAUSE_S = 0.35  # between the last stroke and Enter


def strokes(text: str, words_per_s: float = WORDS_PER_S) -> Iterator[tuple[float, str]]:
    """Yield when each key is struck, in seconds from the beginning, and what then stands there.

    A word takes as long as any other; its strokes share the time evenly. Scripts without spaces are
    typed at two characters a word.
    """
    elapsed_s, typed = 0.0, ""
    for word in _words(text):
        for char in word:
            elapsed_s += 1 / (words_per_s * len(word))
            typed += char
            yield elapsed_s, typed


def type_out(
    text: str,
    type: Callable[[str], object],
    *,
    words_per_s: float = WORDS_PER_S,
    pause_s: float = PAUSE_S,
) -> None:
    """Call ``type`` at each stroke, in real time, and return when Enter is struck."""
    began_s = time.monotonic()
    at_s = 0.0
    for at_s, typed in strokes(text, words_per_s):
        time.sleep(max(0.0, began_s + at_s - time.monotonic()))
        type(typed)
    time.sleep(max(0.0, began_s + at_s + pause_s - time.monotonic()))


def _words(text: str) -> Iterator[str]:
    """Yield words with the space in front of them; long runs without spaces in pairs."""
    for index, word in enumerate(text.split(" ")):
        spaced = word if index == 0 else f" {word}"
        if word.isascii():
            yield spaced
        else:
            yield from (spaced[at : at + 2] for at in range(0, len(spaced), 2))
