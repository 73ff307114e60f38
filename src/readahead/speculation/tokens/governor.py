"""How many tokens are worth drafting, from measured costs and running acceptance; knows no model.

The quantity to be made small is the time per token, so a token saved is worth what a token costs at
present, however it is come by: for copies over all rounds, for a model's drafts over those in which
nothing was copied, because there it is that a model is asked. Drafting g more tokens of one kind is
expected to save

    max_g  Σᵢ₌₁…g  s·rⁱ·τ − (V(n+1+g) − V(n+1)) − D(u) − (g−1)·D(1)

seconds. s: the probability that the n tokens drafted so far are accepted; r: how often tokens of
the kind are; τ: seconds per token at present; V(k): what the target takes for a step of k tokens;
D(k): the same of the drafter; u: what the drafter must read first. Not above zero, and the target
goes on alone: with nothing drafted, that is plain decoding. A hundredth of the time goes into
drafts that do not seem worth it, to see whether they have become so. *Exact*: the estimates decide
about time, never about tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from readahead.speculation.tokens.advise import Costs, speed_up
from readahead.speculation.tokens.base import MAX_DRAFT_TOKENS, Kind, Round

_FORGETTING = 0.97  # what an observation counts after the next one
_OUTLIER = 3.0  # a step this many times as long as expected was interrupted by something else
_PRIOR_WEIGHT = 6.0  # observations that the rates below stand for
_PROBE_SHARE = 0.01  # of the time, spent on drafts that do not seem worth it
_PRIOR_SLOPE = 0.05  # what a further token of a step costs, in steps, before it is measured
_LITTLE_S = 1e-9  # better than nothing, worse than whatever is known to be good
# How often tokens are accepted, by source and level, before anything is seen; about what grounded
# answers of Qwen2.5-Coder-1.5B came to with its 0.5B.
_PRIOR_RATES = {
    "lookup": (0.4, 0.2, 0.3, 0.7, 0.78, 0.88, 0.93, 0.94),
    "model": (0.75, 0.4, 0.5, 0.8, 0.88, 0.93, 0.99),
}


class FixedPacer:
    """Always γ draft tokens, where the drafter has as many."""

    def __init__(self, num_draft_tokens: int) -> None:
        self.max_draft_tokens = num_draft_tokens

    def rate(self, kind: Kind) -> float:
        """Return 1: nothing is estimated."""
        return 1.0

    def gain_s(self, kind: Kind, survival: float, num_drafted: int, num_unread: int = 0) -> float:
        """Return 1 until γ are drafted; a model's token rather than none, a copied one first."""
        return float(num_drafted < self.max_draft_tokens) / (1 + num_unread)

    def saw_draft_step(self, num_tokens: int, seconds: float) -> None:
        """Learn nothing."""

    def saw(self, result: Round) -> None:
        """Learn nothing."""


class StepCost:
    """What a forward pass of k tokens takes: measured for one, a straight line for more.

    A step of one token runs other kernels than one of two, so it has a figure of its own.
    """

    def __init__(self) -> None:
        self._one_s = 0.0
        self._sums = [0.0] * 5  # weight, k, k², t, k·t; all forgotten alike

    def saw(self, num_tokens: int, seconds: float) -> None:
        """Learn from a step, counting one that was interrupted as long, not as endless."""
        if expected_s := self(num_tokens):
            seconds = min(seconds, _OUTLIER * expected_s)
        if num_tokens == 1:
            known = self._one_s or seconds
            self._one_s = known + (1 - _FORGETTING) * 4 * (seconds - known)
        k = float(num_tokens)
        new = (1.0, k, k * k, seconds, k * seconds)
        self._sums = [_FORGETTING * old + one for old, one in zip(self._sums, new, strict=True)]

    @property
    def is_known(self) -> bool:
        """Return whether there was a step."""
        return self._sums[0] > 0

    def __call__(self, num_tokens: int) -> float:
        """Return the seconds of a step of ``num_tokens``; 0 before the first was seen."""
        if not self.is_known:
            return 0.0
        if num_tokens == 1 and self._one_s:
            return self._one_s
        weight, k, kk, t, kt = self._sums
        mean_k, mean_t = k / weight, t / weight
        spread = kk / weight - mean_k * mean_k
        if spread > 1e-6:
            slope = max(0.0, (kt / weight - mean_k * mean_t) / spread)
        else:
            slope = _PRIOR_SLOPE * mean_t
        return max(self._one_s, mean_t / 4, mean_t + slope * (num_tokens - mean_k))


@dataclass(slots=True)
class _Rate:
    accepted: float
    seen: float

    def saw(self, is_accepted: float) -> None:
        self.accepted = _FORGETTING * self.accepted + is_accepted
        self.seen = _FORGETTING * self.seen + 1

    @property
    def mean(self) -> float:
        return self.accepted / self.seen


@dataclass(slots=True)
class _TokenCost:
    """What a token costs at present: seconds spent over tokens won, old rounds forgotten."""

    spent_s: float = 0.0
    num_new: float = 0.0

    def saw(self, seconds: float, num_new: int) -> None:
        self.spent_s = _FORGETTING * self.spent_s + seconds
        self.num_new = _FORGETTING * self.num_new + num_new

    def __call__(self) -> float:
        return self.spent_s / self.num_new if self.num_new else 0.0


@dataclass(frozen=True, slots=True)
class Belief:
    """What a governor expects of one source, where that has anything to propose.

    Attributes:
        acceptance: How probable it is that its tokens are accepted, in the mean over the rounds
            that it could have begun, old ones forgotten.
        speed_up: How many times as fast as plain decoding tokens come with as many drafted as is
            best; below 1 where plain decoding is faster.
    """

    acceptance: float
    speed_up: float


@dataclass(slots=True)
class Governor:
    """Learns what drafting costs and brings, over all requests of a target and its drafter.

    Attributes:
        max_draft_tokens: γ at most.
        target: What the target's steps take.
        drafter: What the drafting model's steps take.
    """

    max_draft_tokens: int = MAX_DRAFT_TOKENS
    target: StepCost = field(default_factory=StepCost)
    drafter: StepCost = field(default_factory=StepCost)
    _rates: dict[Kind, _Rate] = field(default_factory=dict)
    _token: _TokenCost = field(default_factory=_TokenCost)
    _uncopied_token: _TokenCost = field(default_factory=_TokenCost)
    _asked: dict[str, _Rate] = field(default_factory=dict)
    _allowed_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_PRIOR_RATES, 0.0))
    _is_warm: bool = False

    def rate(self, kind: Kind) -> float:
        """Return how probable it is that a token of ``kind`` is accepted behind accepted ones."""
        return self._rate(kind).mean

    def _rate(self, kind: Kind) -> _Rate:
        if kind not in self._rates:
            levels = _PRIOR_RATES[kind.source]
            prior = levels[min(kind.level, len(levels) - 1)]
            self._rates[kind] = _Rate(prior * _PRIOR_WEIGHT, _PRIOR_WEIGHT)
        return self._rates[kind]

    def gain_s(self, kind: Kind, survival: float, num_drafted: int, num_unread: int = 0) -> float:
        """Return the seconds that drafting on is expected to save; not above 0: better not."""
        if not self.target.is_known:
            return 0.0
        n = num_drafted
        if num_unread and not self.drafter.is_known:
            return inf if n == 0 else 0.0  # one token before all else, to see what it costs
        token = self._uncopied_token if num_unread and self._uncopied_token.num_new else self._token
        rate, token_s, before_s = self.rate(kind), token(), self.target(n + 1)
        if n == 0:
            self._asked.setdefault(kind.source, _Rate(0.0, 0.0)).saw(rate)
        spent_s, step_s = (self.drafter(num_unread), self.drafter(1)) if num_unread else (0.0, 0.0)
        is_due = n == 0 and self._allowed_s[kind.source] > spent_s + self.target(2) - before_s
        best, won_s = _LITTLE_S if is_due else -inf, 0.0
        for g in range(1, self.max_draft_tokens - n + 1):
            survival *= rate
            won_s += survival * token_s
            best = max(best, won_s - (self.target(n + 1 + g) - before_s) - spent_s)
            spent_s += step_s
        return best

    def beliefs(self) -> dict[str, Belief]:
        """Return what is expected at present of each source that proposed to begin a draft.

        By the formula of ``advise.speed_up``, from the costs measured here.
        """
        if self.target(1) <= 0:
            return {}
        verify_s = {k: self.target(k) for k in range(1, self.max_draft_tokens + 2)}
        found = {}
        for source, asked in self._asked.items():
            costs = Costs(verify_s, self.drafter(1) if source == "model" else 0.0)
            gammas = range(1, self.max_draft_tokens + 1)
            best = max(speed_up(asked.mean, gamma, costs) for gamma in gammas)
            found[source] = Belief(asked.mean, best)
        return found

    def saw_draft_step(self, num_tokens: int, seconds: float) -> None:
        """Learn what it took a drafting model to read ``num_tokens``.

        The first step is not counted: it warms the model up, and can take so long that with its
        cost no second one would be tried.
        """
        if self._is_warm:
            self.drafter.saw(num_tokens, seconds)
        self._is_warm = True

    def saw(self, result: Round) -> None:
        """Learn from a round."""
        num_draft, num_accepted = len(result.kinds), result.num_accepted
        for place, kind in enumerate(result.kinds[: num_accepted + 1]):
            self._rate(kind).saw(place < num_accepted)
            if kind.level:
                self._rate(Kind(kind.source, 0)).saw(place < num_accepted)
        self.target.saw(num_draft + 1, result.verify_s)
        total_s = min(result.total_s, _OUTLIER * (result.draft_s + self.target(num_draft + 1)))
        self._token.saw(total_s, num_accepted + 1)
        if all(kind.source == "model" for kind in result.kinds):
            self._uncopied_token.saw(total_s, num_accepted + 1)
        self._allow(result, total_s)

    def _allow(self, result: Round, total_s: float) -> None:
        """Save up for a trial where a source drafts nothing, and begin anew where it does."""
        drafted = {kind.source for kind in result.kinds}
        for source in self._allowed_s:
            saved_s = self._allowed_s[source] + _PROBE_SHARE * total_s
            self._allowed_s[source] = 0.0 if source in drafted else saved_s
