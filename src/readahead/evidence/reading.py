"""Passages and claims, read once to be compared: sentences with their terms, values and names."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from readahead.evidence.attribution import MARKED_WEIGHT, QUESTION_WEIGHT, RESTATED_WEIGHT, units
from readahead.evidence.spans import Normal, normalize
from readahead.evidence.terms import Terms, read_terms, read_tokens
from readahead.evidence.values import Value, read_values, share_stated, stated
from readahead.types import Passage

NUM_ASSUMED = 64  # sentences, whatever is given: a verdict must not drift as passages are added
NUM_PREFIX_CHARS = 5  # religion, religious
PREFIX_CREDIT = 0.7
NUM_NEIGHBOURS = 4  # words on either side of a value that tell what it is a value of
NUM_IN_RUN = 3  # words that stand together

Gram = tuple[str, ...]
_NAME_RE = re.compile(r"[A-Z][\w'’\-]*(?: (?:(?:of|the|de|van|von|and) )?[A-Z][\w'’\-]*)*")


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
    """One thing that a claim says: a content word, or a value; ``weight`` is its importance."""

    term: str
    value: Value | None
    weight: float
    is_name: bool = False
    is_asked: bool = False

    def credit(self, sentence: Sentence) -> float:
        """Return in how far a sentence says it: 1, or less for a part of a date and for a word
        that only begins alike.
        """
        if self.value is not None:
            return share_stated(self.value, sentence.values)
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
            read_terms("\n".join([*passage.heading, passage.context])).held for passage in passages
        )
        self._frequency: Counter[str] = Counter()
        for sentence in self.sentences:
            self._frequency.update(sentence.terms.held)

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
            num_stating = sum(stated(value, sentence.values) for sentence in self.sentences)
            restated = RESTATED_WEIGHT if stated(value, asked.values) else MARKED_WEIGHT
            items.append(Item("", value, restated * _rarity(num_stating)))
        return items

    def _rarity(self, term: str) -> float:
        return _rarity(self._frequency[term])


def _rarity(num_sentences: int) -> float:
    return math.log(1 + NUM_ASSUMED / (num_sentences + 0.5))


def _without(text: str, values: Sequence[Value], start: int = 0, end: int | None = None) -> str:
    """Return ``text[start:end]`` with a comma for every value in it."""
    end = len(text) if end is None else end
    kept, position = [], start
    for value in values:
        if position <= value.start and value.end <= end:
            kept += [text[position : value.start], " , "]
            position = value.end
    return "".join([*kept, text[position:end]])
