"""What a guess is made for, what it found, and what is kept of it; does nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Protocol

from readahead.lm.base import Cancelled
from readahead.lm.generate import Piece
from readahead.lm.prompt import Context, Prompt
from readahead.lm.reuse import Reading
from readahead.lm.sample import SamplingParams
from readahead.speculation.retrieval.inject import Injected
from readahead.trace import Trace
from readahead.types import Hit, Passage


@dataclass(frozen=True, slots=True)
class Found:
    """What there is to show for a question.

    Attributes:
        hits: Best first, more than are shown; none where the context is enough.
        context: The turns that the question follows.
    """

    hits: tuple[Hit, ...]
    context: Context = Context()


Find = Callable[[str, Trace], Found]


@dataclass(frozen=True, slots=True)
class Request:
    """What stays the same while one question is typed.

    Attributes:
        k: How many passages the model is shown.
        max_tokens: The model's context less the answer.
    """

    k: int
    max_tokens: int
    params: SamplingParams


Event = Piece | Injected


class Write(Protocol):
    """Who writes answers."""

    def __call__(
        self,
        question: str,
        prompt: Prompt,
        found: Found,
        reading: Reading,
        params: SamplingParams,
        *,
        cancelled: Cancelled,
        trace: Trace,
    ) -> Generator[Event]:
        """Yield the answer to ``prompt``, and each injection before what is written after it.

        Args:
            question: What is asked.
            prompt: What is read for it.
            found: What there was to show.
            reading: Holds the beginning of the prompt, at most all but its last token; the cache
                grows. At an injection it has gone back to what it shares with the ``token_ids`` of
                that, of which whoever listens may read more, all but the last.
            params: How tokens are chosen.
            cancelled: Asked before each model step.
            trace: Of the request.
        """
        ...


@dataclass(frozen=True, slots=True)
class Start:
    """An answer that is about to be streamed.

    Attributes:
        prompt: As it is before the first of ``events``.
        reading: Its cache grows while ``events`` are taken.
        num_ready_tokens: How many of the prompt's tokens need not be read any more.
        num_useful_tokens: How many of them were computed ahead for this question.
        num_kept_passages: How many passages of the last guess are used, the first ones.
        num_pieces_ahead: How many steps of the answer were decoded ahead and are used.
    """

    prompt: Prompt
    found: Found
    events: Generator[Event]
    reading: Reading
    num_ready_tokens: int
    num_useful_tokens: int
    num_kept_passages: int
    num_pieces_ahead: int = 0

    @property
    def passages(self) -> tuple[Passage, ...]:
        """Return what may be cited, in the order of the numbers."""
        return (*self.found.context.passages, *self.prompt.passages)
