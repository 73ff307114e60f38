"""Find text that stands verbatim, or nearly, in a passage, however it was typeset.

Two texts are the same if their normal forms are: compatibility characters (NFKC: ligatures,
full-width forms), case, dashes, quotes and white space make no difference, and format characters
(zero-width spaces, soft hyphens) none at all. Every character of a normal form knows where it came
from, so what is found is a span of the text as stored.
"""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from readahead.text import is_cjk

NEAR_SHARE = 0.85  # of the text sought, in one run
MIN_NEAR_CHARS = 12
MAX_NEAR_CHARS = 1000  # of a longer text nobody looks for a near quotation

# Characters that only change their case, as long as no accent follows the last of them.
_PLAIN_RE = re.compile(r"[!-~]+(?![^\x00-\x7f])")
_QUOTES = {ord(char): '"' for char in "“”„‟«»「」『』〝〞"} | {ord(char): "'" for char in "‘’‚‛′"}

_MINUS_RE = re.compile(r"(?:(?<!.)|[\s(])[-−]\Z")


@dataclass(frozen=True, slots=True)
class Normal:
    """The normal form of a text.

    Attributes:
        starts: For each character, where the characters that it stands for begin in the source.
        ends: Where they end.
    """

    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def squeezed(self) -> Normal:
        """Return the same without spaces."""
        kept = [i for i, char in enumerate(self.text) if char != " "]
        return Normal(
            self.text.replace(" ", ""),
            tuple(self.starts[i] for i in kept),
            tuple(self.ends[i] for i in kept),
        )

    def source(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of the source behind ``text[start:end]``, which must not be empty.

        Its normal form is ``text[start:end]``; it is more where a character of the source became
        several of which only some are asked for, as the f of the ligature ﬁ.
        """
        return self.starts[start], self.ends[end - 1]


@dataclass(frozen=True, slots=True)
class Run:
    """Where a text stands in a passage, in positions of the passage."""

    start: int
    end: int
    kind: Literal["verbatim", "near"]


def normalize(text: str) -> Normal:
    """Return the normal form; a run of white space becomes one space."""
    kept: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    position = 0
    while position < len(text):
        if plain := _PLAIN_RE.match(text, position):
            kept += plain[0].lower()
            starts += range(position, plain.end())
            ends += range(position + 1, plain.end() + 1)
            position = plain.end()
            continue
        end = _cluster_end(text, position)
        for char in _normal(text[position:end]):
            if char != " " or not kept or kept[-1] != " ":
                kept.append(char)
                starts.append(position)
                ends.append(end)
        position = end
    return Normal("".join(kept), tuple(starts), tuple(ends))


def find_run(sought: Normal, passage: Normal, source: str) -> Run | None:
    """Return where ``sought`` stands in a passage, whole or nearly; both without spaces.

    White space counts for nothing: a line break, or "ﬁ eld" for "field", hides no quotation. Whole
    means between the borders of words; nearly, that at least 12 characters and 85 % of the text
    stand there in one run; texts of more than 1000 characters are found whole only.

    Args:
        sought: The normal form of the text sought.
        passage: The normal form of ``source``.
        source: The passage itself.
    """
    if not sought.text:
        return None
    position = passage.text.find(sought.text)
    while position >= 0:
        start, end = passage.source(position, position + len(sought.text))
        if _is_whole(source, start, end):
            return Run(start, end, "verbatim")
        position = passage.text.find(sought.text, position + 1)
    if len(sought.text) > MAX_NEAR_CHARS:
        return None
    length = max(MIN_NEAR_CHARS, math.ceil(NEAR_SHARE * len(sought.text)))
    for first in range(len(sought.text) - length + 1):
        position = passage.text.find(sought.text[first : first + length])
        if position >= 0:
            return Run(
                *passage.source(*_extended(sought.text, passage.text, first, position)), "near"
            )
    return None


def _extended(sought: str, passage: str, first: int, position: int) -> tuple[int, int]:
    """Return the longest run of both texts from these positions on."""
    start, end = position, position
    while first < len(sought) and end < len(passage) and sought[first] == passage[end]:
        first, end = first + 1, end + 1
    return start, end


def _is_whole(text: str, start: int, end: int) -> bool:
    """Return whether ``[start, end)`` cuts no word and no number: 5 is not in 1.5, 5,000 or -5."""
    if text[start].isdigit() and _MINUS_RE.search(text, max(0, start - 2), start):
        return False
    return not _joins(text[max(0, start - 2) : start][::-1], text[start]) and not _joins(
        text[end : end + 2], text[end - 1]
    )


def _joins(beyond: str, edge: str) -> bool:
    """Return whether the characters beyond an edge, nearest first, go on with its word."""
    if not beyond or not edge.isalnum() or is_cjk(edge):
        return False
    if edge.isdigit() and beyond[0] in ".,":
        return beyond[1:].isdigit()
    return beyond[0].isalnum() and not is_cjk(beyond[0])


def _cluster_end(text: str, start: int) -> int:
    """Return where the characters end that are normalised together: a letter and its marks."""
    end = start + 1
    while end < len(text) and _is_mark(text[end]):
        end += 1
    return end


def _is_mark(char: str) -> bool:
    """Return whether ``char`` may melt into the one before: accents, vowels of hangul, ﾞ and ﾟ."""
    return char > "\u02ff" and (
        unicodedata.combining(char) > 0 or "\u1160" <= char <= "\u11ff" or char in "\uff9e\uff9f"
    )


@lru_cache(maxsize=8192)
def _normal(cluster: str) -> str:
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", cluster).casefold())
    return "".join(map(_plain, folded.translate(_QUOTES)))


def _plain(char: str) -> str:
    category = unicodedata.category(char)
    if category == "Cf":
        return ""
    if char.isspace() or category == "Cc":
        return " "
    return "-" if category == "Pd" or char == "−" else char
