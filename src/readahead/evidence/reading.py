"""Passages and claims, read once to be compared: sentences with their terms, values and names."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from readahead.evidence.attribution import MARKED_WEIGHT, QUESTION_WEIGHT, RESTATED_WEIGHT, units
from readahead.evidence.spans import Normal, normalize
from readahead.evidence.terms import Terms, is_function_word, read_terms, read_tokens, stem
from readahead.evidence.values import Value, read_values, share_stated, stated
from readahead.text import fold, words
from readahead.types import Passage

NUM_ASSUMED = 64  # sentences, whatever is given: a verdict must not drift as passages are added
NUM_PREFIX_CHARS = 5  # religion, religious
PREFIX_CREDIT = 0.7
NUM_NEIGHBOURS = 4  # words on either side of a value that tell what it is a value of
NUM_IN_RUN = 3  # words that stand together

_NEGATION_RE = re.compile(
    r"\b(?:not(?! only| just| merely)|never|no longer|nor|neither|cannot|without)\b|n['’]t\b"
    r"|不(?![同断仅但少过久止只管论得])|没|未(?!来)",
    re.IGNORECASE,
)

Gram = tuple[str, ...]
_NAME_RE = re.compile(r"[A-Z][\w'’\-]*(?: (?:(?:of|the|de|van|von|and) )?[A-Z][\w'’\-]*)*")


class Token(NamedTuple):
    """A word, or a value, at ``[start, end)`` of a sentence.

    Attributes:
        stem: ``#`` for a value.
        is_content: Whether it tells something; a value does not.
        is_capital: Whether its first letter is.
    """

    start: int
    end: int
    stem: str
    is_content: bool
    is_capital: bool


VALUE = "#"


@dataclass(frozen=True)
class Sentence:
    """One sentence of a passage, or a claim; positions are in the text it was cut from.

    Attributes:
        passage: Index into the passages; -1 for a claim.
        terms: Of the sentence without its values.
        values: Their positions are in the sentence.
    """

    passage: int
    start: int
    end: int
    text: str
    terms: Terms
    values: tuple[Value, ...]

    @classmethod
    def read(cls, text: str, *, passage: int = -1, start: int = 0) -> Sentence:
        """Read one sentence that begins at ``start``."""
        values = read_values(normalize(text))
        rest = _without(text, values)
        return cls(passage, start, start + len(text), text, read_terms(rest), values)

    @cached_property
    def prefixes(self) -> frozenset[str]:
        """Return how the longer words begin."""
        return frozenset(
            term[:NUM_PREFIX_CHARS] for term in self.terms.held if len(term) >= NUM_PREFIX_CHARS
        )

    @cached_property
    def grams(self) -> frozenset[Gram]:
        """Return the runs of three words; of fewer, if there are no more."""
        tokens = read_tokens(self.text)
        length = min(NUM_IN_RUN, len(tokens))
        return frozenset(
            tuple(tokens[i : i + length]) for i in range(len(tokens) - length + 1) if length
        )

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """Return the words and values, in order."""
        tokens, position = [], 0
        for value in self.values:
            if position <= value.start:
                tokens += _words(self.text, position, value.start)
                tokens.append(Token(value.start, value.end, VALUE, False, False))
                position = value.end
        return (*tokens, *_words(self.text, position, len(self.text)))

    @cached_property
    def stems(self) -> frozenset[str]:
        """Return those of all words."""
        return frozenset(token.stem for token in self.tokens)

    @cached_property
    def denied(self) -> tuple[int, int] | None:
        """Return the span of the first word that denies something."""
        found = _NEGATION_RE.search(self.text)
        return found.span() if found else None

    def around(self, start: int, end: int) -> frozenset[str]:
        """Return the content words next to ``[start, end)`` of the sentence."""
        before = _without(self.text, self.values, end=start).split()[-NUM_NEIGHBOURS:]
        behind = _without(self.text, self.values, start=end).split()[:NUM_NEIGHBOURS]
        return read_terms(" ".join([*before, ".", *behind])).held

    def names(self) -> list[tuple[int, int]]:
        """Return the spans of the names: capital words, but not the first word alone."""
        spans = (match.span() for match in _NAME_RE.finditer(self.text))
        return [(a, b) for a, b in spans if a > 0 or " " in self.text[a:b]]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that a claim says: a content word, or a value.

    Attributes:
        weight: Its importance.
        stated: Of a value: how much of it each sentence of the passages states.
    """

    term: str
    value: Value | None
    weight: float
    is_name: bool = False
    is_asked: bool = False
    stated: tuple[float, ...] = ()

    def credits(self, sentences: Sequence[Sentence]) -> Sequence[float]:
        """Return in how far each sentence of the passages says it.

        1, or less for a part of a date and for a word that only begins alike.
        """
        return self.stated or [self._credit(sentence) for sentence in sentences]

    def _credit(self, sentence: Sentence) -> float:
        if self.term in sentence.terms.held:
            return 1.0
        if len(self.term) > NUM_PREFIX_CHARS:
            return PREFIX_CREDIT * (self.term[:NUM_PREFIX_CHARS] in sentence.prefixes)
        return 0.0


class Reading:
    """Passages, read once for any number of claims."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = tuple(passages)
        self.sentences = tuple(
            Sentence.read(passage.text[start:end], passage=index, start=start)
            for index, passage in enumerate(passages)
            for start, end in units(passage)
        )
        self.normals: tuple[Normal, ...] = tuple(normalize(p.text).squeezed() for p in passages)
        self.headings = tuple(
            Sentence.read("\n".join([*passage.heading, passage.context])) for passage in passages
        )
        self._frequency: Counter[str] = Counter()
        self._places: dict[Value, list[int]] = {}
        for number, sentence in enumerate(self.sentences):
            self._frequency.update(sentence.terms.held)
            for value in sentence.values:
                self._places.setdefault(replace(value, start=0, end=0), []).append(number)
        self._dated = [
            number
            for number, sentence in enumerate(self.sentences)
            if any(value.kind == "date" for value in sentence.values)
        ]

    def items(self, claim: Sentence, asked: Sentence) -> list[Item]:
        """Return what a claim says, and with little weight what only its question says."""
        content, question = claim.terms.content, asked.terms.content
        is_all_restated = content <= question and not claim.values
        items = []
        for term in sorted(content | question):
            weight, is_name = self._rarity(term), term in claim.terms.names
            if term not in content:
                weight *= QUESTION_WEIGHT
            elif term in question and not is_all_restated:
                weight *= RESTATED_WEIGHT
            elif is_name:
                weight *= MARKED_WEIGHT
            items.append(Item(term, None, weight, is_name, term not in content))
        for value in claim.values:
            shares = self._shares(value)
            restated = RESTATED_WEIGHT if stated(value, asked.values) else MARKED_WEIGHT
            weight = restated * _rarity(shares.count(1.0))
            items.append(Item("", value, weight, stated=shares))
        return items

    def _shares(self, value: Value) -> tuple[float, ...]:
        """Return how much of a value each sentence states; looks at each value there only once."""
        shares = [0.0] * len(self.sentences)
        for held, places in self._places.items():
            if held.states(value):
                for place in places:
                    shares[place] = 1.0
        if value.kind == "date":  # it may be stated in part, or in parts
            for place in self._dated:
                if not shares[place]:
                    shares[place] = share_stated(value, self.sentences[place].values)
        return tuple(shares)

    def _rarity(self, term: str) -> float:
        return _rarity(self._frequency[term])


def _rarity(num_sentences: int) -> float:
    return math.log(1 + NUM_ASSUMED / (num_sentences + 0.5))


def _words(text: str, start: int, end: int) -> list[Token]:
    tokens = []
    for first, last in words(text[start:end]):
        word = text[start + first : start + last]
        folded = fold(word)
        is_content = not is_function_word(folded)
        tokens.append(
            Token(start + first, start + last, stem(folded), is_content, word[0].isupper())
        )
    return tokens


def _without(text: str, values: Sequence[Value], start: int = 0, end: int | None = None) -> str:
    """Return ``text[start:end]`` with a comma for every value in it."""
    end = len(text) if end is None else end
    kept, position = [], start
    for value in values:
        if position <= value.start and value.end <= end:
            kept += [text[position : value.start], " , "]
            position = value.end
    return "".join([*kept, text[position:end]])
