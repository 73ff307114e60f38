"""Choose among the answers that drafts give, or none, or several; runs no model.

Independent evidence says most: in how many passages an answer stands, and how many drafts from
different passages give it. What the verifier thinks is added where it was asked. Each answer gets
the probability that it is right, by itself: the order of drafts does not matter, and several may
be right, where passages speak of different things under one name. By the preset ``accurate`` it
gets the probability that it is wrong, too, and the answers given are those worth most together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from readahead.evidence.claims import Checker, Claim, Judge
from readahead.lm.base import Cancelled, never
from readahead.logistic import Logistic
from readahead.speculation.answers.pool import Candidate
from readahead.speculation.answers.signals import signals
from readahead.speculation.answers.verify import Judged
from readahead.types import Draft, Hit

PACKAGE = "readahead.speculation.answers"
MAX_ANSWERS = 3  # given at once where these are those worth most together


@dataclass(frozen=True, slots=True)
class Rated:
    """An answer and what is known of it.

    Attributes:
        probability: That it is right.
        signals: What the probabilities were told from, by name.
        claim: What all passages say about it.
        judged: What the verifier thinks; None if it was not asked.
        reason: Why it was not selected; "" if it was.
        wrong: The probability that it names a wrong answer; less than one minus that of being
            right, as an answer may be neither. None where no model tells it.
    """

    candidate: Candidate
    probability: float
    signals: Mapping[str, float]
    claim: Claim
    judged: Judged | None = None
    reason: str = ""
    wrong: float | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """What came of choosing.

    Attributes:
        rated: All answers, the best first.
        perplexity: Over how many answers the probability spreads: from 1, one answer has it all, to
            their number; 0 if there is none.
        also: The probability that an answer beside a better one took; None: it went by gain.
    """

    rated: tuple[Rated, ...] = ()
    perplexity: float = 0.0
    also: float | None = None

    @property
    def selected(self) -> tuple[Rated, ...]:
        """Return those that are answered, the best first; none is an abstention."""
        return tuple(one for one in self.rated if not one.reason)


@cache
def fitted(name: str) -> Logistic:
    """Return a model that is shipped: ``evidence``, ``verified`` or ``verified_wrong``."""
    return Logistic.load(PACKAGE, name)


def rate(
    question: str,
    candidates: Sequence[Candidate],
    drafts: Sequence[Draft],
    hits: Sequence[Hit],
    judged: Sequence[Judged] | None = None,
    *,
    model: Logistic | None = None,
    wrong: Logistic | None = None,
    judge: Judge | None = None,
    cancelled: Cancelled = never,
) -> list[Rated]:
    """Return the candidates with their probabilities, the most probable first; none if cancelled.

    Args:
        question: As the user asked it.
        candidates: The different answers.
        drafts: All of them, those with faults among them.
        hits: The passages that were retrieved, as the candidates count them.
        judged: What the verifier thinks of each candidate; None if it was not asked.
        model: From signals to probabilities; None: the one that is shipped, and with it that of
            being wrong, if there is one.
        wrong: From signals to probabilities of being wrong, beside ``model``.
        judge: A second opinion for the evidence checker.
        cancelled: Asked before each candidate is checked.
    """
    if model is None:
        model = fitted("evidence" if judged is None else "verified")
        wrong = None if judged is None else fitted("verified_wrong")
    checker = Checker([hit.passage for hit in hits], judge=judge)
    claims: list[Claim] = []
    for one in candidates:
        if cancelled():
            return []
        claims.append(checker.check(one.answer, question=question))
    told = signals(question, candidates, drafts, hits, claims, judged)
    rated = [
        Rated(
            candidate,
            model.probability(told[number]),
            told[number],
            claims[number],
            judged[number] if judged else None,
            wrong=wrong.probability(told[number]) if wrong else None,
        )
        for number, candidate in enumerate(candidates)
    ]
    return sorted(rated, key=lambda one: (-one.probability, one.candidate.answer))


def choose(
    rated: Sequence[Rated], *, threshold: float, also: float | None = None, harm: float = 0.0
) -> Choice:
    """Select the best answer, and others beside it, or none.

    With ``also``: the most probable, and those that reach this probability. Without it, those worth
    most together, one after the other, each only if it raises the expected gain:

        U(S) = (1 − Π_{i ∈ S} (1 − G_i)) · Π_{i ∈ S} max(0, 1 − λ · W_i)

    G_i is the probability that an answer is right, W_i that it is wrong. The first factor is the
    probability that one of S is right, the second what the reply is worth when any may be wrong;
    λ is how much worse a wrong answer is than a missing one. *Approximate*: answers are taken as
    independent, and S grows greedily, up to ``MAX_ANSWERS``.

    Args:
        rated: The most probable first.
        threshold: The probability from which on an answer is given at all.
        also: That from which on further answers are given; None: by expected gain.
        harm: λ.
    """
    if not rated:
        return Choice()
    also = None if also is None else max(threshold, also)
    decided = (
        _by_gain(rated, threshold, harm)
        if also is None
        else _by_probability(rated, threshold, also)
    )
    return Choice(tuple(decided), perplexity([one.probability for one in rated]), also)


def expected_gain(answers: Sequence[Rated], harm: float) -> float:
    """Return what these answers are worth together, U of ``choose``; 0 for none."""
    missing = math.prod(1 - one.probability for one in answers)
    unharmed = math.prod(max(0.0, 1 - harm * (one.wrong or 0.0)) for one in answers)
    return (1 - missing) * unharmed


def _by_probability(rated: Sequence[Rated], threshold: float, also: float) -> list[Rated]:
    """Return the answers with the reasons against them, the most probable first."""
    chosen: list[Rated] = []
    decided = []
    for one in rated:
        reason = _against(one, chosen, threshold)
        if chosen and not reason and one.probability < also:
            reason = (
                f"probability {one.probability:.2f}, below {also:.2f}: too unlikely to be given "
                "beside a better answer"
            )
        if not reason:
            chosen.append(one)
        decided.append(replace(one, reason=reason))
    return decided


def _by_gain(rated: Sequence[Rated], threshold: float, harm: float) -> list[Rated]:
    """Return the answers with the reasons against them, the one with the most gain first."""

    def reason(one: Rated) -> str:
        if any(one is other for other in chosen):
            return ""
        return _not_worth(one, chosen, threshold, harm) or f"{MAX_ANSWERS} others are worth more"

    ranked = sorted(
        rated,
        key=lambda one: (-expected_gain([one], harm), -one.probability, one.candidate.answer),
    )
    chosen: list[Rated] = []
    while len(chosen) < MAX_ANSWERS:
        left = [one for one in ranked if not _not_worth(one, chosen, threshold, harm)]
        if not left:
            break
        chosen.append(max(left, key=lambda one: expected_gain([*chosen, one], harm)))
    return [replace(one, reason=reason(one)) for one in ranked]


def _not_worth(one: Rated, chosen: Sequence[Rated], threshold: float, harm: float) -> str:
    """Return why an answer is worth nothing beside those chosen; "" if it is."""
    if reason := _against(one, chosen, threshold):
        return reason
    # The first is given even if it is worth nothing: whether to answer is the threshold's matter.
    if not chosen or expected_gain([*chosen, one], harm) > expected_gain(chosen, harm):
        return ""
    if not one.wrong:
        return "beside the better answer it would add nothing"
    return f"beside the better answer it would rather harm: wrong with probability {one.wrong:.2f}"


def _against(one: Rated, chosen: Sequence[Rated], threshold: float) -> str:
    """Return what speaks against selecting an answer beside those chosen; "" if nothing does."""
    if one.probability < threshold:
        return f"probability {one.probability:.2f}, below {threshold:.2f}: too unlikely to be given"
    for other in chosen:
        if one.candidate.agrees_with(other.candidate):
            return f"says the same as “{other.candidate.answer}”"
    return ""


def perplexity(probabilities: Sequence[float]) -> float:
    """Return over how many answers the probability spreads.

    exp(−Σ_i w_i ln w_i),   w_i = p_i / Σ_j p_j
    """
    total = math.fsum(probabilities)
    if not total:
        return float(len(probabilities))
    shares = [p / total for p in probabilities]
    return math.exp(-math.fsum(share * math.log(share) for share in shares if share > 0))
