"""Plain text: blank lines separate paragraphs, and nothing else is read into it.

This module does not know Markdown: a line that starts with ``#`` is a line.
"""

from __future__ import annotations

import re

from readahead.documents.blocks import TextBuilder
from readahead.documents.clean import clean_characters
from readahead.documents.decode import decode

_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+")
_LINE_TAIL = re.compile(r"[^\S\n]+(?=\n|\Z)")


def read_plain(data: bytes) -> TextBuilder:
    """Return the paragraphs of a text file."""
    builder = TextBuilder()
    add_paragraphs(builder, decode(data, builder.removed))
    return builder


def add_paragraphs(builder: TextBuilder, text: str) -> None:
    """Append the paragraphs of ``text``; lines stay lines, since they may be verse or a log."""
    # Cleaned as a whole first: an invisible character must not make a blank line look full.
    text = _LINE_TAIL.sub("", clean_characters(text, builder.removed))
    for paragraph in _BLANK_LINES.split(text):
        builder.add("paragraph", paragraph)
