"""Choose among the answers that drafts give, or none, or several; runs no model.

Independent evidence says most: in how many passages an answer stands, and how many drafts from
different passages give it. What the verifier thinks is added where it was asked. Each answer gets
the probability that it is right, by itself: the order of drafts does not matter, and several may
be right, where passages speak of different things under one name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from readahead.evidence.claims import Checker, Claim, Judge
from readahead.evidence.terms import read_terms
from readahead.logistic import Logistic
from readahead.speculation.answers.pool import Candidate
from readahead.speculation.answers.verify import Judged
from readahead.types import Draft, Hit

PACKAGE = "readahead.speculation.answers"


@dataclass(frozen=True, slots=True)
class Rated:
    """An answer and what is known of it.

    Attributes:
        probability: That it is right.
        signals: What the probability was told from, by name.
        claim: What all passages say about it.
        judged: What the verifier thinks; None if it was not asked.
        reason: Why it was not selected; "" if it was.
    """

    candidate: Candidate
    probability: float
    signals: Mapping[str, float]
    claim: Claim
    judged: Judged | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """What came of choosing.

    Attributes:
        rated: All answers, the most probable first.
        perplexity: Over how many answers the probability spreads: from 1, one answer has it all, to
            their number; 0 if there is none.
    """

    rated: tuple[Rated, ...] = ()
    perplexity: float = 0.0

    @property
    def selected(self) -> tuple[Rated, ...]:
        """Return those that are answered, the most probable first; none is an abstention."""
        return tuple(one for one in self.rated if not one.reason)


@cache
def fitted(name: str) -> Logistic:
    """Return a model that is shipped with the program: ``evidence`` or ``verified``."""
    return Logistic.load(PACKAGE, name)


def rate(
    question: str,
    candidates: Sequence[Candidate],
    drafts: Sequence[Draft],
    hits: Sequence[Hit],
    judged: Sequence[Judged] | None = None,
    *,
    model: Logistic | None = None,
    judge: Judge | None = None,
) -> list[Rated]:
    """Return the candidates with their probabilities, the most probable first.

    Args:
        question: As the user asked it.
        candidates: The different answers.
        drafts: All of them, those with faults among them.
        hits: The passages that were retrieved, as the candidates count them.
        judged: What the verifier thinks of each candidate; None if it was not asked.
        model: From signals to probabilities; None: the one that is shipped.
        judge: A second opinion for the evidence checker.
    """
    model = model or fitted("evidence" if judged is None else "verified")
    checker = Checker([hit.passage for hit in hits], judge=judge)
    claims = [checker.check(one.answer, question=question) for one in candidates]
    told = signals(question, candidates, drafts, hits, claims, judged)
    rated = [
        Rated(
            candidate,
            model.probability(told[number]),
            told[number],
            claims[number],
            judged[number] if judged else None,
        )
        for number, candidate in enumerate(candidates)
    ]
    return sorted(rated, key=lambda one: (-one.probability, one.candidate.answer))


def choose(rated: Sequence[Rated], *, threshold: float, also: float) -> Choice:
    """Select the most probable answer, and others that are about as good.

    Args:
        rated: The most probable first.
        threshold: The probability from which on the best is answered at all.
        also: The probability from which on further answers are given beside it.
    """
    if not rated:
        return Choice()
    chosen: list[Rated] = []
    decided = []
    for one in rated:
        reason = _against(one, chosen, threshold if not chosen else max(threshold, also))
        if not reason:
            chosen.append(one)
        decided.append(replace(one, reason=reason))
    return Choice(tuple(decided), perplexity([one.probability for one in rated]))


def _against(one: Rated, chosen: Sequence[Rated], threshold: float) -> str:
    """Return what speaks against selecting an answer beside those chosen; "" if nothing does."""
    if one.probability < threshold:
        return f"probability {one.probability:.2f}, below {threshold:.2f}"
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


def signals(
    question: str,
    candidates: Sequence[Candidate],
    drafts: Sequence[Draft],
    hits: Sequence[Hit],
    claims: Sequence[Claim],
    judged: Sequence[Judged] | None = None,
) -> list[dict[str, float]]:
    """Return what is known of each candidate.

    ``held``: ln of one more than the passages that hold it; ``held_share``: their share;
    ``agreeing``: the share of sound drafts that give it, or say it with more or fewer words;
    ``own``: the share of its drafts whose own passages hold it; ``logprob``: ln ρ_draft of its
    best draft; ``coverage``: the share of the question's content in the best sentence that holds
    it, or in that one's passage; ``rank``: of the best passage that holds it, 1 for the first;
    ``length``: in content terms; ``claim``: the score of the evidence checker; ``conflict``: how
    much of it a sentence that contradicts it speaks of; ``consistency``, ``support``: the
    verifier's; ``consistency_lead``: over the best other.
    """
    asked = read_terms(question).content
    sound = [number for number, draft in enumerate(drafts) if not draft.fault]
    held_by = [_coverages(asked, candidate, hits) for candidate in candidates]
    found = []
    for number, candidate in enumerate(candidates):
        places = [held.place for held in candidate.held]
        own = [bool(set(drafts[d].places) & set(places)) for d in candidate.drafts]
        agreeing = _agreeing(candidate, candidates)
        told = {
            "held": math.log1p(len(places)),
            "held_share": len(places) / max(1, len(hits)),
            "agreeing": agreeing / max(1, len(sound)),
            "own": sum(own) / max(1, len(own)),
            "logprob": max(drafts[d].logprob for d in candidate.drafts),
            "coverage": held_by[number],
            "rank": 1 / (1 + min(places)) if places else 0.0,
            "length": math.log1p(len(candidate.terms)),
            "claim": claims[number].score,
            "conflict": max((c.shared for c in claims[number].conflicting), default=0.0),
        }
        if judged:
            told |= _of_verifier(number, judged)
        found.append(told)
    return found


def _of_verifier(number: int, judged: Sequence[Judged]) -> dict[str, float]:
    mine = judged[number]
    others = [other.consistency for i, other in enumerate(judged) if i != number]
    return {
        "consistency": mine.consistency,
        "support": mine.support,
        "consistency_lead": mine.consistency - max(others, default=mine.consistency - 1.0),
    }


def _agreeing(candidate: Candidate, candidates: Sequence[Candidate]) -> int:
    """Return how many drafts give the candidate, or say it with more or fewer words."""
    return sum(len(other.drafts) for other in candidates if candidate.agrees_with(other))


def _coverages(asked: frozenset[str], candidate: Candidate, hits: Sequence[Hit]) -> float:
    """Return the best share of the question's content beside the answer, in [0, 1].

    What stands in the sentence counts whole, what stands elsewhere in its passage half.
    """
    best = 0.0
    for held in candidate.held:
        passage = hits[held.place].passage
        here = asked & read_terms(held.text).held
        around = (
            asked & read_terms("\n".join([*passage.heading, passage.context, passage.text])).held
        )
        best = max(best, (len(here) + len(around)) / 2 / max(1, len(asked)))
    return best
