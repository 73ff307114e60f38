"""Signs that a question refers back to what was said before it.

Knows no topic and no passage: a question that shows none of them may still be a follow-up.
"""

from __future__ import annotations

import re

from readahead.evidence.terms import read_terms
from readahead.text import fold, words

_MAX_CHARS = 2000  # of a question; no follow-up is longer

# Words that take up what came before, at the beginning of a question.
_OPENERS = re.compile(
    r"\W*(?:(?:and|but|so|or|also|then|plus|(?:what|how) about|what else)\b"
    r"|那么?|还有|另外|然后|接着|此外)"
)
# What stands for something that was named. "After that" and "that night" refer back, "the hut that
# burned" does not; "do I park there" does, "is there a lift" does not; "this year" is the
# calendar's. "其他" only means "other".
_FUNCTION = (
    "about|after|and|are|at|be|before|but|by|can|could|did|do|does|for|from|has|have|how|if|in|is|"
    "like|of|on|or|should|than|to|was|were|what|when|where|which|who|whose|why|will|with|would"
)
_TIMES = "year|month|week|season|morning|afternoon|evening|spring|summer|autumn|winter"
_POINTERS = re.compile(
    r"\b(?:they|them|theirs|he|him|she|these|those|such|ones|the (?:former|latter|same))\b"
    rf"|\b(?:{_FUNCTION}) that\b|^that\b|\bthat (?:case|day|night|one|place|time|way|{_TIMES})\b"
    rf"|\bthis\b(?! (?:{_TIMES})\b)"
    r"|\b(?:first|last|next|new|old|other|second|this|which) one\b|\bone\W*$"
    r"|(?<!\bis )(?<!\bare )(?<!\bwas )(?<!\bwere )(?<!\bbe )(?<!\bwill )\bthere\b(?! (?:is|are)\b)"
    r"|\bthen\W*$|\belse\b"
    r"|[它她]|(?<![其吉])他|这|那(?!么)|上述|前者|后者|呢\W*$"
)
_IT = re.compile(r"\bit\b")
# "How long does it take to …" and "if it is cloudy" mean nothing that was named by "it".
_IDLE_IT = re.compile(
    r"\bit (?:takes?|costs?|be|possible|allowed|necessary|safe|ok|true)\b.*\b(?:to|that)\b"
    r"|\bwhat time is it\b|\bit(?: is|'s) (?:cloudy|rain\w*|snow\w*|dark|cold|windy|too)\b"
)
_POSSESSIVES = re.compile(r"\b(?:its|their|his|her)\b")


def refers_back(question: str) -> tuple[str, ...]:
    """Return the signs that ``question`` is about something said before; none if it stands alone.

    The signs are the words themselves, and ``…`` for a question without any content word. A
    possessive after a content word ("a child lost its parents") belongs to that word.
    """
    folded = fold(question[:_MAX_CHARS]).strip()
    found: list[str] = []
    if opener := _OPENERS.match(folded):
        found.append(opener[0])
    found += [match[0] for match in _POINTERS.finditer(folded)]
    if (it := _IT.search(folded)) and not _IDLE_IT.search(folded):
        found.append(it[0])
    if (owner := _POSSESSIVES.search(folded)) and not read_terms(folded[: owner.start()]).content:
        found.append(owner[0])
    if words(folded) and not read_terms(folded).content:
        found.append("…")
    return tuple(dict.fromkeys(sign.strip(" ?？") for sign in found))
