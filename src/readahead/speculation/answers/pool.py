"""Put equal answers together, and look each up in all passages; judges nothing.

Two answers are the same if they have the same content beside the question's, and the same values in
the same order: case, punctuation, the order of words and most function words make no difference,
nor whether the question is restated, unless it names what to choose from. Signs, currencies, and
words such as "not" and "before" do. Drafts with a fault are left out: they can support nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from readahead.evidence.numbers import is_spelled_alike
from readahead.evidence.spans import Normal, find_run, normalize
from readahead.evidence.terms import Terms, offers_choice, read_terms
from readahead.evidence.values import Value, read_values, stated
from readahead.text import sentences, words
from readahead.types import Draft, Passage

_MARKS_RE = re.compile(
    r"[$€£¥₹]|(?<![\w.,])[-−](?=\d)|\d+/\d+|(?<=\w)(?:\+\+?|#)(?!\w)|[不没未前后]|\b(?:not|no|never"
    r"|without|except|before|after|until|since|under|over|above|below|less|more|former)\b",
    re.IGNORECASE,
)


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
        answer: The wording with the least content, of these that of most drafts, then the shortest.
        terms: The content by which answers are the same,
        marks: and what else tells them apart.
        values: In order.
        drafts: Their numbers.
        held: One sentence of each passage that holds it, in the order of the passages.
    """

    answer: str
    terms: frozenset[str]
    marks: frozenset[str]
    drafts: tuple[int, ...]
    held: tuple[Held, ...]
    values: tuple[Value, ...] = ()

    def agrees_with(self, other: Candidate) -> bool:
        """Return whether the two say the same, one perhaps with more words."""
        less, more = sorted((self, other), key=lambda one: (len(one.terms), len(one.values)))
        is_within = less.terms <= more.terms and less.marks == more.marks
        return is_within and are_in_order(less.values, more.values)


def pool(question: str, drafts: Sequence[Draft], passages: Sequence[Passage]) -> list[Candidate]:
    """Return the different answers, in the order of their first drafts."""
    lookup = Lookup(passages)
    # "Huron is bigger" and "Erie is bigger" differ in nothing else.
    asked = frozenset() if offers_choice(question) else read_terms(question).content
    groups: dict[tuple[object, ...], list[int]] = {}
    for number, draft in enumerate(drafts):
        if not draft.fault:
            said = draft.answer
            key = content_of(said, asked), marks_of(said), *map(_written, _values(said))
            groups.setdefault(key, []).append(number)
    found = []
    for numbers in groups.values():
        answer = _wording([drafts[number].answer for number in numbers])
        terms, marks = content_of(answer, asked), marks_of(answer)
        held = lookup.held(answer, frozenset() if marks else terms)
        found.append(Candidate(answer, terms, marks, tuple(numbers), held, _values(answer)))
    return found


def _wording(answers: Sequence[str]) -> str:
    """Return a wording that restates least, of these the most frequent, then the shortest."""
    counts = Counter(answers)
    return min(
        counts, key=lambda said: (len(read_terms(said).content), -counts[said], len(said), said)
    )


def _values(answer: str) -> tuple[Value, ...]:
    return read_values(normalize(answer))


def _written(value: Value) -> tuple[str, ...]:
    """Return by what values are the same: their parts and unit, and 3.10 as it is written."""
    return (value.written or value.parts[0], *value.parts, value.unit)


def are_in_order(values: Sequence[Value], held: Sequence[Value]) -> bool:
    """Return whether ``held`` has all these values in their order; a unit may be missing."""
    rest = iter(held)
    return all(any(_is_same(value, other) for other in rest) for value in values)


def _is_same(one: Value, other: Value) -> bool:
    has_one_unit = one.parts == other.parts and not (one.unit and other.unit)
    return other.states(one) or (has_one_unit and is_spelled_alike(one.written, other.written))


def marks_of(answer: str) -> frozenset[str]:
    """Return what tells an answer from others with the same content: "$", "-", "C++", "before"."""
    return frozenset(match[0].lower().replace("−", "-") for match in _MARKS_RE.finditer(answer))


def content_of(answer: str, asked: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the content of an answer that the question does not say.

    Of one that says nothing else, all of it; of one without content, its function words.
    """
    content = read_terms(answer).content
    return (content - asked) or content or frozenset(normalize(answer).text.split())


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

    def holds(self, answer: Normal, terms: frozenset[str], values: Sequence[Value]) -> bool:
        """Return whether the answer stands here, or all of its content and values do."""
        run = find_run(answer, self.squeezed, self.text)
        if run is not None and run.kind == "verbatim":
            return True
        return (
            bool(terms)
            and terms <= self.terms.held
            and all(stated(value, self.values) for value in values)
            and are_in_order([v for v in values if v.kind == "number"], self.values)
        )


class Lookup:
    """The sentences of passages, read once for any number of answers."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._sentences = [
            [_Sentence.read(passage, start, end) for start, end in sentences(passage.text)]
            for passage in passages
        ]

    def held(self, answer: str, terms: frozenset[str]) -> tuple[Held, ...]:
        """Return the first sentence of each passage that holds the answer.

        It does if the answer stands there word by word or, if there are ``terms``, all of these
        and its values do.
        """
        if not read_terms(answer).content and len(words(answer)) < 2:
            return ()  # "no" stands nearly everywhere, and means something else there
        sought = normalize(answer)
        squeezed, values = sought.squeezed(), read_values(sought)
        found = []
        for place, spoken in enumerate(self._sentences):
            if one := next((s for s in spoken if s.holds(squeezed, terms, values)), None):
                found.append(Held(place, one.start, one.end, one.text))
        return tuple(found)
