"""Cut a document into passages along its structure; knows nothing about indexes or models.

Lengths are words, a Chinese character being 1/1.6 words. What has hardly any words for its
characters, such as a key or a text in a script without spaces, is measured by its characters.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from readahead.config import PassagesConfig
from readahead.text import num_words, sentences, words
from readahead.types import Block, Document, Passage, PassageKind

MAX_CHARS_PER_WORD = 16
DEEP_LEVEL = 3

_Span = tuple[int, int]
_Cutter = Callable[[str], list[_Span]]

_STANZA_BREAK_RE = re.compile(r"\n\s*\n")
_TOKEN_RE = re.compile(r"\S+")
# A fence's closing line stays with the line before it.
_LINE_RE = re.compile(r"[^\n]+(?:\n[ \t]*(?:`{3,}|~{3,})[ \t]*\Z)?")
_FENCE_RE = re.compile(r"[ \t]*(?:`{3,}|~{3,})[^\n]*")
_TABLE_HEADER_RE = re.compile(r"(?:[^\n]*\n){1,3}?[ \t]*[|+]?[ \t]*:?[-=][-=:|+ \t]*(?=\n)")


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of one block that is cut no further; ``context`` as in ``Passage``."""

    block: Block
    start: int
    end: int
    size: float
    context: str = ""


def chunk(document: Document, config: PassagesConfig) -> list[Passage]:
    """Return the passages of ``document`` in reading order; linear in the length of its text.

    A passage never crosses a heading, except that titles go with what follows them. Within a
    section neighbours are merged up to the limit, in even portions. A code block or a table is
    cut only if it alone is over the limit, between its lines, and what opens it becomes the
    context of the later pieces. Running text is cut at the ends of paragraphs, else of sentences,
    else of words. A title stands alone only at the end of a document, or in front of a block
    that must not be cut and leaves it no room.

    Passages do not overlap, and together they hold every character that is not white space.
    """
    text = document.text
    blocks = document.blocks or (Block("paragraph", len(text) - len(text.lstrip()), len(text)),)
    passages: list[Passage] = []
    for section in _sections([block for block in blocks if text[block.start : block.end].strip()]):
        limit = config.max_words if _level(section) < DEEP_LEVEL else config.max_words_deep
        pieces = _pieces(text, section, limit)
        for first, last in _portions([piece.size for piece in pieces], limit):
            passages.append(_passage(document, pieces[first:last]))
    return passages


def _sections(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Yield the runs of blocks under one heading, each with the titles right above it."""
    section: list[Block] = []
    for block in blocks:
        is_closed = bool(section) and section[-1].kind != "title"
        if is_closed and (block.kind == "title" or block.heading != section[-1].heading):
            yield section
            section = []
        section.append(block)
    if section:
        yield section


def _level(section: Sequence[Block]) -> int:
    levels = [block.level for block in section if block.level is not None]
    return levels[-1] if levels else len(section[-1].heading)


def _pieces(text: str, section: Sequence[Block], limit: float) -> list[_Piece]:
    pieces: list[_Piece] = []
    title_size = 0.0
    for block in section:
        # What follows a title leaves room for it, so that the two can be merged.
        room = limit - title_size if title_size <= limit / 2 else limit
        new = _cut_block(text, block, limit, room)
        title_size = title_size + sum(p.size for p in new) if block.kind == "title" else 0.0
        pieces += new
    return pieces


def _cut_block(text: str, block: Block, limit: float, room: float) -> list[_Piece]:
    body = text[block.start : block.end].rstrip()
    is_rigid = block.kind in ("code", "table")
    size = _size(body)
    if size <= (limit if is_rigid else room):
        return [_Piece(block, block.start, block.start + len(body), size)]
    context = _opener(body, block) if is_rigid else ""
    if _size(context) > room / 2:  # not worth repeating
        context = ""
    spans = _cut(body, room, _LINES_FIRST if is_rigid else _SENTENCES_FIRST)
    return [
        _Piece(block, block.start + start, block.start + end, _size(body[start:end]), opener)
        for (start, end), opener in zip(spans, ["", *[context] * (len(spans) - 1)], strict=True)
    ]


def _opener(body: str, block: Block) -> str:
    """Return the fence opener of a code block, or the header rows of a table."""
    if block.kind == "code":
        fence = _FENCE_RE.match(body)
        return fence[0].strip() if fence else ""
    header = _TABLE_HEADER_RE.match(body)
    return header[0].rstrip() if header else body.partition("\n")[0].rstrip()


def _cut(text: str, limit: float, cutters: Sequence[_Cutter]) -> list[_Span]:
    """Return spans within ``limit``, as coarse as the first of ``cutters`` that gets there."""
    if _size(text) <= limit:
        return [(0, len(text))]
    if not cutters:
        return _chars(text, limit)
    coarse, *finer = cutters
    spans = [
        (start + first, start + last)
        for start, end in coarse(text)
        for first, last in _cut(text[start:end], limit, finer)
    ]
    sizes = [_size(text[start:end]) for start, end in spans]
    return [(spans[first][0], spans[last - 1][1]) for first, last in _portions(sizes, limit)]


def _portions(sizes: Sequence[float], limit: float) -> Iterator[_Span]:
    """Yield index ranges whose sizes add up to at most ``limit``, as even as one pass can."""
    total = sum(sizes)
    target = total / math.ceil(total / limit)
    first, filled = 0, 0.0
    for index, size in enumerate(sizes):
        if index > first and (filled >= target or filled + size > limit):
            yield first, index
            first, filled = index, 0.0
        filled += size
    yield first, len(sizes)


def _passage(document: Document, group: Sequence[_Piece]) -> Passage:
    start = group[0].start
    text = document.text[start : group[-1].end].rstrip()
    return Passage(
        document=document.name,
        text=text,
        start=start,
        end=start + len(text),
        kind=_kind(group),
        heading=group[-1].block.heading,
        page=group[0].block.page,
        context=group[0].context,
        metadata=document.metadata,
    )


def _kind(group: Sequence[_Piece]) -> PassageKind:
    """Return the kind that fills most of the group; a title's only if there is nothing else."""
    sizes: defaultdict[PassageKind, float] = defaultdict(float)
    for piece in group:
        if piece.block.kind != "title":
            sizes[piece.block.kind] += piece.size
    return max(sizes, key=lambda kind: sizes[kind], default="title")


def _size(text: str) -> float:
    num_chars = sum(map(len, text.split()))
    return max(num_words(text), num_chars / MAX_CHARS_PER_WORD)


def _stanzas(text: str) -> list[_Span]:
    breaks = [match.span() for match in _STANZA_BREAK_RE.finditer(text)]
    starts = [0, *(end for _, end in breaks)]
    ends = [*(start for start, _ in breaks), len(text)]
    return list(zip(starts, ends, strict=True))


def _lines(text: str) -> list[_Span]:
    return [match.span() for match in _LINE_RE.finditer(text) if not match[0].isspace()]


def _sentences(text: str) -> list[_Span]:
    return sentences(text)


def _tokens(text: str) -> list[_Span]:
    return [match.span() for match in _TOKEN_RE.finditer(text)]


def _words(text: str) -> list[_Span]:
    """Return each word with the punctuation behind it."""
    starts = [0, *(start for start, _ in words(text)[1:])]
    return list(zip(starts, [*starts[1:], len(text)], strict=True))


def _chars(text: str, limit: float) -> list[_Span]:
    step = max(1, int(limit * MAX_CHARS_PER_WORD))
    return [(start, min(start + step, len(text))) for start in range(0, len(text), step)]


_LINES_FIRST: tuple[_Cutter, ...] = (_stanzas, _lines, _tokens, _words)
_SENTENCES_FIRST: tuple[_Cutter, ...] = (_stanzas, _sentences, _tokens, _words)
