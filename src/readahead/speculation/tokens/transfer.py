"""How strongly the target is moved towards a drafter that reads what was retrieved; no model here.

η is set, or follows from which of the two is larger; ``dynamic`` weakens it where the retrieval or
the drafter is not to be trusted:

    η′ = η · s · Σ min(p, q)

s: how well the passages resemble the question, 0 where none does. It is fixed for an answer, and
the sum depends on p and q at one token alone, so the law of each token is p̂ with its own η′,
whatever γ is. *Approximate* to p, by TV(p̂, p), which is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from readahead.config import ETA_PRESETS
from readahead.speculation.tokens.acceptance import Rule
from readahead.speculation.tokens.context import Selected

Kind = Literal["self", "upward"]
"""The drafter is the target over less text, or no larger; or it is larger than the target."""


def kind_of(target_size: int, drafter_size: int) -> Kind:
    """Return which kind of drafting it is; sizes are numbers of weights, or of anything alike."""
    return "upward" if drafter_size > target_size else "self"


def eta_preset(target_size: int, drafter_size: int) -> float:
    """Return η for a pair of models: 10, or 40 where the drafter is the larger one.

    As published [Chen25]; it departs where the drafter is smaller, which was not tried: there it is
    5, the least of those for self-drafting, as the drafter knows less than the target.
    """
    if drafter_size < target_size:
        return ETA_PRESETS["self-weak"]
    return ETA_PRESETS[kind_of(target_size, drafter_size)]


def trust(similarities: Sequence[float], selected: Selected) -> float:
    """Return s, in [0, 1]: the similarity of the best passage read, 0 if that is a fallback."""
    if selected.is_fallback or not selected.best_first:
        return 0.0
    return min(1.0, max(0.0, similarities[selected.best_first[0]]))


def dynamic(rule: Rule, retrieval: float) -> Rule:
    """Return ``rule`` with η′ in place of η; ``retrieval`` is s."""
    return replace(rule, eta=rule.eta * retrieval, is_dynamic=True)
