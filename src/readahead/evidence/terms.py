"""What a text says, as comparable terms and numbers; knows nothing about passages.

English words are stemmed lightly, Chinese is read by character bigrams, and function words are
left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from readahead.evidence.numbers import Quantity, find_numbers
from readahead.text import fold, is_cjk, words

_STOP_WORDS = frozenset(
    "a about after all also am an and any are as at be because been before being but by can could "
    "did do does for from had has have he her hers him his how i if in into is it its just me may "
    "might more most my no nor not of on only or our over per she should so some such than that "
    "the their them then there these they this those to too under up us very was we were what when "
    "where whether which while who whom whose why will with would yes you your".split()
)
_STOP_CHARS = frozenset(
    "的了是在和与及或也都就而被把从到由以为其这那个之吗呢吧啊呀哪谁什么几多少怎样"
)
# A capital inside a sentence marks a name; at its start it marks nothing.
_NAME_RE = re.compile(r"(?<=[^.!?] )[A-Z][\w'’\-]*")

# At most three marks in front of the verb: without a limit the time would grow with their square.
_CHOICE_RE = re.compile(
    r"(?:^|[,.;:!]\s)\W{0,3}(?:is|are|am|was|were|do|does|did|has|have|had|can|could|will|would|shall"
    r"|should|may|might|must)\b|\bor\b|\bwhich of\b|还是|[和与跟].{1,30}哪|是否|(.)[不没]\1"
    r"|(?:吗|(?<![什怎多那这])么)\W*$",
    re.IGNORECASE,
)
_WHICH_RE = re.compile(r"\bwhich\b|哪一?[个种项家]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Terms:
    """The content of a text.

    Attributes:
        content: Stems of words, bigrams of characters, lone characters, and values of numbers.
        quantities: Of the numbers; their values are part of the content.
        names: Those of the content that are part of a name.
        held: What a claim about this text may consist of: the content, and every character.
    """

    content: frozenset[str]
    quantities: frozenset[Quantity]
    names: frozenset[str]
    held: frozenset[str]

    @property
    def values(self) -> frozenset[str]:
        """Return the values of the quantities."""
        return frozenset(one.value for one in self.quantities)


def read_terms(text: str) -> Terms:
    """Return the terms of ``text``."""
    folded = fold(text)
    content: set[str] = set()
    quantities: set[Quantity] = set()
    position = 0
    for number in find_numbers(folded):
        content |= _content(folded[position : number.start])
        content.add(number.value)
        quantities.add(number.quantity)
        position = number.end
    content |= _content(folded[position:])
    names = {stem(fold(match[0])) for match in _NAME_RE.finditer(text)} & content
    characters = {char for term in content if is_cjk(term) for char in term}
    return Terms(
        frozenset(content),
        frozenset(quantities),
        frozenset(names),
        frozenset(content | characters),
    )


def read_tokens(text: str) -> list[str]:
    """Return the stems of all words of ``text`` in order, function words too."""
    folded = fold(text)
    return [stem(folded[start:end]) for start, end in words(folded)]


@lru_cache(maxsize=64)
def offers_choice(question: str) -> bool:
    """Return whether a question asks for yes or no, or for one of several that it names."""
    return _CHOICE_RE.search(question) is not None


def is_closed(question: str) -> bool:
    """Return whether a question can be answered in its own words."""
    return offers_choice(question) or _WHICH_RE.search(question) is not None


def is_function_word(folded: str) -> bool:
    """Return whether a word, or a character of Chinese, tells nothing by itself."""
    return folded in _STOP_WORDS or folded in _STOP_CHARS


def _content(folded: str) -> set[str]:
    found: set[str] = set()
    runs = [""]
    end = 0
    for start, stop in words(folded):
        word = folded[start:stop]
        if not is_cjk(word):
            if word not in _STOP_WORDS:
                found.add(stem(word))
        elif word in _STOP_CHARS:
            runs.append("")
        else:
            if start != end:
                runs.append("")
            runs[-1] += word
            end = stop
    for run in runs:
        found |= {run[i : i + 2] for i in range(max(1, len(run) - 1))}
    return found - {""}


def stem(word: str) -> str:
    """Return ``word`` without its plural, past or progressive ending; not always a word itself."""
    word = word.removesuffix("'s").removesuffix("’s")
    if len(word) < 4 or not word.isascii():
        return word
    for suffix, ending in (("ies", "y"), ("ing", ""), ("ed", ""), ("s", "")):
        if word.endswith(suffix) and len(word) - len(suffix) >= 3 and not word.endswith("ss"):
            word = word.removesuffix(suffix) + ending
            if suffix in ("ing", "ed") and word[-1] == word[-2] and word[-1] not in "aeiouls":
                word = word[:-1]
            break
    return word.removesuffix("e")
