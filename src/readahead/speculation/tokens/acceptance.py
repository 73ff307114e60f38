"""Which draft tokens are kept, and what the answer's tokens are distributed as; pure functions.

p is the target's distribution, q the one that a draft token was drawn from, (V,) each. A judge j
stands in for p. With the mass that drafter and judge share,

    m(x) = min(q(x), j(x)),    β = Σ m(x),

a draft token x is accepted with probability m(x) / q(x), and β is how often that happens; after a
rejection a token is drawn from the residual, norm((b − m)₊), with b = j in all modes but ``paper``.
A position's token then has the law

    m + (1 − β) · norm((b − m)₊),

which is j where b = j: what is rejected of j is just what the residual puts back.
[Leviathan23] [Chen23]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import torch
from torch import Tensor

from readahead.errors import ConfigError, InputError
from readahead.lm.sample import draw
from readahead.speculation.tokens.base import Proposal

Mode = Literal["exact", "augmented", "paper", "ensemble"]

TargetRow = Callable[[int], tuple[Tensor, Tensor | None]]
"""From a place among the draft tokens, 0 to γ, to p there, (V,), and to the soft p: the same at
temperature 1 where the temperature is 0; None, or p itself, where it is not."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How draft tokens are judged, and with that the law of the answer's tokens.

    - ``exact``: the judge is p, and so is the law. *Exact.*
    - ``augmented``: the judge is p̂, p moved towards q; so is the law, whatever γ is.
      *Approximate* to p by TV(p̂, p).
    - ``paper``: the judge is p̂, but residual and bonus tokens come from p, as published [Chen25].
      *Approximate*: the law is neither p nor p̂, and depends on γ; off p by Σ (m − p)₊.
    - ``ensemble``: the judge is a mean of p and q; so is the law. *Approximate* to p by TV(v, p).

    At temperature 0 each of p, p̂ and v is 1 at its largest value, found at temperature 1 for the
    latter two; so ``paper`` keeps a draft token that is p̂'s first choice, else takes p's.

    Attributes:
        mode: One of the four.
        eta: Transfer strength η, of ``augmented`` and ``paper``.
        weight: Of p in ``ensemble``.
        tail: Tokens below this share of the most probable one are not moved, in ``augmented`` and
            ``paper``; 0 moves all.
        is_dynamic: In these two, η is scaled at each token by how far p and q agree there, which
            depends on nothing else: the law is p̂ with that η, whatever γ is.

    Raises:
        InputError: A value is out of its range.
    """

    mode: Mode = "exact"
    eta: float = 10.0
    weight: float = 0.8
    tail: float = 0.1
    is_dynamic: bool = False

    def __post_init__(self) -> None:
        _require("mode", self.mode, self.mode in get_args(Mode), "one of " + _listed(Mode))
        _require("eta", self.eta, math.isfinite(self.eta) and self.eta >= 0, "0 or more")
        _require("weight", self.weight, 0 <= self.weight <= 1, "between 0 and 1")
        _require("tail", self.tail, 0 <= self.tail <= 1, "between 0 and 1")

    @property
    def is_exact(self) -> bool:
        """Return whether the law is the target's own."""
        return self.mode == "exact"

    @property
    def needs_soft(self) -> bool:
        """Return whether it judges by the drafter's distributions, γ + 1 of them."""
        return not self.is_exact

    def judged_by(self, p: Tensor, q: Tensor | None, soft: Tensor | None = None) -> Tensor:
        """Return the judge (V,): p itself, p̂ or v.

        Args:
            p: What the target would draw from.
            q: The drafter's distribution at the same place, at temperature 1 if that is 0.
            soft: As in ``TargetRow``.

        Raises:
            ConfigError: The mode needs q and there is none.
        """
        if self.is_exact:
            return p
        if q is None:
            raise ConfigError(
                f"The mode {self.mode!r} needs a drafter's distributions, and this one has none.",
                remedy="Use the mode 'exact', or a model as the drafter.",
            )
        is_greedy = not (soft is None or soft is p)
        p, q = p if soft is None else soft, q.to(p.device)
        if self.mode == "ensemble":
            judge = ensemble(p, q, self.weight)
        else:
            eta = self.eta * agreement(p, q) if self.is_dynamic else self.eta
            judge = augmented(p, q, eta, self.tail)
        return certain(judge) if is_greedy else judge


def _listed(mode: object) -> str:
    return ", ".join(get_args(mode))


def _require(name: str, value: object, holds: bool, limit: str) -> None:
    if not holds:
        raise InputError(f"{name} is {value!r}; it must be {limit}.")


@dataclass(frozen=True, slots=True)
class Accepted:
    """What came of one proposal: the tokens accepted, and one more.

    Attributes:
        num_accepted: Of the γ draft tokens, those before the first rejected one.
        next_id: The residual token, or the bonus token where all were accepted.
        gaps: For each of these tokens the total variation between its law and p, given the tokens
            before it; 0 where that is exact.
    """

    num_accepted: int
    next_id: int
    gaps: tuple[float, ...]


class Dice(Protocol):
    """Where chance comes in; the proofs replace it by all that can happen."""

    def happens(self, probability: float) -> bool:
        """Return True with this probability."""
        ...

    def draw(self, probs: Tensor) -> int:
        """Return a token drawn from ``probs`` (V,)."""
        ...


@dataclass(frozen=True, slots=True)
class Generated:
    """The dice of a seeded generator on the CPU."""

    generator: torch.Generator

    def happens(self, probability: float) -> bool:
        """Return True with this probability."""
        return float(torch.rand((), dtype=torch.float64, generator=self.generator)) < probability

    def draw(self, probs: Tensor) -> int:
        """Return a token drawn from ``probs`` (V,); a certain one costs no draw."""
        best = probs.argmax()
        if probs[best] == 1:
            return int(best)
        return int(draw(probs.cpu()[None], [self.generator]))


def accept(
    rule: Rule,
    proposal: Proposal,
    target_row: TargetRow,
    generator: torch.Generator,
) -> Accepted:
    """Return which draft tokens are kept and what follows them.

    Args:
        rule: Decides about the law.
        proposal: γ draft tokens with what they were drawn from.
        target_row: Asked for 0, 1, … up to the first rejected draft token, γ being behind the last.
        generator: On the CPU.

    Raises:
        ConfigError: The rule needs the drafter's distributions, and the proposal has none.
    """
    return decide(rule, proposal, target_row, Generated(generator))


def decide(rule: Rule, proposal: Proposal, target_row: TargetRow, dice: Dice) -> Accepted:
    """Return the same as ``accept``, by any dice."""
    gaps: list[float] = []
    from_p = rule.mode in ("exact", "paper")  # residual and bonus tokens
    for place, (token_id, q) in enumerate(zip(proposal.token_ids, proposal.q, strict=True)):
        p, soft = target_row(place)
        judge = rule.judged_by(p, _soft(proposal, place), soft)
        q = q if q is None else q.to(p.device)
        gaps.append(_gap(rule, p, judge, q, token_id))
        if not dice.happens(chance(judge, q, token_id)):
            rest = residual(p if from_p else judge, overlap(judge, q, token_id))
            return Accepted(place, dice.draw(rest), tuple(gaps))
    p, soft = target_row(len(proposal.token_ids))
    bonus = p if from_p else rule.judged_by(p, _soft(proposal, -1), soft)
    gaps.append(_distance(bonus, p))
    return Accepted(len(proposal.token_ids), dice.draw(bonus), tuple(gaps))


def _soft(proposal: Proposal, place: int) -> Tensor | None:
    return None if proposal.soft is None else proposal.soft[place]


def _gap(rule: Rule, p: Tensor, judge: Tensor, q: Tensor | None, token_id: int) -> float:
    if rule.mode == "paper":
        return float((overlap(judge, q, token_id) - p).clamp(min=0).sum())
    return _distance(judge, p)


def _distance(law: Tensor, p: Tensor) -> float:
    return 0.0 if law is p else total_variation(law, p)


def chance(judge: Tensor, q: Tensor | None, token_id: int) -> float:
    """Return how probable it is that a draft token is accepted: min(1, j(x) / q(x)).

    A token that the judge rules out never is. q None: the draft token was certain.
    """
    wanted = float(judge[token_id])
    drafted = 1.0 if q is None else float(q[token_id])
    return wanted / drafted if wanted < drafted else float(wanted > 0)


def overlap(judge: Tensor, q: Tensor | None, token_id: int) -> Tensor:
    """Return m = min(q, j): (V,); its sum β is how probable an acceptance is.

    q None: the draft token was certain, so m is j at ``token_id`` and 0 elsewhere.
    """
    if q is not None:
        return torch.minimum(q, judge)
    shared = torch.zeros_like(judge)
    shared[token_id] = judge[token_id]
    return shared


def residual(base: Tensor, shared: Tensor) -> Tensor:
    """Return what is drawn from after a rejection: (V,).

        norm((b − m)₊)

    b: what is left to draw from; m: the mass that acceptance has given out already. b = j gives
    the residual (j − q)₊ of [Leviathan23], b = p with m = min(q, p̂) that of [Chen25], which is
    max(p − q, p − p̂, 0): there b − m is negative where m > p, is clamped, and so the law is not p.
    Where nothing is left, as can come from rounding, b itself.
    """
    left = (base - shared).clamp(min=0)
    total = left.sum()
    return left / total if total > 0 else base


def augmented(p: Tensor, q: Tensor, eta: float, tail: float) -> Tensor:
    """Return p̂, the target moved towards the drafter: (V,).

        s = softmax(log p + η · (q − p)),    p̂ = norm(s where s ≥ τ · max s, else p)

    η: transfer strength, in units of the logits divided by the temperature, which log p is but for
    a constant; τ: tail.
    A token that p rules out stays ruled out.   [Chen25]
    Departs from eq. 9, which is not a distribution: here it is divided by its sum.
    """
    moved = (p.log() + eta * (q - p)).softmax(dim=-1)
    mixed = torch.where(moved >= tail * moved.max(), moved, p)
    return mixed / mixed.sum()


def ensemble(p: Tensor, q: Tensor, weight: float) -> Tensor:
    """Return v = w · p + (1 − w) · q: (V,); a token that p rules out comes back as far as q has it.

    Draft tokens are accepted with probability 1 − w · TV(p, q): no law as near to p has more.
    """
    return weight * p + (1 - weight) * q


def certain(probs: Tensor) -> Tensor:
    """Return 1 at the first largest of ``probs`` (V,), 0 elsewhere."""
    return torch.zeros_like(probs).scatter_(-1, probs.argmax(dim=-1, keepdim=True), 1.0)


def agreement(p: Tensor, q: Tensor) -> float:
    """Return Σ min(p, q), in [0, 1]: how often q's draft tokens would be accepted exactly."""
    return float(torch.minimum(p, q).sum())


def total_variation(a: Tensor, b: Tensor) -> float:
    """Return ½ · Σ |a(x) − b(x)|, the most by which any event's probabilities differ."""
    return float((a - b).abs().sum() / 2)
