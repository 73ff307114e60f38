"""What a guess is made for, what it found, and what it has ready; does nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Protocol, Self

from readahead.lm.base import Cancelled, never
from readahead.lm.generate import Piece
from readahead.lm.prompt import Context, Prompt
from readahead.lm.reuse import Reading
from readahead.lm.sample import SamplingParams
from readahead.speculation.retrieval.inject import Injected
from readahead.trace import Trace
from readahead.types import Hit


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


@dataclass(slots=True)
class Ahead:
    """The first tokens of an answer to a question that was not asked yet: a disposable branch.

    Attributes:
        prompt: As it was before anything was injected.
        events: What was decoded and injected so far; ``rest`` goes on from there.
        cancelled: Asked by ``rest`` between steps; replaced when the question is asked.
    """

    question: str
    prompt: Prompt
    reading: Reading
    trace: Trace
    rest: Generator[Event]
    events: list[Event] = field(default_factory=list)
    cancelled: Cancelled = never

    @classmethod
    def begin(
        cls,
        write: Write,
        question: str,
        prompt: Prompt,
        found: Found,
        reading: Reading,
        params: SamplingParams,
        trace: Trace,
    ) -> Self:
        """Return a branch on ``reading``, which holds all but the last token of ``prompt``."""
        rest = write(
            question,
            prompt,
            found,
            reading,
            params,
            cancelled=lambda: ahead.cancelled(),
            trace=trace,
        )
        ahead = cls(question, prompt, reading, trace, rest)
        return ahead

    @property
    def num_pieces(self) -> int:
        """Return how many steps of the answer were decoded."""
        return sum(isinstance(event, Piece) for event in self.events)

    @property
    def is_finished(self) -> bool:
        """Return whether the answer has ended already."""
        last = self.events[-1] if self.events else None
        return isinstance(last, Piece) and last.finish_reason is not None

    @property
    def has_injected(self) -> bool:
        """Return whether passages were put into it."""
        return any(isinstance(event, Injected) for event in self.events)

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Return what is read before the next token is written, as of the last injection."""
        injected = [event for event in self.events if isinstance(event, Injected)]
        return injected[-1].token_ids if injected else self.prompt.token_ids

    @property
    def unread(self) -> tuple[int, ...]:
        """Return what of it the cache still lacks, but for the last token."""
        return self.token_ids[self.reading.cache.length : -1]

    def all_events(self) -> Generator[Event]:
        """Yield what was decoded and injected, and go on from there."""
        yield from self.events
        yield from self.rest

    def step(self) -> None:
        """Decode one token more, or have passages injected."""
        event = next(self.rest)
        self.events.append(event)
        if isinstance(event, Injected):
            self.reading.token_ids = event.token_ids[: self.reading.cache.length]
        else:
            self.trace.count("decoded_ahead_tokens")

    def drop(self) -> None:
        """End the branch, and take back what it told its trace beside times."""
        self.rest = _nothing()  # which also lets go of the cache
        self.trace.attributes.pop("inject", None)
        for counter in ("injections", "injected_tokens"):
            self.trace.counters.pop(counter, None)


def _nothing() -> Generator[Event]:
    yield from ()


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
