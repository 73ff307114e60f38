"""Read what has been typed of a question so far; knows no passages and no times."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache
from importlib.resources import files

from readahead.text import fold, is_cjk, num_words, words

MIN_FINISHED_WORDS = 4

# A word may go on behind these: multi-, node., it's.
_JOINERS = frozenset("-'’_/@.")
_MARKS = "?!.。？！…"
_CLOSERS = "\"'”’」』）)] "
_OPEN_ENDINGS = frozenset(
    "a about after all along also am among an and another any are around as at be because been "
    "before behind being between both but by can could did do does during each either every for "
    "from had has have his how i if in into is its like many most much my near next nor not of "
    "off on only or other our over per same shall she should since so some such than that the "
    "their them these they this those through to under until upon very was we were what when "
    "where whether which while who whom whose why will with within without would your".split()
)
_OPEN_CHARS = frozenset("的和与及或而但在是把被对从向跟于给让使由将这那我你请为比当因若如")
# Only questions end so.
_CLOSED_RE = re.compile(".(吗|呢|么|嘛|多少钱?|多久|多长|多大|几点|谁|哪里|哪儿|如何|怎样|为何)$")


def complete_part(text: str) -> str:
    """Return what is certain of a typed text: all but the last word, which may go on.

    A word that white space or punctuation follows is complete. Scripts written without spaces are
    taken whole.
    """
    if not text or text[-1].isspace() or not _goes_on(text[-1]):
        return text.rstrip()
    end = len(text)
    while end and not text[end - 1].isspace() and not is_cjk(text[end - 1]):
        end -= 1
    return text[:end].rstrip()


def _goes_on(char: str) -> bool:
    """Return whether the word that ends with ``char`` may be longer once more is typed."""
    is_letter = unicodedata.category(char)[0] in "LNM"
    return (is_letter and not is_cjk(char)) or char in _JOINERS


def looks_finished(text: str) -> bool:
    """Return whether ``text`` reads like a whole question.

    It ends with a mark, or, as questions are typed into search boxes, it is long enough and its
    last word is none that another must follow.
    """
    bare = text.rstrip(_CLOSERS)
    if not bare:
        return False
    if bare[-1] in _MARKS:
        return bool(words(bare))
    if _CLOSED_RE.search(bare):
        return True
    if not bare[-1].isalnum() or num_words(bare) < MIN_FINISHED_WORDS:
        return False
    if is_cjk(bare[-1]):
        return bare[-1] not in _OPEN_CHARS
    start, end = words(bare)[-1]
    return fold(bare[start:end]) not in _OPEN_ENDINGS


def without_stop_phrases(text: str) -> str:
    """Return ``text``, folded, without the phrases at its start that say nothing yet.

    A text that is itself the beginning of such a phrase says nothing either.
    """
    rest = " ".join(fold(text).replace("’", "'").split())
    phrase: str | None = ""
    while phrase is not None:
        rest = rest[len(phrase) :].lstrip(" ,.:;!?，。：；！？、")
        if any(_starts(longer, rest) for longer in stop_phrases()):
            return ""
        phrase = next((p for p in stop_phrases() if _starts(rest, p)), None)
    return rest


def _starts(text: str, phrase: str) -> bool:
    """Return whether ``text`` begins with ``phrase``, and no word goes on behind it."""
    if not phrase or not text.startswith(phrase):
        return False
    following = text[len(phrase) : len(phrase) + 1]
    return not following.isalnum() or is_cjk(phrase[-1])


@cache
def stop_phrases() -> tuple[str, ...]:
    """Return the phrases of all languages, folded, the longest first."""
    data = files(__package__ or "").joinpath("stop_phrases.json").read_text(encoding="utf-8")
    phrases = {fold(phrase) for group in json.loads(data).values() for phrase in group}
    return tuple(sorted(phrases, key=lambda phrase: (-len(phrase), phrase)))
