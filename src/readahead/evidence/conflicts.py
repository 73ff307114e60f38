"""Find where passages say something else than a claim: another value, another name, or not.

A value of the claim is contradicted by a sentence that speaks of the same, and states a value of
the same kind and unit that differs, if no sentence states the claim's own, or the contradicting one
is nearly the claim and those that do are not.
Two values are of the same thing if a word next to them is the same, or if nearly all of the claim
stands in the sentence. A name is, if the sentence has another one between the same words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product

from readahead.evidence.features import Coverage
from readahead.evidence.reading import Reading, Sentence
from readahead.evidence.terms import read_terms
from readahead.evidence.values import Value, stated

MIN_SHARED = 0.6  # of what else the claim says, for a sentence to speak of the same
MIN_SAME = 0.85  # for it to be the same sentence, but for the value
MIN_LEAD = 0.15  # over the best sentence that states the claim's own value
PASSAGE_CREDIT = 0.6  # for what stands elsewhere in the passage or above it: "he", "the film"

_NEGATION_RE = re.compile(
    r"\b(?:not|never|no longer|nor|neither|cannot|without)\b|n['’]t\b|[不没未]", re.IGNORECASE
)


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


def find_conflicts(
    claim: Sentence, asked: Sentence, coverage: Coverage, reading: Reading
) -> tuple[Conflict, ...]:
    """Return what contradicts the claim, from any of the passages; closest first."""
    shared = _shared(coverage, reading)
    differences = [
        *_values(claim, asked, shared, reading),
        *_names(claim, coverage, shared, reading),
        *_negations(claim, coverage, reading),
    ]
    differences.sort(key=lambda difference: -difference.shared)
    return tuple(_conflict(claim, difference, reading) for difference in differences)


def _shared(coverage: Coverage, reading: Reading) -> list[float]:
    """Return for each sentence the share of the claim's words, values aside, that it speaks of."""
    words = [i for i, item in enumerate(coverage.items) if item.value is None]
    total = sum(coverage.items[i].weight for i in words)
    if not total:
        return [0.0] * len(reading.sentences)
    around: list[set[str]] = [set(heading) for heading in reading.headings]
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
    claim: Sentence, asked: Sentence, shared: Sequence[float], reading: Reading
) -> Iterator[_Difference]:
    found = set()
    for difference in chain(
        _in_same_sentence(claim, shared, reading), _elsewhere(claim, asked, shared, reading)
    ):
        pair = (id(difference.sentence), difference.found, difference.claimed)
        if pair not in found:
            found.add(pair)
            yield difference


def _in_same_sentence(
    claim: Sentence, shared: Sequence[float], reading: Reading
) -> Iterator[_Difference]:
    """Yield the values by which a sentence differs that is the claim in all else.

    Each value stands for one of the other text: "from 7 to 7" is not "from 7 to 9". If any sentence
    has all of the claim's values there is no difference.
    """
    same = [
        (share, sentence, *_unmatched(claim.values, sentence.values))
        for share, sentence in zip(shared, reading.sentences, strict=True)
        if share >= MIN_SAME and len(sentence.values) == len(claim.values)
    ]
    if all(own for _, _, own, _ in same):
        for share, sentence, own, others in same:
            for value, other in product(own, others):
                if other.conflicts(value):
                    yield _difference(value, other, sentence, share)


def _unmatched(values: Sequence[Value], others: Sequence[Value]) -> tuple[list[Value], list[Value]]:
    """Return what is left of both when values that agree have been taken away in pairs."""
    own, rest = [], list(others)
    for value in values:
        partner = next((other for other in rest if other.states(value)), None)
        if partner is None:
            own.append(value)
        else:
            rest.remove(partner)
    return own, rest


def _elsewhere(
    claim: Sentence, asked: Sentence, shared: Sequence[float], reading: Reading
) -> Iterator[_Difference]:
    """Yield the values that stand for one of the claim's in a sentence that speaks of the same."""
    for value in claim.values:
        if stated(value, asked.values):
            continue
        near = claim.around(value.start, value.end) or asked.terms.content
        stating = [stated(value, sentence.values) for sentence in reading.sentences]
        own = max(
            (share for share, is_so in zip(shared, stating, strict=True) if is_so), default=None
        )
        least = MIN_SHARED if own is None else max(MIN_SAME, own + MIN_LEAD)
        for share, sentence in zip(shared, reading.sentences, strict=True):
            if share >= least:
                other = _other_value(value, near, share, claim, sentence)
                if other is not None:
                    yield _difference(value, other, sentence, share)


def _difference(value: Value, other: Value, sentence: Sentence, share: float) -> _Difference:
    found, claimed = (other.start, other.end), (value.start, value.end)
    return _Difference(sentence, found, claimed, value.kind, share)


def _other_value(
    value: Value, near: frozenset[str], share: float, claim: Sentence, sentence: Sentence
) -> Value | None:
    """Return the value of a sentence that stands for the claim's, and differs from it."""
    best, most = None, 0 if share < MIN_SAME else -1
    for other in sentence.values:
        # A value that the claim also states stands for itself.
        if other.conflicts(value) and not any(other.states(own) for own in claim.values):
            alike = len(near & sentence.around(other.start, other.end))
            if alike > most:
                best, most = other, alike
    return best


def _names(
    claim: Sentence, coverage: Coverage, shared: Sequence[float], reading: Reading
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
            if of_rest >= MIN_SAME:
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


def _negations(claim: Sentence, coverage: Coverage, reading: Reading) -> Iterator[_Difference]:
    """Yield the sentences that are the claim, but for a "not" in one of the two."""
    denied = _NEGATION_RE.search(claim.text)
    for share, sentence in zip(coverage.shares, reading.sentences, strict=True):
        content = sentence.terms.content
        is_same = share >= MIN_SAME and len(content & claim.terms.held) >= MIN_SAME * len(content)
        found = _NEGATION_RE.search(sentence.text)
        if is_same and content and bool(found) != bool(denied):
            whole, all_of_it = (0, len(sentence.text)), (0, len(claim.text))
            yield _Difference(
                sentence,
                found.span() if found else whole,
                denied.span() if denied else all_of_it,
                "negation",
                share,
            )


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
