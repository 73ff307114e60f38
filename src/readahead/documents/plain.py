"""Plain text: blank lines separate paragraphs, and nothing else is read into it.

This module does not know Markdown: a line that starts with ``#`` is a line.
"""

from __future__ import annotations

import re

from readahead.documents.blocks import TextBuilder
from readahead.documents.clean import clean_characters
from readahead.documents.decode import decode

_BLANK_LINES = re.compile(r"\n{2,}")


def read_plain(data: bytes) -> TextBuilder:
    """Return the paragraphs of a text file."""
    builder = TextBuilder()
    add_paragraphs(builder, decode(data, builder.removed))
    return builder


def add_paragraphs(builder: TextBuilder, text: str) -> None:
    """Append the paragraphs of ``text``; lines stay lines, since they may be verse or a log."""
    # Cleaned as a whole first: an invisible character must not make a blank line look full.
    lines = clean_characters(text, builder.removed).split("\n")
    # Not a pattern for white space before a line end: it tries each space of a long run anew.
    for paragraph in _BLANK_LINES.split("\n".join(map(str.rstrip, lines))):
        builder.add("paragraph", paragraph)
