"""All that was drafted and why one was chosen, as JSON values: for traces and ``--explain``."""

from __future__ import annotations

import math
from collections.abc import Sequence

from readahead.evidence.claims import Claim
from readahead.speculation.answers.choose import Rated
from readahead.speculation.answers.hops import Hop
from readahead.types import Hit


def audit(hop: Hop, fell_back: str = "") -> dict[str, object]:
    """Return all that was drafted and why one was chosen, as JSON values.

    ``threshold`` is the probability from which on an answer is given, ``also`` the higher one of an
    answer beside a better one; None: that went by what it adds. ``steps`` are the parts of a
    question that was split, each with an audit of its own.

    Args:
        hop: What came of the question; as far as it went, if drafting ended before its time.
        fell_back: Why plain RAG answered; "" if it did not.
    """
    outcome, hits = hop.outcome, hop.outcome.hits
    number_of = {
        number: place
        for place, one in enumerate(outcome.choice.rated)
        for number in one.candidate.drafts
    }
    return {
        "fell_back": fell_back,
        "threshold": outcome.threshold,
        "also": outcome.choice.also,
        "lacking": outcome.lacking,
        "selection_perplexity": outcome.choice.perplexity,
        "num_saved_drafts": outcome.num_saved,
        "feedback": outcome.feedback,
        "drafts": [
            {
                "answer": draft.answer,
                "rationale": draft.rationale,
                "author": draft.author,
                "passages": [hits[place].passage.id for place in draft.places],
                "num_prompt_tokens": draft.num_prompt_tokens,
                "num_tokens": draft.num_tokens,
                "seconds": draft.seconds,
                "logprob": _finite(draft.logprob),
                "candidate": number_of.get(number),
                "fault": draft.fault,
            }
            for number, draft in enumerate(outcome.drafts)
        ],
        "candidates": [_shown(one, hits) for one in outcome.choice.rated],
        "is_combined": hop.is_combined,
        "steps": [{"question": part.question, **audit(part)} for part in hop.children],
    }


def _finite(value: float) -> float | None:
    """Return a number that JSON can hold: a draft without a token has ln ρ_draft = −∞."""
    return value if math.isfinite(value) else None


def _shown(one: Rated, hits: Sequence[Hit]) -> dict[str, object]:
    judged = one.judged
    return {
        "answer": one.candidate.answer,
        "probability": one.probability,
        "wrong": one.wrong,
        "consistency": judged.consistency if judged else None,
        "support": judged.support if judged else None,
        "signals": dict(one.signals),
        "claim": _checked(one.claim, hits),
        "selected": not one.reason,
        "reason": one.reason,
        "evidence": [
            {
                "passage_id": hits[held.place].passage.id,
                "document": hits[held.place].passage.document,
                "start": held.start,
                "end": held.end,
                "text": held.text,
            }
            for held in one.candidate.held
        ],
    }


def _checked(claim: Claim, hits: Sequence[Hit]) -> dict[str, object]:
    """Return what all passages say about an answer, as JSON values."""
    ids = [hit.passage.id for hit in hits]
    return {
        "verdict": claim.verdict,
        "score": claim.score,
        "supporting": [
            {
                "passage_id": ids[span.passage],
                "start": span.start,
                "end": span.end,
                "kind": span.kind,
            }
            for span in claim.supporting
        ],
        "conflicting": [
            {
                "passage_id": ids[one.passage],
                "start": one.start,
                "end": one.end,
                "claim_start": one.claim_start,
                "claim_end": one.claim_end,
                "what": one.what,
            }
            for one in claim.conflicting
        ],
    }
