"""Put equal answers together, and look each up in all passages; judges nothing.

Two answers are the same if they have the same content: case, order, punctuation and function words
make no difference. Drafts with a fault are left out: they can support nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from readahead.evidence.spans import Normal, find_run, normalize
from readahead.evidence.terms import Terms, read_terms
from readahead.evidence.values import Value, read_values, stated
from readahead.text import sentences
from readahead.types import Draft, Passage


@dataclass(frozen=True, slots=True)
class Held:
    """Where a passage holds an answer.

    Attributes:
        place: Of the passage, from 0.
        start: Of the sentence, in the document's text, as for ``Passage.start``.
        text: The sentence.
    """

    place: int
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer that one or more drafts give.

    Attributes:
        drafts: Their numbers; the first one's wording is the answer's.
        held: One sentence of each passage that holds it, in the order of the passages.
    """

    answer: str
    drafts: tuple[int, ...]
    held: tuple[Held, ...]

    @property
    def terms(self) -> frozenset[str]:
        """Return the content by which answers are the same."""
        return content_of(self.answer)


def pool(drafts: Sequence[Draft], passages: Sequence[Passage]) -> list[Candidate]:
    """Return the different answers, in the order of their first drafts."""
    lookup = Lookup(passages)
    groups: dict[frozenset[str], list[int]] = {}
    for number, draft in enumerate(drafts):
        if not draft.fault:
            groups.setdefault(content_of(draft.answer), []).append(number)
    answers = [(drafts[numbers[0]].answer, tuple(numbers)) for numbers in groups.values()]
    return [Candidate(answer, numbers, lookup.held(answer)) for answer, numbers in answers]


def content_of(answer: str) -> frozenset[str]:
    """Return the content of an answer; of one that is nothing else, its function words."""
    return read_terms(answer).content or frozenset(normalize(answer).text.split())


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence as answers are compared with it; positions are in the document."""

    text: str
    start: int
    end: int
    squeezed: Normal
    terms: Terms
    values: tuple[Value, ...]

    @classmethod
    def read(cls, passage: Passage, start: int, end: int) -> Self:
        text = passage.text[start:end]
        normal = normalize(text)
        return cls(
            text,
            passage.start + start,
            passage.start + end,
            normal.squeezed(),
            read_terms(text),
            read_values(normal),
        )

    def holds(self, answer: Normal, terms: Terms, values: Sequence[Value]) -> bool:
        """Return whether the answer stands here, or all of its content and values do."""
        run = find_run(answer, self.squeezed, self.text)
        if run is not None and run.kind == "verbatim":
            return True
        is_held = bool(terms.content) and terms.content <= self.terms.held
        return is_held and all(stated(value, self.values) for value in values)


class Lookup:
    """The sentences of passages, read once for any number of answers."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._sentences = [
            [_Sentence.read(passage, start, end) for start, end in sentences(passage.text)]
            for passage in passages
        ]

    def held(self, answer: str) -> tuple[Held, ...]:
        """Return the first sentence of each passage that holds the answer.

        It does if the answer stands there word by word, or all of its content does.
        """
        sought = normalize(answer)
        squeezed, terms, values = sought.squeezed(), read_terms(answer), read_values(sought)
        found = []
        for place, spoken in enumerate(self._sentences):
            if one := next((s for s in spoken if s.holds(squeezed, terms, values)), None):
                found.append(Held(place, one.start, one.end, one.text))
        return tuple(found)
