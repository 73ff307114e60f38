"""Whether drafting tokens pays, from what steps cost and how often tokens are accepted.

Costs are seconds of forward passes: V(k) of the target reading k tokens, D of the drafter reading
one. β is the probability that a draft token is accepted behind accepted ones, γ the draft length,
ρ the share of rounds in which anything is drafted. *Approximate*: every token is taken to be
accepted with the same β, whatever came before, and the work between the models is left out.
[Leviathan23]
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from readahead.errors import InputError
from readahead.speculation.tokens.base import MAX_DRAFT_TOKENS

_BISECTIONS = 50
MAX_CONTEXT_TOKENS = 1 << 20
"""What is looked at when asking from which context on drafting pays."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What forward passes take behind a context of one length.

    Attributes:
        verify_s: From k to V(k), seconds; 1 and at least one more k.
        draft_s: D, 0 for tokens that are copied.

    Raises:
        InputError: V(1) is not there or not above 0, or there is no other.
    """

    verify_s: Mapping[int, float]
    draft_s: float = 0.0

    def __post_init__(self) -> None:
        if self.verify_s.get(1, 0.0) <= 0 or len(self.verify_s) < 2:
            raise InputError("Costs need what the target takes for 1 token and for several.")

    @property
    def c(self) -> float:
        """Return what a drafter's step costs, in steps of the target: D / V(1)."""
        return self.draft_s / self.verify_s[1]

    def v(self, gamma: int) -> float:
        """Return what verifying γ draft tokens costs, in steps of the target: V(γ + 1) / V(1).

        Between and beyond what was measured on straight lines.
        """
        known = sorted(self.verify_s)
        k = gamma + 1
        at = min(max(bisect_left(known, k), 1), len(known) - 1)
        low, high = known[at - 1], known[at]
        slope = (self.verify_s[high] - self.verify_s[low]) / (high - low)
        return (self.verify_s[low] + slope * (k - low)) / self.verify_s[1]


def expected_tokens(beta: float, gamma: int) -> float:
    """Return how many tokens a round with γ draft tokens gives, the target's own included.

    E = (1 − β^(γ+1)) / (1 − β),    γ + 1 for β = 1    [Leviathan23, eq. 1]
    """
    return float(sum(beta**accepted for accepted in range(gamma + 1)))


def acceptance(num_accepted: int, num_rejections: int) -> float:
    """Return the most likely β: of the draft tokens that were judged, the share accepted.

    A round judges its tokens up to the first rejected one; those behind it say nothing. 0 where
    none was judged.
    """
    return num_accepted / max(1, num_accepted + num_rejections)


def speed_up(beta: float, gamma: int, costs: Costs, share: float = 1.0) -> float:
    """Return how many times as fast as without drafts tokens come.

        (1 + ρ · (E − 1)) / (1 − ρ + ρ · (γ · c + v(γ)))

    With ρ = 1, where every round has a draft, E / (γ · c + v(γ)). c: D / V(1); v(γ): V(γ+1) / V(1).
    """
    gained = 1 + share * (expected_tokens(beta, gamma) - 1)
    return gained / (1 - share + share * (gamma * costs.c + costs.v(gamma)))


def replayed(beta: float, gammas: Sequence[int], costs: Costs) -> tuple[float, float]:
    """Return tokens per forward pass and speed-up of rounds with drafts of these lengths, 0 too.

        Σ E(β, γ) / n,    Σ E(β, γ) / Σ (γ · c + v(γ))    over n rounds

    Both 1 where there are no rounds.
    """
    if not gammas:
        return 1.0, 1.0
    num_tokens = sum(expected_tokens(beta, gamma) for gamma in gammas)
    num_steps = sum(gamma * costs.c + costs.v(gamma) for gamma in gammas)
    return num_tokens / len(gammas), num_tokens / num_steps


def best_gamma(
    beta: float, costs: Costs, *, share: float = 1.0, max_gamma: int = MAX_DRAFT_TOKENS
) -> int:
    """Return the γ from 1 on with the largest speed-up, the smallest of several."""
    return max(range(1, max_gamma + 1), key=lambda gamma: speed_up(beta, gamma, costs, share))


def best_speed_up(beta: float, costs: Costs, *, share: float = 1.0) -> float:
    """Return the speed-up with the best γ; below 1 where not drafting is better."""
    return speed_up(beta, best_gamma(beta, costs, share=share), costs, share)


def break_even(costs: Costs) -> float | None:
    """Return β*, from which on drafting pays with the best γ; None: not even with β = 1.

    The speed-up grows with β for every γ, so that of the best γ does, and β* is found by bisection.
    """
    if best_speed_up(1.0, costs) < 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if best_speed_up(middle, costs) < 1:
            low = middle
        else:
            high = middle
    return high


@dataclass(frozen=True, slots=True)
class Growth:
    """How costs grow with the context: a straight line for each kind of step, never falling.

    Attributes:
        lines: From k to the seconds at no context, and those that each token of it adds.
        draft: The same of the drafter's step, by the target's context.
    """

    lines: Mapping[int, tuple[float, float]]
    draft: tuple[float, float]

    @classmethod
    def of(cls, measured: Mapping[int, Costs]) -> Growth:
        """Return the lines of least squares through costs ``measured`` at several lengths."""
        ks = set.intersection(*(set(costs.verify_s) for costs in measured.values()))
        verify = {k: {n: costs.verify_s[k] for n, costs in measured.items()} for k in sorted(ks)}
        draft = {n: costs.draft_s for n, costs in measured.items()}
        return cls({k: _line(points) for k, points in verify.items()}, _line(draft))

    def at(self, num_tokens: int) -> Costs:
        """Return the costs behind a context of ``num_tokens``."""
        verify = {k: base + slope * num_tokens for k, (base, slope) in self.lines.items()}
        return Costs(verify, self.draft[0] + self.draft[1] * num_tokens)

    def pays_from(self, beta: float, min_speed_up: float) -> int | None:
        """Return about how many tokens of context make drafting reach a speed-up.

        None: nowhere up to ``MAX_CONTEXT_TOKENS``. β is taken to be the same everywhere.
        """
        length = 1
        while length <= MAX_CONTEXT_TOKENS:
            if best_speed_up(beta, self.at(length)) >= min_speed_up:
                return length
            length += 1 + length // 16
        return None


def _line(points: Mapping[int, float]) -> tuple[float, float]:
    """Return base and slope through points; the slope is 0 where they fall or there is one."""
    mean_x = sum(points) / len(points)
    mean_y = sum(points.values()) / len(points)
    spread = sum((x - mean_x) ** 2 for x in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points.items()) / spread if spread else 0.0
    slope = max(0.0, slope)
    base = mean_y - slope * mean_x
    return (base, slope) if base > 0 else (0.0, mean_y / mean_x)
