"""Fewer and shorter passages, for a prompt that may not be as long; knows no tokens."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace

from readahead.text import sentences
from readahead.types import Passage


def fit_passages(
    passages: Sequence[Passage], fits: Callable[[Sequence[Passage]], bool]
) -> tuple[Passage, ...]:
    """Return the first of ``passages`` that fit; the last of them may end earlier, at a sentence.

    The best passages stay whole: what is shortened is the first that does not fit, and what comes
    behind it is dropped. To shorten all alike would cut the likely answer as well. A shortened
    passage is a passage: its text is the document's text from ``start`` to its new ``end``.

    Args:
        passages: Best first.
        fits: Whether a prompt may show these; for instance, that ``build_prompt`` drops none.
    """
    num_whole = _num_fitting(len(passages), lambda num: fits(passages[:num]))
    whole = tuple(passages[:num_whole])
    if num_whole == len(passages):
        return whole
    cut = passages[num_whole]
    ends = [end for _, end in sentences(cut.text)]
    num_ends = _num_fitting(len(ends), lambda num: fits((*whole, _until(cut, ends[num - 1]))))
    return (*whole, _until(cut, ends[num_ends - 1])) if num_ends else whole


def _until(passage: Passage, end: int) -> Passage:
    return replace(passage, text=passage.text[:end], end=passage.start + end)


def _num_fitting(most: int, fits: Callable[[int], bool]) -> int:
    """Return how many of ``most`` fit, if of fewer as many do."""
    return bisect_left(range(1, most + 1), True, key=lambda num: not fits(num))
