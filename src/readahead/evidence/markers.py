"""Read the citation markers that models write themselves; knows no passages."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LIST = r"\d{1,2}(?:\s*(?:[,，、;；&]|and|和|[-–])\s*\d{1,2})*"
_NOUN = r"(?:passages?|sources?|documents?|docs?|citations?|references?|refs?|段落|来源|资料|文献)"
_MARKER_RE = re.compile(
    rf"\[\^?(?:{_NOUN}\s*)?(?P<square>{_LIST})\]"
    rf"|【(?:{_NOUN}\s*)?(?P<lens>{_LIST})】"
    rf"|[(（]{_NOUN}\s*(?P<round>{_LIST})[)）]",
    re.IGNORECASE,
)
_CODE_RE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
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
        code = [match.span() for match in _CODE_RE.finditer(text)]
        kept: list[str] = []
        indices: list[int] = []
        position = 0
        for match in _MARKER_RE.finditer(text):
            named = _named(match)
            in_code = any(start <= match.start() < end for start, end in code)
            is_index = match["square"] and _is_subscript(text, match.start(), position)
            if not named or in_code or is_index:
                continue
            before = text[position : match.start()].rstrip(" \t")
            kept.append(before)
            indices += named
            position = match.end()
        stripped = "".join([*kept, text[position:]])
        if kept and not kept[0]:
            stripped = stripped.lstrip()
        return cls(stripped, tuple(dict.fromkeys(indices)))


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
