"""HTML: the text of a page as blocks.

This module does not know what counts as boilerplate, nor where pages come from; Markdown passes
through it too. Links keep their text and lose their address.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from readahead.documents import dom
from readahead.documents.blocks import TextBuilder
from readahead.documents.boilerplate import count_beside, is_shown
from readahead.documents.decode import decode
from readahead.documents.htmldepth import check_depth
from readahead.types import BlockKind

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*+=\s*+[\"']?\s*+([\w-]{1,40})", re.IGNORECASE)
_CHARSET_WITHIN = 4096
# An element that XHTML closes in its start tag; HTML overlooks the slash, and leaves it open.
_EMPTY = re.compile(r"<([a-zA-Z][\w:.-]*+)([^<>]*+)(?<=/)>", re.ASCII)
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
_LEVELS = {f"h{level}": level for level in range(1, 7)}
_CAPTIONS = frozenset({"caption", "figcaption"})


def read_html(data: bytes, *, is_xhtml: bool = False) -> TextBuilder:
    """Return the blocks of a page."""
    builder = TextBuilder()
    declared = _CHARSET.search(data[:_CHARSET_WITHIN])
    charset = declared[1].decode("ascii") if declared else None
    source = decode(data, builder.removed, declared=charset)
    add_html(builder, _EMPTY.sub(_with_end_tag, source) if is_xhtml else source)
    return builder


def _with_end_tag(empty: re.Match[str]) -> str:
    """Return what means in HTML what an empty element means in XHTML."""
    name, attributes = empty.groups()
    return empty[0] if name in _VOID else f"<{name}{attributes[:-1]}></{name}>"


def add_html(builder: TextBuilder, source: str) -> None:
    """Append the blocks of ``source``: those of its ``main`` element if it shows just one.

    Raises:
        DocumentError: Its elements nest too deeply.
    """
    from selectolax.lexbor import LexborHTMLParser

    check_depth(source)
    tree = LexborHTMLParser(source)
    root, mains = tree.body, list(filter(is_shown, tree.css("main, [role=main]")))
    if root is None:
        return
    if len(mains) == 1:
        root = mains[0]
        count_beside(root, builder.removed)
    title = tree.css_first("title")
    if title and not any(is_shown(heading) for heading in root.css("h1")):
        builder.title(title.text(), 1)
    page = _Page(builder)
    dom.walk(root, page, builder.removed)
    page.finish()


@dataclass(slots=True)
class _List:
    """An open ``ol``, ``ul`` or ``dl``.

    Attributes:
        number: Of the next item of an ``ol``, else None.
        marker: What the next line starts with; empty when the item has had its first line.
        depth: Set for a ``dl`` whose terms are titles: how many titles stood above it.
        level: Of those titles.
    """

    number: int | None = None
    marker: str = ""
    depth: int | None = None
    level: int = 0


class _Page:
    """Turns the events of a walk into blocks."""

    def __init__(self, builder: TextBuilder) -> None:
        self._builder = builder
        self._inline = dom.Inline()
        self._lists: list[_List] = []
        self._lines: list[str] = []  # of the list block that is being built
        self._terms: list[str] = []  # of each <dt> whose <dd> has not come yet

    def text(self, text: str) -> None:
        self._inline.text(text)

    def enter(self, node: LexborNode, tag: str) -> bool:
        removed = self._builder.removed
        if tag in _LEVELS:
            self.finish()
            self._builder.title(dom.running_text(node, removed), _LEVELS[tag])
        elif tag == "pre":
            self.finish()
            self._builder.code(dom.code_text(node, removed), dom.code_language(node))
        elif tag == "table" and (rows := dom.table_rows(node, removed)):
            self.finish()
            for caption in dom.shown_children(node, ("caption",), removed):
                self._builder.add("caption", dom.running_text(caption, removed))
            self._builder.table(rows)
        elif tag in dom.BLOCK_TAGS:
            self._flush()
            self._open(node, tag)
            return True
        else:
            return self._inline.enter(node, tag)
        return False

    def leave(self, tag: str) -> None:
        if tag == "dt":
            self._terms.append(self._inline.take())
        elif tag in dom.BLOCK_TAGS:
            self._flush("caption" if tag in _CAPTIONS else "paragraph")
        if tag in ("ol", "ul", "dl"):
            self._close_list()

    def finish(self) -> None:
        """Append what is still open."""
        self._flush()
        self._end_list_block()

    def _open(self, node: LexborNode, tag: str) -> None:
        if tag in ("ol", "ul"):
            self._lists.append(_List(number=_start(node) if tag == "ol" else None))
        elif tag == "dl":
            self._lists.append(self._definitions(node))
        elif tag == "li" and self._lists:
            self._lists[-1].marker = _next_marker(self._lists[-1])
        elif tag == "dd":
            self._define()

    def _definitions(self, node: LexborNode) -> _List:
        """Return a ``dl``: its terms are titles where links lead to them, as to API signatures."""
        if not _has_linked_terms(node):
            return _List()
        self._end_list_block()
        return _List(depth=self._builder.depth, level=self._builder.level + 1)

    def _define(self) -> None:
        """Put the waiting terms in front of their definition."""
        terms = "; ".join(filter(None, self._terms))
        self._terms.clear()
        if not terms:
            return
        current = self._lists[-1] if self._lists else _List()
        if current.depth is not None:
            self._end_list_block()
            self._builder.title(terms, current.level)
        else:
            current.marker = "- "
            self._inline.text(f"{terms}: ")

    def _close_list(self) -> None:
        self._define()
        self._flush()
        closed = self._lists.pop()
        if closed.depth is not None:
            self._end_list_block()
            self._builder.close(closed.depth)
        elif not self._lists:
            self._end_list_block()

    def _flush(self, kind: BlockKind = "paragraph") -> None:
        """Append the running text as a block, or as lines of the list that is open."""
        text = self._inline.take()
        if not text:
            return
        if kind == "paragraph" and self._lists and self._lists[-1].depth is None:
            self._add_item(text)
        else:
            self._end_list_block()
            self._builder.add(kind, text)

    def _add_item(self, text: str) -> None:
        current = self._lists[-1]
        marker, current.marker = current.marker or "  ", ""
        indent = "  " * (sum(each.depth is None for each in self._lists) - 1)
        hang = "\n" + indent + " " * len(marker)
        self._lines.append(indent + marker + text.replace("\n", hang))

    def _end_list_block(self) -> None:
        self._builder.add("list", "\n".join(self._lines))
        self._lines.clear()


def _next_marker(current: _List) -> str:
    if current.number is None:
        return "- "
    current.number += 1
    return f"{current.number - 1}. "


def _start(node: LexborNode) -> int:
    value = node.attributes.get("start") or ""
    return int(value) if value.isdecimal() and len(value) < 10 else 1


def _has_linked_terms(node: LexborNode) -> bool:
    first = next(dom.children(node, "dt"), None)
    if first is None:
        return False
    classes = (first.attributes.get("class") or "").split()
    return "sig" in classes or ("id" in first.attributes and "label" not in classes)
