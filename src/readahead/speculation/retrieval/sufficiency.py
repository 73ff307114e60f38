"""Do the passages shown hold the answer? Judged from the retrieval and from the model's state.

The numbers are fitted by ``scripts/fit_sufficiency.py``; ``docs/signals.md`` tells what each signal
is worth. Knows nothing about what is done when they do not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

from readahead.evidence import is_refusal
from readahead.evidence.terms import read_terms
from readahead.logistic import Logistic
from readahead.speculation.retrieval.signals import TokenSignals
from readahead.types import Hit, Passage


@dataclass(frozen=True, slots=True)
class Judgement:
    """How likely the passages do not hold the answer.

    Attributes:
        signals: What it was told from, by name; a signal that there is not, is missing.
    """

    probability: float
    signals: dict[str, float]


class Sufficiency:
    """One question with the passages that are shown for it; keep it while they stay the same."""

    def __init__(self, question: str, hits: Sequence[Hit], model: Logistic | None = None) -> None:
        self._model = model or fitted()
        self._asked = read_terms(question).content
        self._held = [_held(hit.passage) for hit in hits]
        self._retrieval = retrieval_signals(question, hits)

    def judge(self, text: str = "", tokens: Sequence[TokenSignals] = ()) -> Judgement:
        """Return the judgement after ``text`` was written; before the first token, without any.

        Args:
            text: The answer so far.
            tokens: The signals of its tokens, and of the one that is about to be chosen.
        """
        signals = self._retrieval | state_signals(tokens)
        if text:
            signals["refusal"] = float(is_refusal(text))
            signals["unsupported"] = self._unsupported(text)
        known = {name: value for name, value in signals.items() if math.isfinite(value)}
        return Judgement(self._model.probability(known), known)

    def _unsupported(self, text: str) -> float:
        """Return the share of what the text says beyond the question that no passage says."""
        said = read_terms(text).content - self._asked
        missing = said.difference(*self._held)
        return len(missing) / len(said) if said else 0.0


@cache
def fitted() -> Logistic:
    """Return the model that is shipped with the program."""
    return Logistic.load("readahead.speculation.retrieval", "sufficiency")


def retrieval_signals(question: str, hits: Sequence[Hit]) -> dict[str, float]:
    """Return what question and passages tell without any language model.

    ``similarity``: the cosine of the question and the nearest passage; ``similarity_mean``: of all;
    ``margin``: by how much the nearest leads; ``coverage``: the share of the question's content
    words that the passages hold; ``coverage_best``: that one of them holds.
    """
    similarities = sorted(
        (hit.similarity for hit in hits if hit.similarity is not None), reverse=True
    )
    asked = read_terms(question).content
    held = [asked & _held(hit.passage) for hit in hits]
    num_asked = max(1, len(asked))
    signals = {
        "coverage": len(frozenset().union(*held)) / num_asked,
        "coverage_best": max(map(len, held), default=0) / num_asked,
    }
    if similarities:
        signals["similarity"] = similarities[0]
        signals["similarity_mean"] = fmean(similarities)
        signals["margin"] = similarities[0] - fmean(similarities[1:] or similarities)
    return signals


def state_signals(tokens: Sequence[TokenSignals]) -> dict[str, float]:
    """Return the state of the model over the tokens so far: means, and the peak of the entropy."""
    if not tokens:
        return {}
    return {
        "entropy": _mean([token.entropy for token in tokens]),
        "entropy_peak": max(token.entropy for token in tokens),
        "entropy_slope": max(token.entropy_slope for token in tokens),
        "top_probability": _mean([token.top_probability for token in tokens]),
        "attention_entropy": _mean([token.attention_entropy for token in tokens]),
        "value_sparsity": _mean([token.value_sparsity for token in tokens]),
        "key_change": _mean([token.key_change for token in tokens]),
    }


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return fmean(known) if known else math.nan


def _held(passage: Passage) -> frozenset[str]:
    title = passage.heading or (passage.document,)  # as the model is shown it
    return read_terms("\n".join([*title, passage.context, passage.text])).held
