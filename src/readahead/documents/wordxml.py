"""Looks things up in the XML of a Word document: text, heading levels, list markers.

This module does not know in what order or as which blocks a document puts them.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docx.document import Document as WordDocument

Element = Any  # of lxml, which has no types

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_NAMESPACES = {
    "w": W.strip("{}"),
    "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
    "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
}
# Word writes a text box twice, the second time as a fallback for old programs.
_PIECES = (
    ".//w:r[not(ancestor::mc:Fallback or ancestor::w:moveFrom)]"
    "/*[self::w:t or self::w:tab or self::w:br or self::w:cr or self::w:noBreakHyphen]"
    " | .//w:p"
)
_CHARACTERS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "p": "\n"}
_HEADING = re.compile(r"heading ([1-9])", re.IGNORECASE)
_UNNUMBERED = frozenset({"bullet", "none"})
_DEFAULT_STYLE = "w:style[@w:type='paragraph' and @w:default]/@w:styleId"
_OFF = frozenset({"0", "false", "off"})


@cache
def _compiled(expression: str) -> Any:
    from lxml import etree

    return etree.XPath(expression, namespaces=_NAMESPACES)


def find(element: Element, expression: str) -> list[Any]:
    """Return what an XPath expression selects, in document order."""
    found = _compiled(expression)(element)
    assert isinstance(found, list)
    return found


class Styles:
    """What the styles and lists of a document say about its paragraphs."""

    def __init__(self, document: WordDocument) -> None:
        self._by_id = {
            style.get(f"{W}styleId"): style for style in find(document.styles.element, "w:style")
        }
        defaults = find(document.styles.element, _DEFAULT_STYLE)
        self._default_id = str(defaults[0]) if defaults else ""
        self._formats = _number_formats(document)
        self._numbers: Counter[tuple[str, int]] = Counter()  # (list, depth) → last number
        self._hiding: dict[str, bool] = {}  # by style; filled as they are met

    def shown_text(self, element: Element, removed: Counter[str]) -> str:
        """Return the text of a paragraph or cell; hidden runs are counted as removed."""
        hidden = {run for run in find(element, ".//w:r") if self._is_hidden(run)}
        removed["hidden"] += len(hidden)
        pieces = []
        for piece in find(element, _PIECES):
            if piece.getparent() not in hidden:
                pieces.append(_CHARACTERS.get(piece.tag.removeprefix(W), piece.text or ""))
        return "".join(pieces).strip()

    def name(self, paragraph: Element) -> str:
        """Return the name of the paragraph's style, in lower case."""
        chain = self._chain(paragraph)
        return _value(chain[0], "w:name").casefold() if chain else ""

    def heading_level(self, paragraph: Element) -> int | None:
        """Return 1 to 9 for a heading, 0 for the document's title, None for anything else."""
        for style in self._chain(paragraph):
            name = _value(style, "w:name").casefold()
            if match := _HEADING.fullmatch(name):
                return int(match[1])
            if name == "title":
                return 0
        return None

    def list_marker(self, paragraph: Element) -> str | None:
        """Return the indented marker of a list item, None for other paragraphs; counts on."""
        for holder in (paragraph, *self._chain(paragraph)):
            if number_id := _value(holder, "w:pPr/w:numPr/w:numId"):
                depth = int(_value(holder, "w:pPr/w:numPr/w:ilvl") or 0)
                return self._next_marker(number_id, depth) if number_id != "0" else None
        return None

    def _next_marker(self, number_id: str, depth: int) -> str:
        indent = "  " * depth
        if self._formats.get((number_id, depth), "bullet") in _UNNUMBERED:
            return f"{indent}- "
        self._numbers[number_id, depth] += 1
        for deeper in [key for key in self._numbers if key[0] == number_id and key[1] > depth]:
            del self._numbers[deeper]
        return f"{indent}{self._numbers[number_id, depth]}. "

    def _is_hidden(self, run: Element) -> bool:
        if (own := _vanish(run)) is not None:
            return own
        # As the format has it: where both styles hide, they cancel each other out.
        by_character = self._hides(_value(run, "w:rPr/w:rStyle"))
        paragraph_style = _value(run, "ancestor::w:p[1]/w:pPr/w:pStyle") or self._default_id
        return by_character != self._hides(paragraph_style)

    def _hides(self, style_id: str) -> bool:
        """Return whether a style hides text: the nearest in its chain that says so decides."""
        if style_id not in self._hiding:
            said = (_vanish(style) for style in self._based(style_id))
            self._hiding[style_id] = next((each for each in said if each is not None), False)
        return self._hiding[style_id]

    def _chain(self, paragraph: Element) -> list[Element]:
        """Return the paragraph's style, the one it is based on, and so on."""
        return self._based(_value(paragraph, "w:pPr/w:pStyle"))

    def _based(self, style_id: str) -> list[Element]:
        chain: list[Element] = []
        style = self._by_id.get(style_id)
        while style is not None and style not in chain:
            chain.append(style)
            style = self._by_id.get(_value(style, "w:basedOn"))
        return chain


def _vanish(holder: Element) -> bool | None:
    """Return whether a run or style says that text is hidden, None if it says nothing."""
    found = find(holder, "w:rPr/w:vanish")
    return found[0].get(f"{W}val", "on").lower() not in _OFF if found else None


def _value(element: Element, path: str) -> str:
    values = find(element, f"{path}/@w:val")
    return str(values[0]) if values else ""


def _number_formats(document: WordDocument) -> dict[tuple[str, int], str]:
    """Return the number format of each list and depth."""
    from docx.opc.constants import RELATIONSHIP_TYPE

    try:
        part: Any = document.part.part_related_by(RELATIONSHIP_TYPE.NUMBERING)
    except KeyError:
        return {}
    abstract = {
        each.get(f"{W}abstractNumId"): {
            int(level.get(f"{W}ilvl", 0)): _value(level, "w:numFmt")
            for level in find(each, "w:lvl")
        }
        for each in find(part.element, "w:abstractNum")
    }
    return {
        (number.get(f"{W}numId"), depth): number_format
        for number in find(part.element, "w:num")
        for depth, number_format in abstract.get(_value(number, "w:abstractNumId"), {}).items()
    }
