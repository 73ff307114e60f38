"""What a guess is made for, what it found, and what it has ready; does nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Self

from readahead.lm import generate
from readahead.lm.base import CachedModel, Cancelled, never
from readahead.lm.generate import Piece
from readahead.lm.prompt import Context, Prompt
from readahead.lm.reuse import Reading
from readahead.lm.sample import SamplingParams
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


@dataclass(slots=True)
class Ahead:
    """The first tokens of an answer to a question that was not asked yet: a disposable branch.

    Attributes:
        pieces: What was decoded so far; ``rest`` goes on from there.
        cancelled: Asked by ``rest`` between steps; replaced when the question is asked.
    """

    question: str
    prompt: Prompt
    reading: Reading
    pieces: list[Piece] = field(default_factory=list)
    rest: Iterator[Piece] = iter(())
    cancelled: Cancelled = never

    @classmethod
    def begin(
        cls,
        model: CachedModel,
        question: str,
        prompt: Prompt,
        reading: Reading,
        params: SamplingParams,
        trace: Trace,
    ) -> Self:
        """Return a branch on ``reading``, which holds all but the last token of ``prompt``."""
        ahead = cls(question, prompt, reading)
        ahead.rest = generate.stream(
            model,
            prompt.token_ids,
            params,
            cache=reading.cache,
            cancelled=lambda: ahead.cancelled(),
            trace=trace,
        )
        return ahead

    @property
    def is_finished(self) -> bool:
        """Return whether the answer has ended already."""
        return bool(self.pieces) and self.pieces[-1].finish_reason is not None

    def all_pieces(self) -> Generator[Piece]:
        """Yield what was decoded, and go on from there."""
        yield from self.pieces
        yield from self.rest

    def decode(self, limit: int, cancelled: Cancelled, trace: Trace) -> bool:
        """Decode until there are ``limit`` pieces; return whether it came to that or the end."""
        while len(self.pieces) < limit and not self.is_finished:
            if cancelled():
                return False
            self.pieces.append(next(self.rest))
            trace.count("decoded_ahead_tokens")
        return True


@dataclass(frozen=True, slots=True)
class Start:
    """An answer that is about to be streamed.

    Attributes:
        reading: Its cache grows while ``pieces`` are taken.
        num_ready_tokens: How many of the prompt's tokens need not be read any more.
        num_useful_tokens: How many of them were computed ahead for this question.
        num_kept_passages: How many passages of the last guess are used, the first ones.
        num_pieces_ahead: How many steps of the answer were decoded ahead and are used.
    """

    prompt: Prompt
    found: Found
    pieces: Generator[Piece]
    reading: Reading
    num_ready_tokens: int
    num_useful_tokens: int
    num_kept_passages: int
    num_pieces_ahead: int = 0
