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
_ACCENTS = r"\u0300-\u036f"
_LETTERS = rf"[^\W_{_CJK}]+(?:[{_ACCENTS}]+[^\W_{_CJK}]*)*"
_CJK_RE = re.compile(f"[{_CJK}]")
_ACCENT_RE = re.compile(f"[{_ACCENTS}]")
_WORD_RE = re.compile(rf"[{_CJK}]|{_LETTERS}(?:[.,'’\-]{_LETTERS})*")

# Quotes, brackets and reference marks such as [1] after the point still belong to the sentence.
_CLOSERS = r"[\"'”’」』）)\]】》]*(?: ?\[\d{1,3}\])*"
# A run of points is tried once, at its start and without backtracking: dot leaders stay cheap.
_END_RE = re.compile(
    rf"(?P<wide>[。！？；][。！？；….!?]*{_CLOSERS}|(?<=[{_CJK}])…+{_CLOSERS})"
    rf"|(?P<narrow>(?<![.!?…])[.!?…]++{_CLOSERS})(?=[\s{_CJK}]|\Z)"
    r"|(?P<line>\n\s*\n|\n(?=\s*(?:[-*+•]\s|\d+[.)]\s|\|)))"
)
_NEXT_WORD_RE = re.compile(r"\s*(\w{0,12})")
_LIST_NUMBER_RE = re.compile(r"\s*(?:\d{1,3}|[A-Za-z])")

_NEVER_LAST = frozenset("mr mrs ms dr prof st gen col sgt capt rev hon vs e.g i.e cf al".split())
_BEFORE_NUMBER = frozenset(
    "no nos fig sec pp vol ch eq approx jan feb mar apr jun jul aug sep sept oct nov dec".split()
)
_SELDOM_LAST = frozenset("inc ltd co corp etc jr sr u.s u.k dept est".split())
_OPENERS = frozenset(
    "a an the this that these those it its he she his her they their we our you i there "
    "in on at for from after before since when while as if but and however although both".split()
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
    """Return ``text`` for comparison: compatibility-normalised, case-folded, without accents.

    Only the accents of alphabets go; the voicing marks of kana tell words apart, so they stay.
    """
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return unicodedata.normalize(
        "NFC", _ACCENT_RE.sub("", unicodedata.normalize("NFKD", decomposed))
    )


def sentences(text: str) -> list[tuple[int, int]]:
    """Return the spans of the sentences, without the white space around them.

    Sentences end at 。！？； always; at ``.!?…`` before white space or a CJK character, unless the
    point belongs to an abbreviation, an initial or a list number, or a lower-case letter follows;
    and at blank lines, before list items and before table rows.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for match in _END_RE.finditer(text):
        if match["narrow"] is not None and not _ends_sentence(text, start, match):
            continue
        _append_stripped(spans, text, start, match.end())
        start = match.end()
    _append_stripped(spans, text, start, len(text))
    return spans


def _ends_sentence(text: str, start: int, match: re.Match[str]) -> bool:
    next_match = _NEXT_WORD_RE.match(text, match.end())
    following = next_match[1] if next_match else ""
    if following[:1].islower():
        return False
    if not match["narrow"].startswith(".") or match["narrow"].startswith(".."):
        return True
    if _LIST_NUMBER_RE.fullmatch(text, start, match.start()):
        return False
    before = text[max(start, match.start() - 12) : match.start()]
    last_word = re.split(r"[\s(\[\"“‘]", before)[-1].casefold()
    if last_word in _NEVER_LAST:
        return False
    if last_word in _BEFORE_NUMBER:
        return not following[:1].isdigit()
    is_initial = len(last_word) == 1 and last_word.isascii() and last_word.isalpha()
    if is_initial or last_word in _SELDOM_LAST:
        return not following or following.casefold() in _OPENERS
    return True


def _append_stripped(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        spans.append((start, end))
