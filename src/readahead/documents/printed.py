"""Undoes what printing on pages does to text: running lines, page numbers, broken words.

This module does not know PDF; its input is lines with their place on a page.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from readahead.documents.blocks import flow

TITLE_SCALE = 1.15  # a title is set this much larger than the body
_NUM_EDGE_LINES = 2
_MIN_REPEATS = 3
_OUTER_NUMBER = re.compile(r"(?:\A\W*(?=[0-9])|\b(?=[0-9]+\W*\Z))([0-9]{1,6})\b")
_LETTER = re.compile(r"[^\W\d_]")
_PAGE_NUMBER = re.compile(
    r"[\W_]*+(?:page|pg\.?|p\.|第)?\s*+(?P<number>[0-9]{1,4})\s*+页?"
    r"(?:\s*+(?:of|/|，?\s*+共)\s*+[0-9]{1,4}\s*+页?)?[\W_]*+",
    re.IGNORECASE,
)
_SOFT_HYPHEN = "\u00ad"
_BROKEN_END = re.compile(r"(?P<left>[^\W\d_]+)(?P<hyphen>[-\u2010\u00ad])\Z")
_BROKEN_START = re.compile(r"[^\W\d_]+")
_MAX_WORD_CHARS = 60
_COMPOUND = re.compile(r"(?<![^\W\d_])[^\W\d_]++(?:[-\u2010][^\W\d_]+)+")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of print; ``x`` and ``y`` are where it begins, in points, ``y`` growing upwards."""

    text: str
    page: int
    size: float = 10.0
    x: float = 0.0
    y: float = 0.0


_Edges = list[tuple[Line, str]]  # the lines at the edges of a page, with the edge


def without_running_lines(
    pages: Sequence[Sequence[Line]], removed: Counter[str]
) -> list[list[Line]]:
    """Return the pages without page numbers and without running headers and footers.

    Running are lines at the top or bottom that hold the number of their page, and lines that stand
    at the same edge of most pages, or of most odd or most even ones, and of at least three.
    """
    edges = [_edge_lines(page) for page in pages]
    title_size = TITLE_SCALE * body_size(line for page in pages for line in page)
    condemned = _repeated_lines(edges) | _numbered_lines(edges, title_size)
    removed.update(condemned.values())
    return [[line for line in page if line not in condemned] for page in pages]


def body_size(lines: Iterable[Line]) -> float:
    """Return the size in which most characters are set."""
    sizes: Counter[float] = Counter()
    for line in lines:
        sizes[line.size] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


def _edge_lines(page: Sequence[Line]) -> _Edges:
    """Return the lines at the top and the bottom of a page, each with the name of its edge."""
    lines = sorted(page, key=lambda line: -line.y)
    headers = lines[:_NUM_EDGE_LINES]
    footers = [line for line in lines[-_NUM_EDGE_LINES:] if line not in headers]
    return [(line, "header") for line in headers] + [(line, "footer") for line in footers]


def _repeated_lines(edges: Sequence[_Edges]) -> dict[Line, str]:
    condemned: dict[Line, str] = {}
    for pages in (edges, edges[0::2], edges[1::2]):
        places: dict[tuple[str, str], list[Line]] = defaultdict(list)
        for line, edge in chain.from_iterable(pages):
            if _LETTER.search(line.text):
                places[edge, flow(line.text)].append(line)
        for (edge, _), lines in places.items():
            if _are_most({line.page for line in lines}, len(pages)):
                condemned |= dict.fromkeys(lines, f"running_{edge}")
    return condemned


def _numbered_lines(edges: Sequence[_Edges], title_size: float) -> dict[Line, str]:
    """Return page numbers, and outermost lines that begin or end with the number of their page.

    Which numbers these are shows in their distance to the count of pages: it is the same on most
    pages. A line that is nothing but a number needs only two pages to show it. Titles are left
    out: "Chapter 3" may well head the third page.
    """
    bearers: dict[int, dict[Line, str]] = defaultdict(dict)  # by distance
    for page in edges:
        for line, edge in page:
            alone = _PAGE_NUMBER.fullmatch(line.text.strip())
            if alone:
                bearers[int(alone["number"]) - line.page][line] = "page_number"
            elif line in (page[0][0], page[-1][0]) and line.size < title_size:
                for number in _OUTER_NUMBER.finditer(line.text):
                    bearers[int(number[1]) - line.page][line] = f"running_{edge}"
    best = max(bearers.values(), key=lambda lines: len({line.page for line in lines}), default={})
    if _are_most({line.page for line in best}, len(edges)):
        return best
    numbers = [line for line, kind in best.items() if kind == "page_number"]
    return dict.fromkeys(numbers, "page_number") if len(numbers) > 1 else {}


def _are_most(some_pages: set[int], num_pages: int) -> bool:
    return len(some_pages) >= _MIN_REPEATS and len(some_pages) > num_pages / 2


def compounds(texts: Iterable[str]) -> frozenset[str]:
    """Return the words that are written with a hyphen inside a line, case-folded."""
    return frozenset(
        word.casefold().replace("\u2010", "-") for text in texts for word in _COMPOUND.findall(text)
    )


def join_lines(texts: Sequence[str], hyphenated: frozenset[str], removed: Counter[str]) -> str:
    """Return the lines of a paragraph as running text, with words broken at line ends mended.

    A hyphen at a line end goes if a lower-case letter follows, unless ``hyphenated`` (see
    ``compounds``) shows that the word is written with it; a soft hyphen always goes.
    """
    pieces: list[str] = []
    for text in map(str.strip, texts):
        last = pieces[-1] if pieces else ""
        end, start = _BROKEN_END.search(last[-_MAX_WORD_CHARS:]), _BROKEN_START.match(text)
        if end and start and (text[0].islower() or end["hyphen"] == _SOFT_HYPHEN):
            is_compound = f"{end['left']}-{start[0]}".casefold() in hyphenated
            if end["hyphen"] == _SOFT_HYPHEN or not is_compound:
                pieces[-1] = last[:-1]
                removed["hyphenation"] += 1
        elif pieces:
            pieces.append("\n")
        pieces.append(text)
    return flow("".join(pieces))
