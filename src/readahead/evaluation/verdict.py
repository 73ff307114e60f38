"""What was measured and predicted of drafting tokens, and whether it pays, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from readahead.speculation.tokens.advise import Costs, Growth

MIN_NEW_TOKENS = 16  # of an answer whose times say anything
MIN_SPEED_UP = 1.05  # less is not told from noise, and not worth a second model
MAX_FALL = 0.05  # of what a step costs below one of fewer tokens
MAX_DISAGREEMENT = 0.25  # of what was told and what was found, in shares of the smaller one


@dataclass(frozen=True, slots=True)
class Trial:
    """One way to decode: what was predicted of it, and what came of it.

    Attributes:
        is_identical: Whether all its tokens are those of plain decoding.
        acceptance: β as measured.
        share: ρ, of the rounds that had a draft.
        tokens_per_forward: Of the target.
        predicted_tokens_per_forward: By the formulas, from β and the lengths drafted.
        predicted_speed_up: The same, from the step costs as well.
        best_gamma: The draft length that would be best with this β and ρ.
        best_speed_up: What it would bring.
        break_even: The β from which on it pays with a draft in every round; None: from none.
    """

    way: str
    num_new_tokens: int
    is_identical: bool
    num_draft_tokens: int
    acceptance: float
    share: float
    tokens_per_forward: float
    predicted_tokens_per_forward: float
    speed_up: float
    predicted_speed_up: float
    best_gamma: int
    best_speed_up: float
    break_even: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """What one length of context came to.

    Attributes:
        num_context_tokens: That the target reads, with the question.
        num_drafter_tokens: That the drafter reads of them.
        verify_s: From k to what the target takes for k tokens.
        draft_s: What the drafter takes for one.
        token_s: A token without drafts, in the decoding loop.
    """

    num_context_tokens: int
    num_drafter_tokens: int
    verify_s: dict[int, float]
    draft_s: float
    token_s: float
    trials: tuple[Trial, ...]

    @property
    def costs(self) -> Costs:
        """Return the costs of drafting by the model."""
        return Costs(self.verify_s, self.draft_s)

    def trial(self, way: str) -> Trial:
        """Return what came of one way."""
        return next(trial for trial in self.trials if trial.way == way)


@dataclass(frozen=True, slots=True)
class Advice:
    """Whether a drafter pays for a target.

    Attributes:
        lengths: The shortest context first.
        sentences: In words, at least one for each length.
        warnings: What speaks against trusting them.
    """

    target: str
    drafter: str
    lengths: tuple[Measured, ...]
    sentences: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the advice as JSON values."""
        return asdict(self)


def say(measured: Sequence[Measured], max_context_tokens: int) -> Iterator[str]:
    """Yield the advice in words: for each length whether the model pays, and what copying brings.

    Args:
        measured: Lengths of context.
        max_context_tokens: Of the target.
    """
    growth = Growth.of({one.num_context_tokens: one.costs for one in measured})
    for one in measured:
        rag, lookup = one.trial("rag"), one.trial("lookup")
        head = f"At {one.num_context_tokens} tokens "
        if rag.best_speed_up >= MIN_SPEED_UP:
            yield head + _worth(rag)
        else:
            yield head + _not_worth(rag, one.costs)
            longer = growth.pays_from(rag.acceptance, MIN_SPEED_UP) if len(measured) > 1 else 0
            yield _from_where(longer, one.num_context_tokens, max_context_tokens)
        yield (
            f"{head}copying decodes {lookup.speed_up:.2f} times as fast as plain, both together "
            f"{one.trial('hybrid').speed_up:.2f} times."
        )
        if rag.num_new_tokens < MIN_NEW_TOKENS:
            yield f"The answer had {rag.num_new_tokens} tokens: too few to trust what was measured."


def _worth(rag: Trial) -> str:
    return (
        f"the drafter is worth it: {rag.acceptance:.2f} of its tokens are accepted, "
        f"{_needed(rag.break_even)}; {rag.best_gamma} of them for each forward pass should decode "
        f"{rag.best_speed_up:.2f} times as fast as plain."
    )


def _not_worth(rag: Trial, costs: Costs) -> str:
    return (
        f"the drafter is not worth it: it costs {costs.c:.2f} of a target step; "
        f"{rag.acceptance:.2f} of its tokens are accepted, {_needed(rag.break_even)}."
    )


def _needed(break_even: float | None) -> str:
    if break_even is None:
        return "and not even all of them would pay"
    return f"and it pays from {break_even:.2f} on"


def _from_where(length: int | None, measured_at: int, max_context_tokens: int) -> str:
    if length == 0:
        return "Give several --context to see from which on it would pay."
    if length is None or length <= measured_at:
        return "As costs grow with the context, a longer one does not change that."
    beyond = "" if length <= max_context_tokens else f", but it reads {max_context_tokens} at most"
    return f"From about {_rounded(length)} tokens of the target's context on it would pay{beyond}."


def _rounded(number: int) -> int:
    """Return a number with two digits that count."""
    unit: int = 10 ** max(0, len(str(number)) - 2)
    return round(number / unit) * unit


def warn(measured: Sequence[Measured]) -> Iterator[str]:
    """Yield what speaks against a prediction: costs that cannot be, and trials that differ.

    A step of more tokens does no less than one of fewer. Where it costs less, by more than
    ``MAX_FALL``, times are noise, or one row is multiplied by slower code than several, as on some
    CPUs in bfloat16. Told and found disagree from ``MAX_DISAGREEMENT`` on.
    """
    for one in measured:
        head = f"At {one.num_context_tokens} tokens "
        if (fall := _steepest_fall(one.verify_s)) is not None:
            few, many = fall
            yield (
                f"{head}a step of {many} tokens took {1000 * one.verify_s[many]:.1f} ms, one of "
                f"{few} took {1000 * one.verify_s[few]:.1f} ms: either times are noise, and what "
                "is told from them is not to be trusted, or this machine is slow at few tokens. "
                "Measure again when it is idle: only noise comes out otherwise."
            )
        for trial in one.trials:
            yield from _disagreements(head, trial)


def _steepest_fall(verify_s: Mapping[int, float]) -> tuple[int, int] | None:
    """Return the two numbers of tokens between which costs fall most; None: nowhere too far."""
    pairs = combinations(sorted(verify_s), 2)
    fall = min(pairs, key=lambda pair: verify_s[pair[1]] / verify_s[pair[0]])
    return fall if verify_s[fall[1]] < (1 - MAX_FALL) * verify_s[fall[0]] else None


def _disagreements(head: str, trial: Trial) -> Iterator[str]:
    for what, told, found in (
        ("tokens a forward pass", trial.predicted_tokens_per_forward, trial.tokens_per_forward),
        ("times as fast as plain", trial.predicted_speed_up, trial.speed_up),
    ):
        if max(told, found) > (1 + MAX_DISAGREEMENT) * min(told, found):
            yield (
                f"{head}{trial.way} was told {told:.2f} {what}, and {found:.2f} were found, more "
                f"than {MAX_DISAGREEMENT:.0%} apart: the prediction does not hold here."
            )
