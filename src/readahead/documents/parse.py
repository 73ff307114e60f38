"""Chooses the reader for a file's bytes: by its extension, else by what they look like.

This module knows nothing about processes, limits or folders.
"""

from __future__ import annotations

import re
import sys
from pathlib import PurePath

from readahead.documents.blocks import TextBuilder
from readahead.documents.docx import read_docx
from readahead.documents.html import read_html
from readahead.documents.jsonl import read_jsonl
from readahead.documents.markdown import read_markdown
from readahead.documents.pdf import read_pdf
from readahead.documents.plain import read_plain
from readahead.errors import DocumentError, ReadaheadError
from readahead.types import Document

_FORMATS = {
    ".docx": "docx",
    ".htm": "html",
    ".html": "html",
    ".jsonl": "jsonl",
    ".markdown": "markdown",
    ".md": "markdown",
    ".ndjson": "jsonl",
    ".pdf": "pdf",
    ".txt": "plain",
    ".xhtml": "xhtml",
}
ENDINGS = frozenset(_FORMATS)
"""Of the names of files whose format is known by them."""

_SNIFFED_BYTES = 1024
_HTML_START = re.compile(
    # A comment can end in one place only: else n of them could be taken in 2ⁿ ways.
    rb"\s*(?:<\?xml[^>]*>\s*|<!--(?:(?!-->).)*-->\s*)*<(?:!doctype html|html)\b",
    re.I | re.S,
)
_JSONL_START = re.compile(rb'\s*\{[^\n]*"text"\s*:')
_MAX_CAUSE_CHARS = 120


def parse(
    data: bytes, name: str, *, max_unpacked_bytes: int, max_pages: int = sys.maxsize
) -> list[Document]:
    """Return the documents in ``data``: one, or one a line for JSON Lines.

    Raises:
        DocumentError: There is no text in it, or it cannot be read; never any other exception but
            MemoryError.
    """
    if not data.strip():
        raise DocumentError("empty")
    file_format = _FORMATS.get(PurePath(name).suffix.lower()) or _sniff(data)
    try:
        documents = _read(data, name, file_format, max_unpacked_bytes, max_pages)
    except (ReadaheadError, MemoryError):
        raise
    except RecursionError:
        raise DocumentError("nested too deeply") from None
    except Exception as error:  # whatever a parser raises is a property of the file
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:_MAX_CAUSE_CHARS]
        raise DocumentError(f"not readable as {file_format} ({cause})") from None
    if not any(document.blocks for document in documents):
        raise DocumentError("no text")
    return documents


def _read(
    data: bytes, name: str, file_format: str, max_unpacked_bytes: int, max_pages: int
) -> list[Document]:
    if file_format == "jsonl":
        return read_jsonl(data, name)
    return [_builder(data, file_format, max_unpacked_bytes, max_pages).build(name)]


def _builder(data: bytes, file_format: str, max_unpacked_bytes: int, max_pages: int) -> TextBuilder:
    match file_format:
        case "docx":
            return read_docx(data, max_unpacked_bytes=max_unpacked_bytes)
        case "html" | "xhtml":
            return read_html(data, is_xhtml=file_format == "xhtml")
        case "markdown":
            return read_markdown(data)
        case "pdf":
            return read_pdf(data, max_pages=max_pages)
        case _:
            return read_plain(data)


def _sniff(data: bytes) -> str:
    start = data[:_SNIFFED_BYTES]
    if b"%PDF-" in start:
        return "pdf"
    if start.startswith(b"PK\x03\x04"):
        return "docx"
    if _HTML_START.match(start):
        return "xhtml" if start.lstrip().startswith(b"<?xml") else "html"
    return "jsonl" if _JSONL_START.match(start) else "plain"
