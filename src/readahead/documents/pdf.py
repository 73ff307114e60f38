"""PDF: the text layer as blocks, with pages.

This module knows nothing about files, and nothing about pictures of text: a page without a text
layer gives nothing. Titles are told by their size. Tables are looked for on ruled pages only, since
finding them is slow.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Sequence
from math import hypot
from typing import TYPE_CHECKING

from readahead.documents.blocks import TextBuilder
from readahead.documents.layout import Table, add_print
from readahead.documents.printed import Line, without_running_lines
from readahead.errors import DocumentError, missing_extra

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader

_MIN_RULES = 6
_MAX_TABLE_PAGES = 200  # a longer document has the tables of its later pages as text
_RULE = re.compile(rb"\s(?:re|l)\s")  # the operators that draw rectangles and lines


def read_pdf(data: bytes, *, max_pages: int = sys.maxsize) -> TextBuilder:
    """Return the blocks of a PDF.

    Raises:
        DocumentError: It is encrypted, has too many pages, or no page has a text layer.
    """
    reader = _open(data)
    if (num_pages := len(reader.pages)) > max_pages:
        raise DocumentError(f"{num_pages:,} pages, more than {max_pages:,}")
    pages: list[list[Line]] = []
    ruled: list[int] = []
    for index, page in enumerate(reader.pages):
        pages.append(_lines(page, index + 1))
        if pages[-1] and _is_ruled(page):
            ruled.append(index)
    if not any(pages):
        raise DocumentError("no text layer", remedy="Run optical character recognition first.")
    builder = TextBuilder()
    tables = _tables(data, ruled[:_MAX_TABLE_PAGES])
    add_print(builder, without_running_lines(pages, builder.removed), tables)
    return builder


def _open(data: bytes) -> PdfReader:
    try:
        from pypdf import PasswordType, PdfReader
    except ImportError:
        raise missing_extra("pypdf", "pdf") from None
    reader = PdfReader(io.BytesIO(data))
    # Many files are encrypted only to forbid printing: these open with the empty password.
    if reader.is_encrypted and reader.decrypt("") is PasswordType.NOT_DECRYPTED:
        raise DocumentError("encrypted", remedy="Save a copy without a password.")
    return reader


def _lines(page: PageObject, number: int) -> list[Line]:
    """Return the lines of a page; the place of a line is that of its first fragment."""
    lines: list[Line] = []
    fragments: list[tuple[str, float, float, float]] = []  # (text, size, x, y)

    def end_line() -> None:
        text = "".join(fragment[0] for fragment in fragments)
        shown = [fragment for fragment in fragments if fragment[0].strip()]
        if shown:
            size = max(shown, key=lambda fragment: len(fragment[0]))[1]
            lines.append(Line(text.strip(), number, size, shown[0][2], shown[0][3]))
        fragments.clear()

    def take(text: str, cm: Sequence[float], tm: Sequence[float], _: object, size: float) -> None:
        x = tm[4] * cm[0] + tm[5] * cm[2] + cm[4]
        y = tm[4] * cm[1] + tm[5] * cm[3] + cm[5]
        scaled = round(size * hypot(tm[2], tm[3]) * hypot(cm[2], cm[3]), 1)
        first, *others = text.split("\n")
        fragments.append((first, scaled, x, y))
        for other in others:
            end_line()
            fragments.append((other, scaled, x, y))

    page.extract_text(visitor_text=take)
    end_line()
    return lines


def _is_ruled(page: PageObject) -> bool:
    contents = page.get_contents()
    return contents is not None and len(_RULE.findall(contents.get_data())) >= _MIN_RULES


def _tables(data: bytes, indices: Sequence[int]) -> list[Table]:
    """Return the ruled tables of the pages at ``indices``."""
    if not indices:
        return []
    try:
        import pdfplumber
    except ImportError:
        raise missing_extra("pdfplumber", "pdf") from None
    tables = []
    with pdfplumber.open(io.BytesIO(data)) as document:
        for index in indices:
            page = document.pages[index]
            for found in page.find_tables():
                rows = [[cell or "" for cell in row] for row in found.extract()]
                if len(rows) > 1 and len(rows[0]) > 1:
                    left, top, right, bottom = found.bbox  # measured from the top of the page
                    low, high = page.height - bottom, page.height - top
                    tables.append(Table(rows, index + 1, left, low, right, high))
            page.close()
    return tables
