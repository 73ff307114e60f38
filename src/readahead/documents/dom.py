"""Reads the shown content of HTML elements: running text, code, table cells.

This module does not know in what order or as which blocks a page puts them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from readahead.documents.blocks import flow
from readahead.documents.boilerplate import boilerplate

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

BLOCK_TAGS = frozenset(
    "address article aside blockquote body caption center dd details div dl dt fieldset figcaption "
    "figure footer form header hgroup hr legend li main ol p section summary table tbody td tfoot "
    "th thead tr ul h1 h2 h3 h4 h5 h6 pre".split()
)
_LANGUAGE = re.compile(r"(?:language|lang|highlight)-([\w+#.-]+)")
_NO_LANGUAGE = frozenset({"default", "none", "text"})
_NEVER_IN_A_CELL = "td table, th table, pre, h1, h2, h3, h4, h5, h6"
_MAX_COLUMN_SPAN = 100
_LINE_BREAK = "\x1e"  # a <br>, as against the line ends of the source, which are white space


class Visitor(Protocol):
    """Hears of the content of an element in document order."""

    def text(self, text: str) -> None:
        """Take the text between two tags."""
        ...

    def enter(self, node: LexborNode, tag: str) -> bool:
        """Return whether to go into the element; only then is it left."""
        ...

    def leave(self, tag: str) -> None:
        """Take note of the end of an element."""
        ...


def walk(root: LexborNode, visitor: Visitor, removed: Counter[str]) -> None:
    """Visit what is shown below ``root``; a loop, not a recursion, since pages nest deeply."""
    stack = [("", root.iter(include_text=True))]
    while stack:
        tag, children = stack[-1]
        node = next(children, None)
        if node is None:
            stack.pop()
            if stack:
                visitor.leave(tag)
        elif node.is_text_node:
            visitor.text(node.text_content or "")
        elif node.is_element_node:
            tag = node.tag or ""
            if kind := boilerplate(node, tag):
                removed[kind] += 1
            elif visitor.enter(node, tag):
                stack.append((tag, node.iter(include_text=True)))


class Inline:
    """Collects running text; blocks inside it only separate words."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def text(self, text: str) -> None:
        """Take the text between two tags."""
        self._pieces.append(text)

    def enter(self, node: LexborNode, tag: str) -> bool:
        """Take a line break, an image's alternative text, or the start of any element."""
        if tag == "br":
            self._pieces.append(_LINE_BREAK)
        elif tag == "img":
            self._pieces.append(node.attributes.get("alt") or "")
        elif tag in BLOCK_TAGS:
            self._pieces.append(" ")
        return True

    def leave(self, tag: str) -> None:
        """Take the end of an element."""
        if tag in BLOCK_TAGS:
            self._pieces.append(" ")

    def take(self) -> str:
        """Return what was collected, with the line breaks that were asked for, and forget it."""
        lines = map(flow, "".join(self._pieces).split(_LINE_BREAK))
        self._pieces.clear()
        return "\n".join(filter(None, lines))


def running_text(node: LexborNode, removed: Counter[str]) -> str:
    """Return the running text of an element."""
    inline = Inline()
    walk(node, inline, removed)
    return inline.take()


class _Verbatim:
    def __init__(self) -> None:
        self.pieces: list[str] = []

    def text(self, text: str) -> None:
        self.pieces.append(text)

    def enter(self, node: LexborNode, tag: str) -> bool:
        if tag == "br":
            self.pieces.append("\n")
        return True

    def leave(self, tag: str) -> None:
        """Add nothing: in code the white space is all there."""


def code_text(node: LexborNode, removed: Counter[str]) -> str:
    """Return the text of a ``pre`` to the character, but for line numbers."""
    verbatim = _Verbatim()
    walk(node, verbatim, removed)
    return "".join(verbatim.pieces)


def code_language(node: LexborNode) -> str:
    """Return the language that a ``pre``, its ``code``, or a ``div`` around it names, or ``""``."""
    around = node.parent
    for each in (node.css_first("code"), node, around, around and around.parent):
        found = each and _LANGUAGE.search(each.attributes.get("class") or "")
        if found:
            return "" if found[1] in _NO_LANGUAGE else found[1]
    return ""


def table_rows(table: LexborNode, removed: Counter[str]) -> list[list[str]]:
    """Return the cells of a table of data, none for a table that only arranges other things.

    A cell that spans rows or columns is repeated in each row, so that a row can be read alone, and
    followed by empty cells in its columns.
    """
    hidden: Counter[str] = Counter()
    rows = [
        list(shown_children(row, ("td", "th"), hidden))
        for group in shown_children(table, ("thead", "tbody", "tfoot"), hidden)
        for row in shown_children(group, ("tr",), hidden)
    ]
    if len(rows) < 2 or max(map(len, rows)) < 2 or table.css_first(_NEVER_IN_A_CELL):
        return []
    removed.update(hidden)
    grid: list[list[str]] = []
    hanging: dict[int, tuple[int, str]] = {}  # column → (rows left, text) of cells from above
    for row in rows:
        line: list[str] = []
        for cell in row:
            _take_hanging(hanging, line)
            text = running_text(cell, removed)
            num_columns = min(_span(cell, "colspan"), _MAX_COLUMN_SPAN)
            for content in (text, *[""] * (num_columns - 1)):
                hanging[len(line)] = (_span(cell, "rowspan") - 1, content)
                line.append(content)
        _take_hanging(hanging, line)
        grid.append(line)
    return grid


def _take_hanging(hanging: dict[int, tuple[int, str]], line: list[str]) -> None:
    """Append the cells that reach down from above into the next columns."""
    while (left_text := hanging.get(len(line))) and left_text[0] > 0:
        hanging[len(line)] = (left_text[0] - 1, left_text[1])
        line.append(left_text[1])


def _span(cell: LexborNode, attribute: str) -> int:
    value = cell.attributes.get(attribute) or ""
    return max(1, int(value)) if value.isdecimal() and len(value) < 6 else 1


def children(node: LexborNode, tag: str) -> Iterator[LexborNode]:
    """Yield the child elements of one tag."""
    return (child for child in node.iter() if child.tag == tag)


def shown_children(
    node: LexborNode, tags: tuple[str, ...], removed: Counter[str]
) -> Iterator[LexborNode]:
    """Yield the child elements of these tags that belong to the text; others are counted."""
    for child in node.iter():
        tag = child.tag or ""
        if tag not in tags:
            continue
        if kind := boilerplate(child, tag):
            removed[kind] += 1
        else:
            yield child
