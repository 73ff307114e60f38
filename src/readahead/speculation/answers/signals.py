"""What is known of each answer that drafts give, as numbers; judges nothing, runs no model."""

from __future__ import annotations

import math
from collections.abc import Sequence

from readahead.evidence.claims import Claim
from readahead.evidence.terms import read_terms
from readahead.speculation.answers.pool import Candidate
from readahead.speculation.answers.verify import Judged
from readahead.types import Draft, Hit


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
