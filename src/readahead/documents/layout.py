"""Finds the blocks in printed lines, by their size and place.

This module does not know PDF. A title is told by its size alone: bold type of the body's size is
body.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from readahead.documents.blocks import TextBuilder
from readahead.documents.printed import TITLE_SCALE, Line, body_size, compounds, join_lines

_MAX_TITLE_CHARS = 200
_MAX_LEVEL = 6
_PARAGRAPH_GAP = 1.25  # a paragraph stands this many line distances below the last line
_TITLE_GAP = 2.0  # in sizes of the type
_INDENT = 0.8
_SAME_SIZE = 1.0  # points
_TABLE_MARGIN = 2.0
_BULLET = re.compile(r"(?:[•‣▪●◦–*·-]|\(?\d{1,2}[.)])\s+\S")
_CAPTION = re.compile(r"(?:Figure|Fig\.|Table|图|表)\s*\d+", re.IGNORECASE)
_MAX_CAPTION_CHARS = 300
_SENTENCE_END = re.compile(r"[.!?:;。！？：；…][\"'”’)）」』]*\Z")
_GOES_ON = re.compile(r"[a-zß-ÿ\u3400-\u9fff]")
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, slots=True)
class Table:
    """The cells of a table and its place, in the coordinates of ``Line``."""

    rows: Sequence[Sequence[str]]
    page: int
    left: float
    bottom: float
    right: float
    top: float

    def holds(self, line: Line) -> bool:
        """Return whether the line begins inside the table."""
        return (
            line.page == self.page
            and self.left - _TABLE_MARGIN <= line.x <= self.right + _TABLE_MARGIN
            and self.bottom - _TABLE_MARGIN <= line.y <= self.top + _TABLE_MARGIN
        )


def add_print(
    builder: TextBuilder, pages: Sequence[Sequence[Line]], tables: Iterable[Table]
) -> None:
    """Append what the pages hold; a table takes the place of the lines inside it."""
    lines = [line for page in pages for line in page]
    hyphenated = compounds(line.text for line in lines)
    levels = _title_levels(lines)
    listed: list[Line] = []  # first lines of the items of an open list
    items: list[str] = []
    for group in [*_groups(_with_tables(lines, tables), levels, _leading(lines)), None]:
        if isinstance(group, list) and _is_item(group[0], levels):
            listed.append(group[0])
            items.append(join_lines([line.text for line in group], hyphenated, builder.removed))
            continue
        if items:
            builder.add("list", "\n".join(items), page=listed[0].page)
            items.clear()
            listed.clear()
        if isinstance(group, Table):
            builder.table(group.rows, page=group.page)
        elif group:
            text = join_lines([line.text for line in group], hyphenated, builder.removed)
            _add_text(builder, text, levels.get(group[0]), page=group[0].page)


def _add_text(builder: TextBuilder, text: str, level: int | None, *, page: int) -> None:
    if level is not None:
        builder.title(text, level, page=page)
    elif _CAPTION.match(text) and len(text) <= _MAX_CAPTION_CHARS:
        builder.add("caption", text, page=page)
    else:
        builder.add("paragraph", text, page=page)


def _with_tables(lines: Iterable[Line], tables: Iterable[Table]) -> Iterator[Line | Table]:
    """Yield lines and tables in reading order; a table whose lines are not found is left out."""
    by_page: dict[int, list[Table]] = {}
    for table in tables:
        by_page.setdefault(table.page, []).append(table)
    seen: set[int] = set()
    for line in lines:
        table_here = next((t for t in by_page.get(line.page, ()) if t.holds(line)), None)
        if table_here is None:
            yield line
        elif id(table_here) not in seen:
            seen.add(id(table_here))
            yield table_here


def _groups(
    content: Iterable[Line | Table], levels: Mapping[Line, int], leading: float
) -> Iterator[list[Line] | Table]:
    """Yield the lines of one block after the other."""
    group: list[Line] = []
    for piece in content:
        if isinstance(piece, Table):
            if group:
                yield group
            yield piece
            group = []
        elif group and not _continues(group, piece, levels, leading):
            yield group
            group = [piece]
        else:
            group.append(piece)
    if group:
        yield group


def _continues(
    group: Sequence[Line], line: Line, levels: Mapping[Line, int], leading: float
) -> bool:
    """Return whether ``line`` belongs to the block of the lines before it."""
    last = group[-1]
    down = last.y - line.y
    is_below = line.page == last.page and down >= 0
    if levels.get(line) != levels.get(last):
        return False
    if line in levels:
        return is_below and down <= _TITLE_GAP * line.size
    if abs(line.size - last.size) > _SAME_SIZE or _BULLET.match(line.text):
        return False
    if not is_below:  # the next column or page
        return not _SENTENCE_END.search(last.text) and bool(_GOES_ON.match(line.text))
    is_indented = line.x - last.x > _INDENT * line.size and not _BULLET.match(group[0].text)
    return down <= _PARAGRAPH_GAP * leading and not is_indented


def _is_item(line: Line, levels: Mapping[Line, int]) -> bool:
    return line not in levels and _BULLET.match(line.text) is not None


def _leading(lines: Sequence[Line]) -> float:
    """Return the usual distance between two lines of the body."""
    body = body_size(lines)
    distances = Counter(
        round(upper.y - lower.y, 1)
        for upper, lower in pairwise(lines)
        if upper.page == lower.page and upper.size == lower.size == body and upper.y > lower.y
    )
    return distances.most_common(1)[0][0] if distances else 1.2 * body


def _title_levels(lines: Sequence[Line]) -> dict[Line, int]:
    """Return the lines that are titles, with their levels: the larger, the higher."""
    least = TITLE_SCALE * body_size(lines)
    titles = [
        line
        for line in lines
        if line.size >= least and len(line.text) <= _MAX_TITLE_CHARS and _LETTER.search(line.text)
    ]
    sizes = sorted({line.size for line in titles}, reverse=True)
    ranks = {size: min(rank, _MAX_LEVEL) for rank, size in enumerate(sizes, start=1)}
    return {line: ranks[line.size] for line in titles}
