"""Tells which elements of a page are not part of what its visitors came to read.

This module knows nothing about blocks; it judges elements by tag, role, class and style.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_KIND_OF_TAG = {
    **dict.fromkeys(
        "script style noscript template svg canvas iframe object embed".split(), "script"
    ),
    **dict.fromkeys("button select textarea datalist input".split(), "form_control"),
    **dict.fromkeys("nav menu".split(), "navigation"),
}
_NAVIGATION_ROLES = frozenset(
    "navigation search banner contentinfo complementary menu menubar toolbar".split()
)
_NAVIGATION_CLASSES = frozenset(
    "related sphinxsidebar sidebar navbar breadcrumb breadcrumbs footer skip-link".split()
)
# Signs that Sphinx and its themes put beside headings, signatures and lines of code.
_SIGN_CLASSES = frozenset("headerlink viewcode-link linenos lineno".split())
# docutils writes footnotes and topics as <aside>: these belong to the text.
_TEXT_ASIDES = frozenset("footnote footnote-list citation topic admonition".split())
_CSS_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_HIDDEN_STYLE = re.compile(
    r"(?<![\w-])(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)"
    r"|(?:font-size|opacity)\s*:\s*(?:0++(?:\.0*+)?|\.0++)(?![.\d]))",
    re.IGNORECASE,
)
_SECTIONS = frozenset({"main", "article", "section"})


def boilerplate(node: LexborNode, tag: str) -> str | None:
    """Return under which kind to count the element as removed, None if it belongs to the text."""
    if kind := _KIND_OF_TAG.get(tag):
        return kind
    attributes = node.attributes
    classes = frozenset((attributes.get("class") or "").split()) if attributes else frozenset()
    if tag == "aside" and not classes & _TEXT_ASIDES:
        return "navigation"
    # The header of an article holds its title, that of the page holds the site's.
    if tag in ("header", "footer") and not any(p.tag in _SECTIONS for p in _ancestors(node)):
        return "navigation"
    return _marked(attributes, classes) if attributes else None


def is_shown(node: LexborNode) -> bool:
    """Return whether neither the element nor one around it is boilerplate."""
    return not any(boilerplate(each, each.tag or "") for each in (node, *_ancestors(node)))


def count_beside(main: LexborNode, removed: Counter[str]) -> None:
    """Count what stands beside ``main`` in the page as removed."""
    for node in (main, *_ancestors(main)):
        if node.tag == "body" or node.parent is None:
            return
        for sibling in node.parent.iter():
            if sibling.mem_id != node.mem_id:
                removed[boilerplate(sibling, sibling.tag or "") or "navigation"] += 1


def _marked(attributes: Mapping[str, str | None], classes: frozenset[str]) -> str | None:
    if classes & _SIGN_CLASSES:
        return "permalink"
    if classes & _NAVIGATION_CLASSES or attributes.get("role") in _NAVIGATION_ROLES:
        return "navigation"
    is_hidden = "hidden" in attributes or attributes.get("aria-hidden") == "true"
    style = _CSS_COMMENT.sub(" ", attributes.get("style") or "")
    if is_hidden or _HIDDEN_STYLE.search(style):
        return "hidden"
    return None


def _ancestors(node: LexborNode) -> Iterator[LexborNode]:
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent
