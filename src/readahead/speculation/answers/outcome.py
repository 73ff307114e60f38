"""What came of drafting: drafts, answers, and what was told of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from readahead.speculation.answers.choose import Choice
from readahead.types import Draft, Hit

CLEARLY_LACKING = 0.9  # from there on, hardly any passages that held the answer (docs/answers.md)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of drafting.

    Attributes:
        drafts: All of them, in the order in which they were written.
        choice: Among the different answers.
        num_saved: Drafts that were not written because the first ones agreed.
        hits: The passages that all places count.
        feedback: What was told of an earlier round, or of the answers of parts; "" if nothing.
        lacking: The probability that the passages do not hold the answer, as far as the retrieval
            tells.
        threshold: The probability from which on it was answered.
        is_cancelled: Whether it was ended before there was an outcome.
    """

    drafts: tuple[Draft, ...] = ()
    choice: Choice = Choice()
    num_saved: int = 0
    hits: tuple[Hit, ...] = ()
    feedback: str = ""
    lacking: float = 0.0
    threshold: float = 0.0
    is_cancelled: bool = False

    @property
    def answers(self) -> tuple[str, ...]:
        """Return the answers selected, the best first; none is an abstention."""
        return tuple(one.candidate.answer for one in self.choice.selected)

    @property
    def confidence(self) -> float:
        """Return the probability that the best answer is right, selected or not."""
        best = [*self.choice.selected, *self.choice.rated][:1]
        return best[0].probability if best else 0.0

    @property
    def is_lacking(self) -> bool:
        """Return whether the passages do not seem to hold the answer."""
        return self.lacking >= CLEARLY_LACKING


Tell = Callable[[Outcome], object]


def tell_nobody(outcome: Outcome) -> None:
    """Keep nothing of what was drafted so far."""
