"""Check a claim against passages: is it supported, partly, not at all, or contradicted?

Lexical and *approximate*: it sees words, values and names, and no inference; a paraphrase in other
words counts as unsupported. How often it is right is measured by ``eval evidence``, see
``docs/evidence.md``.

    score = P(supported | features) · (1 − s)

P is a fitted logistic model of the numbers in ``features``; s is how much of the claim the closest
sentence that contradicts it speaks of, 0 if none does. A claim is supported from the threshold of
the model on, if every value in it is stated somewhere and nothing contradicts it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol

from readahead.evidence.attribution import NUM_COMPARED, Similarity
from readahead.evidence.conflicts import Conflict, find_conflicts
from readahead.evidence.features import Coverage, cover
from readahead.evidence.reading import Reading, Sentence
from readahead.evidence.refusals import is_refusal
from readahead.evidence.spans import MIN_NEAR_CHARS, NEAR_SHARE, find_run, normalize
from readahead.logistic import Logistic
from readahead.types import Passage

Verdict = Literal["supported", "partly", "unsupported", "contradicted"]

PARTLY_SHARE = 0.5  # of the claim's weight in one window of sentences
MIN_PARAPHRASE_SHARE = 0.5  # of the claim's weight in one sentence
VERBATIM = {"window": 1.0, "names": 0.0, "values": 0.0, "trigrams": 1.0}
MAX_LOG_ODDS = 6.0  # a judge that is certain is still only a judge


class Judge(Protocol):
    """Another opinion on a claim: an entailment model, or a verifier's yes or no."""

    def __call__(self, claim: str, texts: Sequence[str], /) -> float:
        """Return the probability in [0, 1] that the texts support the claim.

        Args:
            claim: Behind the question that it answers, if there is one.
            texts: The sentences that hold most of it, in the order of the passages.
        """
        ...


@dataclass(frozen=True, slots=True)
class ClaimSpan:
    """A span of a passage that supports a claim.

    Attributes:
        passage: Index into the passages.
        start: In the document's text, as for ``Passage.start``.
        kind: ``verbatim`` if the whole claim stands there, ``near`` if 85 % of it do in one run.
        score: The share of the claim's weight that the span holds, in [0, 1].
    """

    passage: int
    start: int
    end: int
    kind: Literal["verbatim", "near", "paraphrase"]
    score: float


@dataclass(frozen=True, slots=True)
class Claim:
    """What became of one claim.

    Attributes:
        score: The probability that the passages support it, in [0, 1].
        supporting: The best span of each passage that has one; best first.
        conflicting: What differs, and where; from all passages.
        features: What the score was told from.
    """

    text: str
    verdict: Verdict
    score: float
    supporting: tuple[ClaimSpan, ...]
    conflicting: tuple[Conflict, ...]
    features: dict[str, float]


class Checker:
    """Passages, read once, against which any number of claims can be checked.

    Args:
        passages: All that were retrieved: a conflict is looked for in every one.
        model: Features to a probability; by default the one that is shipped.
        similarity: Of a text and others, for instance the cosine of vectors.
        judge: A second opinion; its log-odds are one more feature.
    """

    def __init__(
        self,
        passages: Sequence[Passage],
        *,
        model: Logistic | None = None,
        similarity: Similarity | None = None,
        judge: Judge | None = None,
    ) -> None:
        self._reading = Reading(passages)
        self._model = model or fitted()
        self._similarity = similarity
        self._judge = judge

    @property
    def threshold(self) -> float:
        """Return the score from which a claim counts as supported."""
        return self._model.threshold

    def check(self, claim: str, *, question: str = "") -> Claim:
        """Return what the passages say about ``claim``.

        Args:
            claim: One sentence, or a short answer.
            question: What a short answer answers; what only repeats it counts little.
        """
        said, asked = Sentence.read(claim), Sentence.read(question)
        items = self._reading.items(said, asked)
        if is_refusal(claim) or all(item.is_asked for item in items):
            return Claim(claim, "unsupported", 0.0, (), (), {})  # it says nothing
        coverage = cover(said, items, self._reading)
        conflicts = find_conflicts(said, asked, coverage, self._reading)
        spans = self._supporting(claim, coverage)
        features = coverage.features | self._opinions(claim, question, coverage)
        is_quoted = any(span.kind == "verbatim" for span in spans)
        if is_quoted and len(claim) >= MIN_NEAR_CHARS and not question:
            features |= VERBATIM  # whatever spoiled its words: "ﬁ eld" is no word of the passage
        against = max((conflict.shared for conflict in conflicts), default=0.0)
        score = self._model.probability(features) * (1 - against)
        verdict = _verdict(score, self._model.threshold, features, bool(conflicts))
        return Claim(claim, verdict, score, spans, conflicts, features)

    def _opinions(self, claim: str, question: str, coverage: Coverage) -> dict[str, float]:
        """Return the features that need more than words."""
        opinions = {}
        text = f"{question} {claim}".strip()
        ranked = sorted(range(len(coverage.shares)), key=lambda i: -coverage.shares[i])
        best = [self._reading.sentences[i].text for i in sorted(ranked[:NUM_COMPARED])]
        if self._similarity is not None and best:
            opinions["similarity"] = max(self._similarity(text, best))
        if self._judge is not None and best:
            opinions["judge"] = log_odds(self._judge(text, best))
        return opinions

    def _supporting(self, claim: str, coverage: Coverage) -> tuple[ClaimSpan, ...]:
        best: dict[int, tuple[float, Sentence]] = {}
        for share, sentence in zip(coverage.shares, self._reading.sentences, strict=True):
            if share > best.get(sentence.passage, (-1.0, sentence))[0]:
                best[sentence.passage] = share, sentence
        sought = normalize(claim.strip(" .。")).squeezed()
        spans = []
        for index, (share, sentence) in best.items():
            passage = self._reading.passages[index]
            run = find_run(sought, self._reading.normals[index], passage.text)
            at = passage.start
            if run is not None:
                held = max(share, NEAR_SHARE) if run.kind == "near" else 1.0
                spans.append(ClaimSpan(index, at + run.start, at + run.end, run.kind, held))
            elif share >= MIN_PARAPHRASE_SHARE:
                start, end = at + sentence.start, at + sentence.end
                spans.append(ClaimSpan(index, start, end, "paraphrase", share))
        order = ("verbatim", "near", "paraphrase")
        return tuple(sorted(spans, key=lambda span: (order.index(span.kind), -span.score)))


def check(
    claim: str,
    passages: Sequence[Passage],
    *,
    question: str = "",
    similarity: Similarity | None = None,
    judge: Judge | None = None,
) -> Claim:
    """Return what ``passages`` say about ``claim``; for several claims make a ``Checker`` once."""
    return Checker(passages, similarity=similarity, judge=judge).check(claim, question=question)


@cache
def fitted() -> Logistic:
    """Return the model that is shipped with the program."""
    return Logistic.load("readahead.evidence", "claims")


def log_odds(probability: float) -> float:
    """Return ln p / (1 − p), within ±6."""
    limit = 1 / (1 + math.exp(MAX_LOG_ODDS))
    kept = min(max(probability, limit), 1 - limit)
    return math.log(kept / (1 - kept))


def _verdict(
    score: float, threshold: float, features: dict[str, float], is_contradicted: bool
) -> Verdict:
    if is_contradicted:
        return "contradicted"
    if score >= threshold and not features["values"]:
        return "supported"
    return "partly" if features["window"] >= PARTLY_SHARE else "unsupported"
