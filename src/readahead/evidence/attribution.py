"""Find the span of the passages that supports a sentence; knows no model and no index.

Support is weighed overlap: rare words count more, names more still, words that only repeat the
question less. A number of the sentence must be in the passage, or there is no support.

    score = answer · place · Σ_t w_t c_t / Σ_t w_t,  t ∈ claim ∪ question
    place = min(1, h_p / (0.8 max_q h_q)), or 1 if all h are 0;  h_p = Σ_{t ∈ R ∩ p} r_t
    r_t   = log(1 + n / (n_t + ½))

w_t: rarity r_t times a factor for where t comes from; n: sentences of all passages, n_t: those
with t; c_t: 1 in the span, less elsewhere in its passage, else 0; R: what the claim repeats from
the question; p: the span's passage with heading and context; q: any passage; answer: 0.4 if the
claim only repeats an open question, else 1. A span of two sentences has 0.1 less overlap; a
similarity adds to place times overlap.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from readahead.evidence.numbers import Quantity, states
from readahead.evidence.terms import Terms, is_closed, read_terms
from readahead.text import is_cjk, sentences
from readahead.types import Passage

Similarity = Callable[[str, Sequence[str]], Sequence[float]]

MARKED_WEIGHT = 1.5  # of names and numbers
RESTATED_WEIGHT = 0.2  # of what the sentence repeats from the question
QUESTION_WEIGHT = 0.15  # of what only the question says
ELSEWHERE_CREDIT = 0.4  # for what the passage says outside the span; none for numbers
ELSEWHERE_NAME_CREDIT = 0.6  # a name often stands as "he" or "it" in the span
PLACE_SHARE = 0.8  # of the restated words that the best passage holds; less is too little
NO_ANSWER_FACTOR = 0.4  # of a sentence that only repeats an open question
PAIR_GAIN = 0.1  # by which two sentences must beat one
NUM_COMPARED = 8  # spans that the optional similarity sees
SIMILARITY_WEIGHT = 0.3


@dataclass(frozen=True, slots=True)
class Support:
    """The span of a passage that supports a sentence.

    Attributes:
        passage: Index into the passages shown.
        start: In the document's text, as for ``Passage.start``.
        score: In [0, 1].
    """

    passage: int
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class _Span:
    """One sentence or two neighbours; positions are in the passage's text."""

    passage: int
    start: int
    end: int
    held: frozenset[str]
    is_pair: bool = False


class Evidence:
    """The passages shown, read once, to which any number of sentences can be attributed."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._passages = tuple(passages)
        self._spans: list[_Span] = []
        self._held: list[frozenset[str]] = []
        self._quantities: list[frozenset[Quantity]] = []
        self._frequency: Counter[str] = Counter()
        self._num_sentences = 0
        for index, passage in enumerate(passages):
            self._read(index, passage)

    def _read(self, index: int, passage: Passage) -> None:
        context = read_terms("\n".join([*passage.heading, passage.context]))
        held, quantities = set(context.held), set(context.quantities)
        single: list[_Span] = []
        for start, end in units(passage):
            terms = read_terms(passage.text[start:end])
            single.append(_Span(index, start, end, terms.held))
            self._frequency.update(terms.held)
            held |= terms.held
            quantities |= terms.quantities
        self._num_sentences += len(single)
        self._held.append(frozenset(held))
        self._quantities.append(frozenset(quantities))
        self._spans += single
        self._spans += [
            _Span(index, first.start, second.end, first.held | second.held, is_pair=True)
            for first, second in zip(single, single[1:], strict=False)
        ]

    def attribute(
        self,
        sentence: str,
        *,
        question: str = "",
        threshold: float,
        similarity: Similarity | None = None,
    ) -> Support | None:
        """Return the best support of ``sentence``, or None if it is below ``threshold``."""
        ranked = self.rank(sentence, question=question, similarity=similarity)
        return ranked[0] if ranked and ranked[0].score >= threshold else None

    def rank(
        self, sentence: str, *, question: str = "", similarity: Similarity | None = None
    ) -> list[Support]:
        """Return every span that supports ``sentence`` to any degree, best first."""
        claim, asked = read_terms(sentence), read_terms(question)
        if not claim.content:
            return []
        weights = self._weights(claim, asked)
        new = [one for one in claim.quantities if one.value not in asked.content]
        agreeing = {
            index
            for index, held in enumerate(self._quantities)
            if all(states(held, one) for one in new)
        }
        places = self._places(claim.content & asked.content)
        scored = [
            (places[span.passage] * self._coverage(span, weights, claim), span)
            for span in self._spans
            if span.passage in agreeing
        ]
        scored.sort(key=lambda pair: -pair[0])
        if scored and similarity is not None:
            scored = self._compare(scored, f"{question} {sentence}".strip(), similarity)
        answer = 1.0 if _answers(claim, asked, question) else NO_ANSWER_FACTOR
        return [self._support(answer * score, span) for score, span in scored if score > 0]

    def _weights(self, claim: Terms, asked: Terms) -> dict[str, float]:
        """Return how much each term matters: its rarity, times where it comes from."""
        new = claim.content - asked.content
        marked = claim.names | claim.values
        weights = {}
        for term in claim.content | asked.content:
            weight = self._rarity(term)
            if term not in claim.content:
                weight *= QUESTION_WEIGHT
            elif new and term not in new:
                weight *= RESTATED_WEIGHT
            elif term in marked:
                weight *= MARKED_WEIGHT
            weights[term] = weight
        return weights

    def _rarity(self, term: str) -> float:
        return math.log(1 + self._num_sentences / (self._frequency[term] + 0.5))

    def _places(self, restated: frozenset[str]) -> list[float]:
        """Return for each passage in how far it is the one that the question is about.

        One that holds fewer of the question's words than another is about another subject;
        words that no passage holds tell nothing.
        """
        sums = [math.fsum(map(self._rarity, restated & held)) for held in self._held]
        enough = PLACE_SHARE * max(sums, default=0.0)
        return [min(1.0, one / enough) if enough else 1.0 for one in sums]

    def _coverage(self, span: _Span, weights: Mapping[str, float], claim: Terms) -> float:
        """Return the share of the weights that the span, or else its passage, holds."""
        here, around = span.held, self._held[span.passage]
        values = claim.values
        credits = []
        for term in around.intersection(weights):
            if term in here:
                credits.append(weights[term])
            elif term in claim.names:
                credits.append(ELSEWHERE_NAME_CREDIT * weights[term])
            elif term not in values:
                credits.append(ELSEWHERE_CREDIT * weights[term])
        # Sets have no order: a plain sum would depend on it in the last digit, and could pass 1.
        covered = math.fsum(credits)
        if not covered:
            return 0.0
        return covered / math.fsum(weights.values()) - PAIR_GAIN * span.is_pair

    def _compare(
        self, scored: Sequence[tuple[float, _Span]], query: str, similarity: Similarity
    ) -> list[tuple[float, _Span]]:
        """Return the best spans again, each raised by its similarity to the query."""
        best = scored[:NUM_COMPARED]
        texts = [self._passages[span.passage].text[span.start : span.end] for _, span in best]
        raised = [
            (score + SIMILARITY_WEIGHT * max(0.0, alike) * (1 - score), span)
            for (score, span), alike in zip(best, similarity(query, texts), strict=True)
        ]
        return sorted(raised, key=lambda pair: -pair[0])

    def _support(self, score: float, span: _Span) -> Support:
        offset = self._passages[span.passage].start
        return Support(span.passage, offset + span.start, offset + span.end, score)


def attribute(
    sentence: str,
    passages: Sequence[Passage],
    *,
    question: str = "",
    threshold: float,
    similarity: Similarity | None = None,
) -> Support | None:
    """Return the span of ``passages`` that best supports ``sentence``, or None.

    ``question`` helps where the sentence alone says little, as "Paris." does. For several
    sentences over the same passages make an ``Evidence`` once.
    """
    return Evidence(passages).attribute(
        sentence, question=question, threshold=threshold, similarity=similarity
    )


def _answers(claim: Terms, asked: Terms, question: str) -> bool:
    """Return whether the claim says more than the question, or the question is closed.

    Bigrams of the question's own characters are nothing new: 茶馆创办 says 茶馆 and 创办.
    """
    return is_closed(question) or any(
        not (set(term) <= asked.held if is_cjk(term) else term in asked.content)
        for term in claim.content
    )


def units(passage: Passage) -> list[tuple[int, int]]:
    """Return the spans of the sentences, or of the lines of code and tables."""
    if passage.kind not in ("code", "table"):
        return sentences(passage.text)
    spans, position = [], 0
    for line in passage.text.splitlines(keepends=True):
        if body := line.strip():
            start = position + line.index(body)
            spans.append((start, start + len(body)))
        position += len(line)
    return spans
