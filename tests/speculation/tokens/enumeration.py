"""All that dice can show, each with its exact probability: proofs in place of samples."""

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import torch
from torch import Tensor

from readahead.speculation.tokens.acceptance import Dice, Rule, decide
from readahead.speculation.tokens.base import Kind, Proposal

KIND = Kind("model", 0)
Tokens = tuple[int, ...]
Outcome = TypeVar("Outcome", bound=Hashable)


class Script:
    """Dice that show what is written, then the first thing possible; the rest is still to try."""

    def __init__(self, written: Tokens) -> None:
        self.shown: Tokens = ()
        self.untried: list[Tokens] = []
        self.probability = 1.0
        self._written = written

    def happens(self, probability: float) -> bool:
        assert 0 <= probability <= 1
        return self._show([1 - probability, probability]) == 1

    def draw(self, probs: Tensor) -> int:
        assert abs(float(probs.sum()) - 1) < 1e-12
        return self._show(probs.tolist())

    def _show(self, probabilities: list[float]) -> int:
        possible = [side for side, chance in enumerate(probabilities) if chance > 0]
        place = len(self.shown)
        if place < len(self._written):
            side = self._written[place]
        else:
            side = possible[0]
            self.untried += [(*self.shown, other) for other in possible[1:]]
        self.shown += (side,)
        self.probability *= probabilities[side]
        return side


def law(happening: Callable[[Dice], Outcome]) -> dict[Outcome, float]:
    """Return the probability of every outcome."""
    outcomes: dict[Outcome, float] = defaultdict(float)
    scripts: list[Tokens] = [()]
    while scripts:
        dice = Script(scripts.pop())
        outcome = happening(dice)
        outcomes[outcome] += dice.probability
        scripts += dice.untried
    assert abs(sum(outcomes.values()) - 1) < 1e-12
    return dict(outcomes)


@dataclass(frozen=True)
class World:
    """A target and a drafter: at random, but fixed for every sequence of tokens before.

    Attributes:
        size: V.
        certainty: How many draft tokens out of ten are certain, as copied ones are.
        zeros: How many probabilities out of ten are 0.
    """

    size: int
    seed: int
    certainty: int = 0
    zeros: int = 3
    dtype: torch.dtype = torch.float64

    def _generator(self, context: Tokens, salt: int) -> torch.Generator:
        number = sum((token + 1) * (self.size + 1) ** at for at, token in enumerate(context))
        return torch.Generator().manual_seed(1_000_003 * self.seed + 7 * number + salt)

    def _row(self, context: Tokens, salt: int) -> Tensor:
        generator = self._generator(context, salt)
        weights = torch.randn(self.size, generator=generator, dtype=torch.float64).mul(1.5).exp()
        ruled_out = torch.randint(10, (self.size,), generator=generator) < self.zeros
        ruled_out[torch.randint(self.size, (), generator=generator)] = False
        weights = weights.masked_fill(ruled_out, 0.0)
        return (weights / weights.sum()).to(self.dtype)

    @cache  # noqa: B019
    def p(self, context: Tokens) -> Tensor:
        return self._row(context, 1)

    @cache  # noqa: B019
    def q(self, context: Tokens) -> Tensor:
        return self._row(context, 2)

    def copied(self, context: Tokens) -> int | None:
        """Return the draft token that is certain here, whatever q says."""
        generator = self._generator(context, 3)
        if int(torch.randint(10, (), generator=generator)) >= self.certainty:
            return None
        return int(torch.randint(self.size, (), generator=generator))

    def draft(self, context: Tokens, num_tokens: int, dice: Dice) -> Proposal:
        ids: Tokens = ()
        rows: list[Tensor | None] = []
        for _ in range(num_tokens):
            q, copied = self.q(context + ids), self.copied(context + ids)
            ids += (dice.draw(q) if copied is None else copied,)
            rows.append(q if copied is None else None)
        soft = torch.stack([self.q(context + ids[:place]) for place in range(num_tokens + 1)])
        return Proposal(ids, tuple(rows), (KIND,) * num_tokens, soft)


Drafting = Callable[[World, Tokens, int, Dice], Proposal]


@dataclass(frozen=True)
class Said:
    """What one round adds to the answer."""

    ids: Tokens
    gaps: tuple[float, ...]


def one_round(
    rule: Rule,
    world: World,
    context: Tokens,
    num_tokens: int,
    dice: Dice,
    draft: Drafting = World.draft,
) -> Said:
    """Return what ``num_tokens`` draft tokens and their verification add to ``context``."""
    proposal = draft(world, context, num_tokens, dice)

    def target_row(place: int) -> tuple[Tensor, None]:
        return world.p(context + proposal.token_ids[:place]), None

    accepted = decide(rule, proposal, target_row, dice)
    return Said((*proposal.token_ids[: accepted.num_accepted], accepted.next_id), accepted.gaps)


def round_law(
    rule: Rule,
    world: World,
    context: Tokens,
    num_tokens: int,
    draft: Drafting = World.draft,
) -> dict[Said, float]:
    return law(lambda dice: one_round(rule, world, context, num_tokens, dice, draft))


def answer_law(
    rule: Rule, world: World, num_draft_tokens: int, length: int, context: Tokens = ()
) -> dict[Tokens, float]:
    """Return the law of the first ``length`` tokens of an answer, round after round."""
    answers: dict[Tokens, float] = defaultdict(float)
    for said, probability in round_law(rule, world, context, num_draft_tokens).items():
        left = length - len(said.ids)
        if left <= 0:
            answers[said.ids[:length]] += probability
            continue
        rest = answer_law(rule, world, num_draft_tokens, left, context + said.ids)
        for ids, chance in rest.items():
            answers[said.ids + ids] += probability * chance
    return dict(answers)


def distance(one: dict[Tokens, float], other: dict[Tokens, float]) -> float:
    """Return the total variation between two laws."""
    return sum(abs(one.get(ids, 0.0) - other.get(ids, 0.0)) for ids in one.keys() | other) / 2
