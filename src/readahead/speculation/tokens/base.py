"""What drafters of tokens and the loop that verifies them say to each other; knows no model.

p is the target's distribution, q the drafter's. γ draft tokens are proposed for each forward pass
of the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from readahead.lm.base import Cancelled, never
from readahead.lm.sample import SamplingParams
from readahead.trace import Trace

MAX_DRAFT_TOKENS = 16
"""γ at most, where nothing else is set: beyond it hardly any proposal is accepted whole."""

REFRESH = "refresh"
"""The span of a drafter that has its passages retrieved anew; not counted as drafting."""


class OwnTime:
    """A trace's clock that stands still while ``cancelled`` is asked.

    That question is where an answer lets the steps of others go first; what those take is none of
    its own costs.

    Attributes:
        given_s: How long it stood still, all together.
    """

    def __init__(self, trace: Trace, cancelled: Cancelled) -> None:
        self.given_s = 0.0
        self._trace = trace
        self._cancelled = cancelled

    def now_s(self) -> float:
        """Return the seconds since the trace began, less those given to others."""
        return self._trace.now_s() - self.given_s

    def cancelled(self) -> bool:
        """Return what ``cancelled`` says."""
        begun_s = self._trace.now_s()
        try:
            return self._cancelled()
        finally:
            self.given_s += self._trace.now_s() - begun_s


@dataclass(frozen=True, slots=True)
class Kind:
    """Draft tokens of one kind are accepted about equally often.

    Attributes:
        source: ``lookup`` or ``model``.
        level: How sure it is, in whole steps: the longer the match, the more certain the model;
            0 before it is known.
    """

    source: str
    level: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """Draft tokens, and what each was really drawn from.

    Attributes:
        token_ids: γ of them; none where no guess is worth its verification.
        q: For each the distribution (V,) it was drawn from, float32, after temperature, top-k,
            top-p and penalties; None for a token that was certain, such as a copied one.
        kinds: Of each.
        soft: Where the rule of acceptance asks for it, the drafter's distributions at each draft
            token and behind the last, (γ + 1, V), as ``q`` but at temperature 1 where that is 0.
    """

    token_ids: tuple[int, ...] = ()
    q: tuple[Tensor | None, ...] = ()
    kinds: tuple[Kind, ...] = ()
    soft: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """What came of one forward pass of the target.

    Attributes:
        kinds: Of the draft tokens.
        num_accepted: How many of them were accepted.
        draft_s: What proposing them took.
        verify_s: What the target's forward pass took.
        total_s: All of it, with what is computed between the models.
    """

    kinds: tuple[Kind, ...]
    num_accepted: int
    draft_s: float
    verify_s: float
    total_s: float


class Pacer(Protocol):
    """Decides how many tokens are worth drafting, and learns from what came of it."""

    @property
    def max_draft_tokens(self) -> int:
        """Return γ at most."""
        ...

    def rate(self, kind: Kind) -> float:
        """Return how probable it is that a token of ``kind`` is accepted behind accepted ones."""
        ...

    def gain_s(self, kind: Kind, survival: float, num_drafted: int, num_unread: int = 0) -> float:
        """Return the seconds that drafting on is expected to save; not above 0: better not.

        Args:
            kind: Of the next draft token.
            survival: The probability that all drafted so far are accepted.
            num_drafted: How many these are.
            num_unread: The tokens that a model must read to draft the next; 0 where none does.
        """
        ...

    def saw_draft_step(self, num_tokens: int, seconds: float) -> None:
        """Learn what it took a drafting model to read ``num_tokens``."""
        ...

    def saw(self, result: Round) -> None:
        """Learn from a round."""
        ...


class Drafter(Protocol):
    """Proposes what may come next; a wrong proposal costs time and never the answer."""

    def begin(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> None:
        """Get ready for the answer to the target's ``prompt_ids``.

        Args:
            prompt_ids: The target's prompt.
            params: Of the answer; temperature, top-k, top-p, penalties and processors hold for
                draft tokens, too.
            cancelled: Asked before every model step.
            trace: Gets a ``drafter_prefill`` span, where a model reads something.
        """
        ...

    def propose(
        self,
        new_ids: Sequence[int],
        pacer: Pacer,
        max_tokens: int,
        *,
        with_soft: bool = False,
        cancelled: Cancelled = never,
    ) -> Proposal:
        """Return at most ``max_tokens`` draft tokens to follow the answer so far.

        Args:
            new_ids: The answer so far, without the prompt; those that were proposed and are not
                there, were rejected.
            pacer: Decides how many.
            max_tokens: At most.
            with_soft: Whether ``Proposal.soft`` is wanted.
            cancelled: Asked before every model step of the drafter; then what there is, is
                returned.
        """
        ...
