"""How deeply a page nests its elements, before it is parsed; knows no tree.

For each tag a parser of HTML looks through the elements that are open, so the time that it takes
grows with their number: half a megabyte of nested elements would take most of a minute.
"""

from __future__ import annotations

import re

from readahead.errors import DocumentError

MAX_DEPTH = 2000  # pages of people have tens
# What a parser takes for a name may hold more: but so do the comparisons of scripts, as in a<b.c.
_TAG = re.compile(r"<(/?)([a-z][\w:-]*+)(?=[\s/>])(?:[^<>]*(/>))?", re.ASCII | re.IGNORECASE)
_NEVER_OPEN = frozenset(
    "area base basefont bgsound br col embed frame hr image img input keygen link meta param "
    "source track wbr script style title".split()
)
# The next of their kind ends them, or what they stand in.
_ENDED_BY_OTHERS = frozenset(
    "a body caption colgroup dd dt head html li option p tbody td tfoot th thead tr".split()
)
_RUBY = frozenset("rb rp rt rtc".split())
_SELF_CLOSED = frozenset(  # in drawings and formulas
    "animate circle ellipse image line mspace path polygon polyline rect stop use".split()
)
_NEAR = 8  # where the start of an end tag is looked for; misnested ones stay open


def check_depth(source: str) -> None:
    """Raise DocumentError if elements of a page nest more than ``MAX_DEPTH`` deep.

    *Approximate*, for no parser is asked: elements that a page forgets to close count as open, and
    few real trees are deeper than what is counted. What is missed, the limit of time ends.
    """
    opened: list[str] = []
    for match in _TAG.finditer(source):
        is_end, name, is_closed = match[1], match[2].lower(), match[3]
        if is_end:
            _close(opened, name)
        elif not (is_closed and name in _SELF_CLOSED) and _nests(opened, name):
            opened.append(name)
            if len(opened) > MAX_DEPTH:
                raise DocumentError(f"elements nested more than {MAX_DEPTH:,} deep")


def _nests(opened: list[str], name: str) -> bool:
    if name in _RUBY:
        return "ruby" not in opened[-_NEAR:]
    return name not in _NEVER_OPEN and name not in _ENDED_BY_OTHERS


def _close(opened: list[str], name: str) -> None:
    for back in range(1, min(len(opened), _NEAR) + 1):
        if opened[-back] == name:
            del opened[-back]
            return
