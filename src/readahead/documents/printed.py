"""Undoes what printing on pages does to text: running lines, page numbers, broken words.

This module does not know PDF; its input is lines with their place on a page.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from readahead.documents.blocks import flow

TITLE_SCALE = 1.15  # a title is set this much larger than the body
_NUM_EDGE_LINES = 2
_MIN_REPEATS = 3
_NUMBER = re.compile(r"[0-9]{1,6}")
_LETTER = re.compile(r"[^\W\d_]")
_PAGE_NUMBER = re.compile(
    r"[\W_]*(?:page|pg\.?|p\.|第)?\s*(?P<number>[0-9]{1,4})\s*页?"
    r"(?:\s*(?:of|/|，?\s*共)\s*[0-9]{1,4}\s*页?)?[\W_]*",
    re.IGNORECASE,
)
_SOFT_HYPHEN = "\u00ad"
_BROKEN_END = re.compile(r"(?P<left>[^\W\d_]+)(?P<hyphen>[-\u2010\u00ad])\Z")
_BROKEN_START = re.compile(r"[^\W\d_]+")
_MAX_WORD_CHARS = 60
_COMPOUND = re.compile(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)+")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of print; ``x`` and ``y`` are where it begins, in points, ``y`` growing upwards."""

    text: str
    page: int
    size: float = 10.0
    x: float = 0.0
    y: float = 0.0


def without_running_lines(
    pages: Sequence[Sequence[Line]], removed: Counter[str]
) -> list[list[Line]]:
    """Return the pages without page numbers and without lines repeated at their top or bottom.

    A line is repeated if, the number of its page aside, it stands at the same edge of most pages,
    or of most odd or most even ones, and of at least three.
    """
    title_size = TITLE_SCALE * body_size(line for page in pages for line in page)
    edges = [_edge_lines(page) for page in pages]
    condemned: dict[Line, str] = dict(_page_numbers(edges))
    for parity in (edges, edges[0::2], edges[1::2]):
        places: dict[tuple[str, str], list[Line]] = defaultdict(list)
        for page in parity:
            for line, edge in page:
                for text in _without_number(line, title_size):
                    places[edge, text].append(line)
        for (edge, _), lines in places.items():
            num_pages = len({line.page for line in lines})
            if num_pages >= _MIN_REPEATS and num_pages > len(parity) / 2:
                condemned |= {line: f"running_{edge}" for line in lines if line not in condemned}
    removed.update(condemned.values())
    return [[line for line in page if line not in condemned] for page in pages]


def _without_number(line: Line, title_size: float) -> set[str]:
    """Return the forms under which to compare a line with those of other pages.

    The first and the last number are replaced by their distance to the page, so that only numbers
    which grow with the pages are looked through. Not in titles: "Chapter 3" may head page 3.
    """
    text = flow(line.text).casefold()
    if not _LETTER.search(text):
        return set()
    forms = {text}
    numbers = list(_NUMBER.finditer(text)) if line.size < title_size else []
    for number in (*numbers[:1], *numbers[-1:]):
        forms.add(f"{text[: number.start()]}\0{int(number[0]) - line.page}{text[number.end() :]}")
    return forms


def body_size(lines: Iterable[Line]) -> float:
    """Return the size in which most characters are set."""
    sizes: Counter[float] = Counter()
    for line in lines:
        sizes[line.size] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


def _edge_lines(page: Sequence[Line]) -> list[tuple[Line, str]]:
    """Return the lines at the top and the bottom of a page, each with the name of its edge."""
    lines = sorted(page, key=lambda line: -line.y)
    headers = lines[:_NUM_EDGE_LINES]
    footers = [line for line in lines[-_NUM_EDGE_LINES:] if line not in headers]
    return [(line, "header") for line in headers] + [(line, "footer") for line in footers]


def _page_numbers(edges: Sequence[Sequence[tuple[Line, str]]]) -> list[tuple[Line, str]]:
    """Return the edge lines whose number grows with the pages: the same offset on two or more."""
    by_offset: dict[int, list[Line]] = defaultdict(list)
    for index, page in enumerate(edges):
        for line, _ in page:
            if match := _PAGE_NUMBER.fullmatch(line.text.strip()):
                by_offset[int(match["number"]) - index].append(line)
    best = max(by_offset.values(), key=len, default=[])
    return [(line, "page_number") for line in best] if len(best) > 1 else []


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
