"""What is ready for a question that is being typed, as whoever types it may be told."""

from __future__ import annotations

from dataclasses import dataclass

from readahead.lm.prompt import Prompt
from readahead.speculation.retrieval.prefetch import Prefetcher


@dataclass(frozen=True, slots=True)
class Status:
    """What is ready for the question that is being typed.

    Attributes:
        passages: The headings of those that were read ahead, in the order shown.
        num_tokens: How many tokens of its prompt are read, the conversation among them.
        num_answer_tokens: How many of the answer's are decoded.
        probability: That the best passage is final, as the gate sees it.
        reason: Why nothing more is done ahead; "" while or after it is.
        fetching: The headings of those that are being read right now.
    """

    passages: tuple[str, ...] = ()
    num_tokens: int = 0
    num_answer_tokens: int = 0
    probability: float = 0.0
    reason: str = ""
    fetching: tuple[str, ...] = ()

    @classmethod
    def of(cls, prefetcher: Prefetcher, reason: str) -> Status:
        """Return what ``prefetcher`` has ready between two steps."""
        decision, ahead = prefetcher.decision, prefetcher.ahead
        return cls(
            passages=titles_of(prefetcher.prompt),
            num_tokens=prefetcher.num_ready_tokens,
            num_answer_tokens=ahead.num_pieces if ahead else 0,
            probability=decision.probability if decision else 0.0,
            reason=reason,
        )


def titles_of(prompt: Prompt | None) -> tuple[str, ...]:
    """Return what the passages of a prompt are called: by their headings or documents."""
    passages = prompt.passages if prompt else ()
    return tuple(" > ".join(one.heading) or one.document.rpartition("/")[2] for one in passages)
