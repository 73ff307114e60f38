"""Markdown: CommonMark with tables, read by way of the HTML it stands for.

This module does not know how blocks are made; raw HTML in a file is treated as on a page.
"""

from __future__ import annotations

import re

from readahead.documents.blocks import TextBuilder
from readahead.documents.clean import clean_characters
from readahead.documents.decode import decode
from readahead.documents.html import add_html

# Keys with what belongs to them: anything else makes the first line a rule, with text behind it.
_KEY = r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\W\d][\w.@/-]*+)[ \t]*:"
_LINE = rf"(?:(?:{_KEY}|[ \t#\]}}-]).*)?\n"
_FRONT_MATTER = re.compile(
    rf"---[^\S\n]*\n(?P<fields>(?:(?:\#.*\n)*+{_KEY}.*\n(?:{_LINE})*?)?)"
    r"(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)"
)
_TITLE_FIELD = re.compile(r"^title:(.*)$", re.MULTILINE)
_HEADING_1 = re.compile(r"<h1[ >]")


def read_markdown(data: bytes) -> TextBuilder:
    """Return the blocks of a Markdown file.

    Front matter is removed; its title heads the document if no first-level heading does.
    """
    from markdown_it import MarkdownIt

    builder = TextBuilder()
    source = clean_characters(decode(data, builder.removed), builder.removed)
    title = None
    if front_matter := _FRONT_MATTER.match(source):
        builder.removed["front_matter"] += 1
        source = source[front_matter.end() :]
        title = _TITLE_FIELD.search(front_matter["fields"])
    # Below the limit the parser drops in silence; so high, Python's recursion limit is met first.
    parser = MarkdownIt("commonmark", {"maxNesting": 10_000}).enable(["table", "strikethrough"])
    html = parser.render(source)
    if title and not _HEADING_1.search(html):
        builder.title(_unquoted(title[1].strip()), 1)
    add_html(builder, html)
    return builder


def _unquoted(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value
