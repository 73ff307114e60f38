"""Makes real files of each format, and checks what every document promises."""

import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import docx
import pytest
from docx.document import Document as WordDocument
from fpdf import FPDF

from readahead.types import Block, Document

SAMPLES = Path(__file__).parents[2] / "examples" / "documents"
# No text, and seconds: for each of its lines a parser looks through all elements that are open.
SLOW_PAGE = b"<div>" * 1900 + b"<hr>" * 200_000


def assert_sound(document: Document) -> None:
    """Blocks are ordered, do not overlap, are not blank; white space is between them."""
    position = 0
    for block in document.blocks:
        assert position <= block.start < block.end <= len(document.text)
        assert not document.text[position : block.start].strip()
        content = document.text[block.start : block.end]
        assert content == content.strip()
        assert (block.level is not None) == (block.kind == "title")
        if block.kind == "title":
            assert block.heading[-1] == content
        position = block.end
    assert not document.text[position:].strip()


def content(document: Document, block: Block) -> str:
    return document.text[block.start : block.end]


def summary(document: Document) -> list[tuple[str, str]]:
    """The kind and content of each block, once the document has proved sound."""
    assert_sound(document)
    return [(block.kind, content(document, block)) for block in document.blocks]


class Printer(FPDF):
    """Pages with the lines of a running header and footer."""

    def __init__(self, header: Callable[[int], str], footer: Callable[[int], str]) -> None:
        super().__init__()
        self.header_text, self.footer_text = header, footer

    def header(self) -> None:
        self.set_font("Times", size=9)
        self.cell(0, 8, self.header_text(self.page_no()))
        self.ln(12)

    def footer(self) -> None:
        self.set_y(-15)
        self.set_font("Times", size=9)
        self.cell(0, 8, self.footer_text(self.page_no()), align="C")


def print_pages(
    pages: Sequence[Sequence[str]],
    *,
    header: Callable[[int], str] = lambda page: "",
    footer: Callable[[int], str] = lambda page: "",
) -> bytes:
    """Return a PDF with one paragraph for each string; ``#`` starts a title."""
    printer = Printer(header, footer)
    for paragraphs in pages:
        printer.add_page()
        for text in paragraphs:
            printer.set_font("Times", size=16 if text.startswith("#") else 11)
            printer.multi_cell(0, 6, text.lstrip("# "), align="L", new_x="LMARGIN", new_y="NEXT")
            printer.ln(5)
    return bytes(printer.output())


def save_docx(document: WordDocument) -> bytes:
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


@pytest.fixture
def word() -> WordDocument:
    return docx.Document()


def replace_member(archive: bytes, name: str, payload: bytes) -> bytes:
    """Return a zip archive with one member replaced."""
    source, target = zipfile.ZipFile(io.BytesIO(archive)), io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as changed:
        for member in source.namelist():
            changed.writestr(member, payload if member == name else source.read(member))
    return target.getvalue()
