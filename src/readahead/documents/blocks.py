"""Builds a document's text block by block, with exact offsets.

This module knows nothing about file formats.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from readahead.documents.clean import clean_characters
from readahead.types import Block, BlockKind, Document

_SEPARATOR = "\n\n"
_MAX_LEVEL = 6
# A longer "title" is text that only looks like one; it would be repeated in every heading path.
_MAX_TITLE_CHARS = 300

# Chinese and Japanese, with their punctuation: a line break between two of these is no space.
_WIDE = "\u3001-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef"
_WIDE_BREAK = re.compile(rf"(?<=[{_WIDE}])[^\S\n]*\n\s*(?=[{_WIDE}])")
_BACKTICKS = re.compile("`{3,}")


class TextBuilder:
    """Appends blocks to a text, cleans their characters, and keeps the heading path.

    Attributes:
        removed: What was taken out so far, by kind; readers add their own counts.
    """

    def __init__(self) -> None:
        self.removed: Counter[str] = Counter()
        self._parts: list[str] = []
        self._length = 0
        self._blocks: list[Block] = []
        self._titles: list[tuple[int, str]] = []  # (level, text), outermost first
        self._heading: tuple[str, ...] = ()  # their texts; all blocks below share the one tuple

    @property
    def depth(self) -> int:
        """Return how many titles stand above the next block."""
        return len(self._titles)

    @property
    def level(self) -> int:
        """Return the level of the innermost open title, 0 if there is none."""
        return self._titles[-1][0] if self._titles else 0

    def title(self, text: str, level: int, *, page: int | None = None) -> None:
        """Append a title, which closes the open ones of its level and deeper."""
        text = " ".join(clean_characters(text, self.removed).split())
        if len(text) > _MAX_TITLE_CHARS:
            self.add("paragraph", text, page=page)
        elif text:
            level = min(max(level, 1), _MAX_LEVEL)
            while self._titles and self._titles[-1][0] >= level:
                self._titles.pop()
            self._titles.append((level, text))
            self._heading = tuple(title for _, title in self._titles)
            self._append("title", text, page=page, level=level)

    def close(self, depth: int) -> None:
        """Close titles until ``depth`` of them are open."""
        del self._titles[depth:]
        self._heading = self._heading[:depth]

    def add(self, kind: BlockKind, text: str, *, page: int | None = None) -> None:
        """Append a block of any kind but title; blank text appends nothing."""
        text = clean_characters(text, self.removed).strip()
        if text:
            self._append(kind, text, page=page)

    def code(self, text: str, language: str = "", *, page: int | None = None) -> None:
        """Append a code block between fences that its content cannot close."""
        text = clean_characters(text, self.removed).strip("\n").rstrip()
        if text.strip():
            fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
            self._append("code", f"{fence}{language}\n{text}\n{fence}", page=page)

    def table(self, rows: Sequence[Sequence[str]], *, page: int | None = None) -> None:
        """Append a table, one row a line; the first row is its header."""
        rows = [row for row in rows if any(cell.strip() for cell in row)]
        if rows:
            width = max(map(len, rows))
            lines = [_row(row, width) for row in rows]
            lines.insert(1, "|" + "---|" * width)
            self.add("table", "\n".join(lines), page=page)

    def build(self, name: str, metadata: Mapping[str, object] | None = None) -> Document:
        """Return the document."""
        return Document(
            name=name,
            text="".join(self._parts),
            blocks=tuple(self._blocks),
            removed={kind: count for kind, count in sorted(self.removed.items()) if count},
            metadata=metadata or {},
        )

    def _append(
        self, kind: BlockKind, text: str, *, page: int | None, level: int | None = None
    ) -> None:
        if self._parts:
            self._parts.append(_SEPARATOR)
            self._length += len(_SEPARATOR)
        start = self._length
        self._parts.append(text)
        self._length += len(text)
        self._blocks.append(Block(kind, start, self._length, self._heading, page, level))


def flow(text: str) -> str:
    """Return running text on one line; breaks between Chinese characters leave no space."""
    return " ".join(_WIDE_BREAK.sub("", text).split())


def _row(cells: Sequence[str], width: int) -> str:
    padded = [flow(cell).replace("|", "\\|") for cell in cells] + [""] * (width - len(cells))
    return f"| {' | '.join(padded)} |"
