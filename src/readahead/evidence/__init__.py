"""A sentence and passages → the spans that support it; pure text, without models."""

from readahead.evidence.attribution import Evidence, Similarity, Support, attribute
from readahead.evidence.markers import Markers
from readahead.evidence.refusals import is_refusal

__all__ = ["Evidence", "Markers", "Similarity", "Support", "attribute", "is_refusal"]
