"""Words and sentences of English and Chinese text, as character spans; knows no documents."""

from __future__ import annotations

import re
import unicodedata

CHARS_PER_CJK_WORD = 1.6

# Ideographs, kana, hangul, and the ideographic number zero; scripts written without spaces.
_CJK = (
    r"\u3005\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    r"\U00020000-\U0003ffff"
)
_CJK_RE = re.compile(f"[{_CJK}]")
_WORD_RE = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+(?:[.,'’\-][^\W_{_CJK}]+)*")

_CLOSERS = "\"'”’」』）)\\]】》"
_END_RE = re.compile(
    rf"(?P<cjk>[。！？；…]+[{_CLOSERS}]*)"
    rf"|(?P<latin>[.!?…]+[{_CLOSERS}]*)(?=\s)"
    r"|(?P<line>\n\s*\n|\n(?=\s*(?:[-*+•]|\d+[.)])\s))"
)
_ABBREVIATIONS = frozenset(
    "mr mrs ms dr prof st sr jr vs etc e.g i.e cf al fig eq no nos vol pp p ch sec approx dept est "
    "inc ltd co corp u.s u.k gen col sgt capt rev hon jan feb mar apr jun jul aug sep sept oct nov "
    "dec".split()
)


def is_cjk(char: str) -> bool:
    """Return whether ``char`` belongs to a script that is written without spaces."""
    return _CJK_RE.match(char) is not None


def words(text: str) -> list[tuple[int, int]]:
    """Return the spans of the words; each CJK character counts as a word of its own.

    A hyphen, apostrophe, point or comma between letters or digits belongs to the word, so
    ``node.js``, ``multi-agent`` and ``1,024.5`` are one word each.
    """
    return [match.span() for match in _WORD_RE.finditer(text)]


def num_words(text: str) -> float:
    """Return the length in words; CJK characters count 1/1.6 words each."""
    num_cjk = len(_CJK_RE.findall(text))
    return len(_WORD_RE.findall(text)) - num_cjk + num_cjk / CHARS_PER_CJK_WORD


def fold(text: str) -> str:
    """Return ``text`` for comparison: compatibility-normalised, case-folded, without accents."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def sentences(text: str) -> list[tuple[int, int]]:
    """Return the spans of the sentences, without the white space around them.

    Sentences end at 。！？；… always; at ``.!?`` before white space unless the point belongs to an
    abbreviation or an initial, or a lower-case letter follows; and at blank lines and list items.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for match in _END_RE.finditer(text):
        if match["latin"] is not None and not _ends_sentence(text, match):
            continue
        _append_stripped(spans, text, start, match.end())
        start = match.end()
    _append_stripped(spans, text, start, len(text))
    return spans


def _ends_sentence(text: str, match: re.Match[str]) -> bool:
    following = text[match.end() :].lstrip()[:1]
    if following.islower():
        return False
    if not match["latin"].startswith(".") or match["latin"].startswith(".."):
        return True
    before = text[max(0, match.start() - 12) : match.start()]
    last_word = re.split(r"[\s(\[\"“‘]", before)[-1].casefold()
    if not following:
        return True
    is_initial = len(last_word) == 1 and last_word.isalpha() and last_word != "i"
    return not is_initial and last_word not in _ABBREVIATIONS


def _append_stripped(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        spans.append((start, end))
