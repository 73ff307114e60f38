"""Read the citation markers that models write themselves; knows no passages."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

_LIST = r"\d{1,2}(?:\s*(?:[,，、;；&]|and|和|[-–])\s*\d{1,2})*"
_NOUN = r"(?:passages?|sources?|documents?|docs?|citations?|references?|refs?|段落|来源|资料|文献)"
_MARKER_RE = re.compile(
    rf"\[\^?(?:{_NOUN}\s*)?(?P<square>{_LIST})\]"
    rf"|【(?:{_NOUN}\s*)?(?P<lens>{_LIST})】"
    rf"|[(（]{_NOUN}\s*(?P<round>{_LIST})[)）]",
    re.IGNORECASE,
)
_TICKS_RE = re.compile("`+")
_IDENTIFIER_RE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z|\]\Z")
_RANGE_RE = re.compile(r"(\d+)\s*[-–]\s*(\d+)|(\d+)")


@dataclass(frozen=True, slots=True)
class Markers:
    """A text without its markers.

    Attributes:
        indices: The passages that the markers name, counted from 1, each once, in order.
    """

    text: str
    indices: tuple[int, ...]

    @classmethod
    def read(cls, text: str) -> Markers:
        """Take the markers out of ``text``: [1], [1, 2], [1][2], 【1】, [passage 2].

        Code is left alone: what stands in backticks, or directly after an identifier as in
        ``a[1]``, is no marker.
        """
        code = _Code(text)
        kept: list[str] = []
        indices: list[int] = []
        position = 0
        for match in _MARKER_RE.finditer(text):
            named = _named(match)
            is_index = match["square"] and _is_subscript(text, match.start(), position)
            if not named or is_index or match.start() in code:
                continue
            before = text[position : match.start()].rstrip(" \t")
            kept.append(before)
            indices += named
            position = match.end()
        stripped = "".join([*kept, text[position:]])
        if kept and not kept[0]:
            stripped = stripped.lstrip()
        return cls(stripped, tuple(dict.fromkeys(indices)))


class _Code:
    """Where a text has code: from a run of backticks to the next one of that length (CommonMark).

    Linear in the text, whatever it is: texts come from clients, too.
    """

    def __init__(self, text: str) -> None:
        runs = [match.span() for match in _TICKS_RE.finditer(text)]
        closing: dict[int, int] = {}  # by opening run
        latest: dict[int, int] = {}  # by length
        for number in reversed(range(len(runs))):
            start, end = runs[number]
            if (close := latest.get(end - start)) is not None:
                closing[number] = close
            latest[end - start] = number
        self._starts: list[int] = []
        self._ends: list[int] = []
        number = 0
        while number < len(runs):
            if (close := closing.get(number)) is not None:
                self._starts.append(runs[number][0])
                self._ends.append(runs[close][1])
                number = close
            number += 1

    def __contains__(self, position: int) -> bool:
        """Return whether there is code at ``position``."""
        before = bisect_right(self._starts, position) - 1
        return before >= 0 and position < self._ends[before]


def _named(match: re.Match[str]) -> list[int]:
    """Return the indices that a marker names; none if one of them is 0."""
    listed: list[int] = []
    for first, last, single in _RANGE_RE.findall(
        match["square"] or match["lens"] or match["round"]
    ):
        listed += range(int(first), int(last) + 1) if first else [int(single)]
    return listed if 0 not in listed else []


def _is_subscript(text: str, start: int, position: int) -> bool:
    """Return whether what begins at ``start`` follows code; a marker ending there is none."""
    return start > position and _IDENTIFIER_RE.search(text, max(0, start - 40), start) is not None
