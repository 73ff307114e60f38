"""A sentence and passages → the spans that support or contradict it; pure text, without models."""

from readahead.evidence.attribution import Evidence, Similarity, Support, attribute
from readahead.evidence.claims import Checker, Claim, ClaimSpan, Judge, Verdict, check
from readahead.evidence.conflicts import Conflict
from readahead.evidence.markers import Markers
from readahead.evidence.refusals import is_refusal

__all__ = [
    "Checker",
    "Claim",
    "ClaimSpan",
    "Conflict",
    "Evidence",
    "Judge",
    "Markers",
    "Similarity",
    "Support",
    "Verdict",
    "attribute",
    "check",
    "is_refusal",
]
