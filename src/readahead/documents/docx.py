"""DOCX: the body of a Word document as blocks, in its order.

This module knows nothing about files. Page headers and footers, comments, deleted and hidden text
are not part of the body; inserted text is, and moved text stands where it was moved to. Footnotes,
endnotes and formulas are left out, and counted as removed.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

from readahead.documents.blocks import TextBuilder
from readahead.documents.wordxml import Element, Styles, W, find
from readahead.errors import DocumentError, missing_extra

if TYPE_CHECKING:
    from docx.document import Document as WordDocument

_OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # old .doc files, and encrypted .docx files
_NOTES = ".//w:footnoteReference | .//w:endnoteReference"
_TABLE_OF_CONTENTS = "w:sdtPr/w:docPartObj/w:docPartGallery[@w:val='Table of Contents']"
_WRAPPERS = frozenset(
    f"{W}{name}" for name in ("sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag")
)


def read_docx(data: bytes, *, max_unpacked_bytes: int) -> TextBuilder:
    """Return the blocks of a Word document.

    Raises:
        DocumentError: It is encrypted, not a zip archive, or unpacks to more than the limit.
    """
    try:
        import docx
    except ImportError:
        raise missing_extra("python-docx", "docx") from None
    _check_archive(data, max_unpacked_bytes)
    document = docx.Document(io.BytesIO(data))
    body = _Body(document)
    body.take_all(document.element.body)
    body.end_list()
    body.builder.removed["note"] += len(find(document.element.body, _NOTES))
    body.builder.removed["formula"] += len(find(document.element.body, ".//m:oMath"))
    return body.builder


def _check_archive(data: bytes, max_unpacked_bytes: int) -> None:
    if data.startswith(_OLE_MAGIC):
        raise DocumentError("encrypted, or in the old .doc format")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            unpacked_bytes = sum(member.file_size for member in archive.infolist())
    except zipfile.BadZipFile:
        raise DocumentError("broken zip") from None
    if unpacked_bytes > max_unpacked_bytes:
        raise DocumentError(f"unpacks to more than {max_unpacked_bytes / 2**20:,.0f} MiB")


class _Body:
    """Appends the elements of a body to a text."""

    def __init__(self, document: WordDocument) -> None:
        self.builder = TextBuilder()
        self._styles = Styles(document)
        self._lines: list[str] = []  # of the list block that is being built
        self._shift = 0  # 1 below a document title, under which the headings stand

    def take_all(self, container: Element) -> None:
        for element in container.iterchildren():
            if element.tag == f"{W}p":
                self._take_paragraph(element)
            elif element.tag == f"{W}tbl":
                self._take_table(element)
            elif find(element, _TABLE_OF_CONTENTS):
                self.builder.removed["navigation"] += 1
            elif element.tag in _WRAPPERS:
                self.take_all(element)

    def end_list(self) -> None:
        self.builder.add("list", "\n".join(self._lines))
        self._lines.clear()

    def _take_paragraph(self, paragraph: Element) -> None:
        text = self._styles.shown_text(paragraph, self.builder.removed)
        if not text:
            return
        level = self._styles.heading_level(paragraph)
        marker = self._styles.list_marker(paragraph) if level is None else None
        if marker is not None:
            self._lines.append(marker + text.replace("\n", "\n" + " " * len(marker)))
            return
        self.end_list()
        if level is None:
            is_caption = self._styles.name(paragraph) == "caption"
            self.builder.add("caption" if is_caption else "paragraph", text)
        else:
            self._shift = 1 if level == 0 else self._shift
            self.builder.title(text, max(1, level + self._shift) if level else 1)

    def _take_table(self, table: Element) -> None:
        self.end_list()
        rows = [list(_parts(row, "tc")) for row in _parts(table, "tr")]
        if len(rows) > 1 and max(map(len, rows)) > 1:
            self.builder.table(self._texts(rows))
            return
        for cell in (cell for row in rows for cell in row):  # it only arranges other things
            self.take_all(cell)

    def _texts(self, rows: list[list[Element]]) -> list[list[str]]:
        """Return the cells; what spans rows is repeated, so that a row can be read alone."""
        grid: list[list[str]] = []
        for row in rows:
            line: list[str] = []
            for cell in row:
                merge = find(cell, "w:tcPr/w:vMerge")
                continues = bool(merge) and merge[0].get(f"{W}val") != "restart"
                above = grid[-1] if grid else []
                if continues and len(line) < len(above):
                    line.append(above[len(line)])
                else:
                    line.append(self._styles.shown_text(cell, self.builder.removed))
                spans = find(cell, "w:tcPr/w:gridSpan/@w:val")
                line += [""] * (min(int(spans[0]), 100) - 1 if spans else 0)
            grid.append(line)
        return grid


def _parts(container: Element, name: str) -> Iterator[Element]:
    """Yield the rows of a table or the cells of a row, also those in content controls."""
    for element in container.iterchildren():
        if element.tag == f"{W}{name}":
            yield element
        elif element.tag in _WRAPPERS:
            yield from _parts(element, name)
