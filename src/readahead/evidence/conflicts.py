"""Find where passages say something else than a claim: another value, another name, or not.

A value of the claim is contradicted by a sentence that speaks of the same, and states a value of
the same kind and unit that differs, if no sentence states the claim's own, or the contradicting one
is nearly the claim and those that do are not.
Two values are of the same thing if a word next to them is the same, or if nearly all of the claim
stands in the sentence. A name is, if the sentence has another one between the same words. A word
with an opposite, and a "not", if the sentences are the same in all else. And a sentence contradicts
only if it differs in a single respect, see ``scope``: one that speaks of another year may say
another value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product

from readahead.evidence.features import Coverage
from readahead.evidence.opposites import find_oppositions
from readahead.evidence.reading import Reading, Sentence
from readahead.evidence.scope import Scope, respect_of, unmatched
from readahead.evidence.terms import read_terms
from readahead.evidence.values import Value, stated

MIN_SHARED = 0.6  # of what else the claim says, for a sentence to speak of the same
MIN_SAME = 0.85  # for it to be the same sentence, but for the value
MIN_LEAD = 0.15  # over the best sentence that states the claim's own value
PASSAGE_CREDIT = 0.6  # for what stands elsewhere in the passage or above it: "he", "the film"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two spans that cannot both be right.

    Attributes:
        passage: Index into the passages.
        start: In the document's text, as for ``Passage.start``.
        claim_start: In the text of the claim.
        what: What differs, for instance ``percentage: 87 % against 85 %``.
        shared: The share of the rest of the claim that the sentence speaks of, in [0, 1].
    """

    passage: int
    start: int
    end: int
    claim_start: int
    claim_end: int
    what: str
    shared: float


@dataclass(frozen=True, slots=True)
class _Difference:
    """Two spans, one in a sentence and one in the claim, and in how far both speak of the same."""

    sentence: Sentence
    found: tuple[int, int]
    claimed: tuple[int, int]
    kind: str
    shared: float


_Pair = tuple[Value, Value, Sentence, float]  # of the claim, of the sentence; how much is shared


def find_conflicts(
    claim: Sentence, asked: Sentence, coverage: Coverage, reading: Reading
) -> tuple[Conflict, ...]:
    """Return what contradicts the claim, from any of the passages; closest first."""
    shared = _shared(coverage, reading)
    scope = Scope(claim, asked, reading)
    differences = [
        *_values(claim, asked, shared, coverage, reading, scope),
        *_names(claim, coverage, shared, reading, scope),
        *_opposites(claim, reading),
    ]
    differences.sort(key=lambda difference: -difference.shared)
    return tuple(_conflict(claim, difference, reading) for difference in differences)


def _shared(coverage: Coverage, reading: Reading) -> list[float]:
    """Return for each sentence the share of the claim's words, values aside, that it speaks of."""
    words = [i for i, item in enumerate(coverage.items) if item.value is None]
    total = sum(coverage.items[i].weight for i in words)
    if not total:
        return [0.0] * len(reading.sentences)
    around: list[set[str]] = [set(heading.terms.held) for heading in reading.headings]
    for sentence in reading.sentences:
        around[sentence.passage] |= sentence.terms.held
    return [
        sum(
            coverage.items[i].weight
            * max(row[i], PASSAGE_CREDIT * (coverage.items[i].term in held))
            for i in words
        )
        / total
        for row, held in (
            (row, around[sentence.passage])
            for row, sentence in zip(coverage.credits, reading.sentences, strict=True)
        )
    ]


def _values(
    claim: Sentence,
    asked: Sentence,
    shared: Sequence[float],
    coverage: Coverage,
    reading: Reading,
    scope: Scope,
) -> Iterator[_Difference]:
    found = set()
    for value, other, sentence, share in chain(
        _in_same_sentence(claim, shared, reading),
        _elsewhere(claim, asked, shared, coverage, reading),
    ):
        pair = (id(sentence), other.start, value.start)
        if pair not in found and scope.admits(sentence, respect_of(value, claim)):
            found.add(pair)
            span, claimed = (other.start, other.end), (value.start, value.end)
            yield _Difference(sentence, span, claimed, value.kind, share)


def _in_same_sentence(
    claim: Sentence, shared: Sequence[float], reading: Reading
) -> Iterator[_Pair]:
    """Yield the values by which a sentence differs that is the claim in all else.

    Each value stands for one of the other text: "from 7 to 7" is not "from 7 to 9". If any sentence
    has all of the claim's values there is no difference.
    """
    same = [
        (share, sentence, *unmatched(claim.values, sentence.values))
        for share, sentence in zip(shared, reading.sentences, strict=True)
        if share >= MIN_SAME and len(sentence.values) == len(claim.values)
    ]
    if all(own for _, _, own, _ in same):
        for share, sentence, own, others in same:
            for value, other in product(own, others):
                if other.conflicts(value):
                    yield value, other, sentence, share


def _elsewhere(
    claim: Sentence,
    asked: Sentence,
    shared: Sequence[float],
    coverage: Coverage,
    reading: Reading,
) -> Iterator[_Pair]:
    """Yield the values that stand for one of the claim's in a sentence that speaks of the same."""
    candidates = [
        (share, sentence, _others(sentence, claim))
        for share, sentence in zip(shared, reading.sentences, strict=True)
        if share >= MIN_SHARED and sentence.values
    ]
    if not candidates:
        return
    for column, item in enumerate(coverage.items):
        value = item.value
        if value is None or stated(value, asked.values):
            continue
        own = max(
            (
                share
                for share, row in zip(shared, coverage.credits, strict=True)
                if row[column] == 1.0
            ),
            default=None,
        )
        least = MIN_SHARED if own is None else max(MIN_SAME, own + MIN_LEAD)
        words = claim.around(value.start, value.end) or asked.terms.content
        for share, sentence, others in candidates:
            if share >= least:
                other = _other_value(value, words, share, sentence, others)
                if other is not None:
                    yield value, other, sentence, share


def _others(sentence: Sentence, claim: Sentence) -> list[Value]:
    """Return the values of a sentence, but those that the claim also states."""
    return [
        value for value in sentence.values if not any(value.states(own) for own in claim.values)
    ]


def _other_value(
    value: Value,
    near: frozenset[str],
    share: float,
    sentence: Sentence,
    others: Sequence[Value],
) -> Value | None:
    """Return the value of a sentence that stands for the claim's, and differs from it."""
    best, most = None, 0 if share < MIN_SAME else -1
    for other in others:
        if other.conflicts(value):
            alike = len(near & sentence.around(other.start, other.end))
            if alike > most:
                best, most = other, alike
    return best


def _names(
    claim: Sentence, coverage: Coverage, shared: Sequence[float], reading: Reading, scope: Scope
) -> Iterator[_Difference]:
    for start, end in claim.names():
        own = read_terms(claim.text[start:end]).content
        items = [i for i, item in enumerate(coverage.items) if item.term in own]
        if not items or any(row[i] for row in coverage.credits for i in items):
            continue
        weight = sum(coverage.items[i].weight for i in items)
        rest = sum(item.weight for item in coverage.items if item.value is None) - weight
        near = claim.around(start, end)
        for share, sentence in zip(shared, reading.sentences, strict=True):
            of_rest = share * (rest + weight) / rest if rest else 0.0
            if of_rest >= MIN_SAME and scope.admits(sentence, "subject"):
                yield from (
                    _Difference(sentence, found, (start, end), "name", of_rest)
                    for found in sentence.names()
                    if _is_beside(sentence, found, near) and _is_new(sentence, found, claim)
                )


def _is_beside(sentence: Sentence, span: tuple[int, int], near: frozenset[str]) -> bool:
    around = sentence.around(*span)
    return len(near & around) >= max(1, len(near) // 2)


def _is_new(sentence: Sentence, span: tuple[int, int], claim: Sentence) -> bool:
    return not read_terms(sentence.text[slice(*span)]).content & claim.terms.content


def _opposites(claim: Sentence, reading: Reading) -> Iterator[_Difference]:
    for sentence, one in find_oppositions(claim, reading.sentences):
        yield _Difference(sentence, one.found, one.claimed, one.kind, 1.0)


def _conflict(claim: Sentence, difference: _Difference, reading: Reading) -> Conflict:
    sentence = difference.sentence
    start, end = difference.found
    said = claim.text[slice(*difference.claimed)]
    offset = reading.passages[sentence.passage].start + sentence.start
    return Conflict(
        sentence.passage,
        offset + start,
        offset + end,
        *difference.claimed,
        what=f"{difference.kind}: {said} against {sentence.text[start:end]}",
        shared=min(1.0, difference.shared),
    )
