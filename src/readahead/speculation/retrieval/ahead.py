"""What the model has read and written for a question that was not asked yet; all of it disposable.

All is read in small steps, between any two of which it can be cancelled: what was read until then
is kept. Decides nothing, and counts what it costs.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Self

import torch

from readahead.lm import generate
from readahead.lm.base import Cancelled, never
from readahead.lm.generate import Piece
from readahead.lm.node import num_shared
from readahead.lm.prompt import Context, Part, Prompt, first_tokens, joined, num_tokens
from readahead.lm.reuse import PrefixReader, Reading
from readahead.lm.sample import SamplingParams
from readahead.lm.textstream import TextStream
from readahead.lm.tokenizer import Tokenizer
from readahead.speculation.retrieval.guess import Event, Found, Write
from readahead.speculation.retrieval.inject import Injected
from readahead.trace import Trace


class Readings:
    """The readings of one question after the other, and how many tokens were computed for each.

    One goes on from the conversation and one begins anew: a guess that leaves the topic must not
    crop what was read of the conversation.

    Args:
        reader: Reads prompts and remembers them.
        step_tokens: How many are read between two looks at whether it is cancelled.
    """

    def __init__(self, reader: PrefixReader, step_tokens: int) -> None:
        self.reader = reader
        self._step_tokens = step_tokens
        self.reset()

    def reset(self, reading: Reading | None = None) -> None:
        """Begin with the next question; ``reading`` holds its context."""
        self._computed: list[tuple[tuple[int, ...], int]] = []  # token ids, the first one computed
        self._writing: _Writing | None = None
        self._num_forgotten_tokens = 0
        self._readings: dict[bool, Reading | None] = {True: reading, False: None}

    def release(self) -> None:
        """Let go of the caches, as an answer takes one of them over; what they cost is known on."""
        self._readings.clear()
        self._writing = None

    @property
    def num_bytes(self) -> int:
        """Return the memory that the caches take; may be asked by any thread."""
        readings = list(self._readings.values())
        return sum(reading.cache.num_bytes for reading in readings if reading is not None)

    def crop(self, token_ids: tuple[int, ...]) -> None:
        """Let go of all but ``token_ids``, the conversation's; what it cost is known on."""
        before = self.num_computed_tokens
        shared = [(ids, num_shared(ids, token_ids), first) for ids, first in self._computed]
        self._computed = [(ids[:num], min(first, num)) for ids, num, first in shared]
        self._num_forgotten_tokens += before - self.num_computed_tokens
        reading = self._readings.get(True)
        self.release()
        num = 0 if reading is None else num_shared(reading.token_ids, token_ids)
        if reading is None or not num:
            return
        if (cache := reading.cache).length > num:
            if reading.refusal:
                return
            cache.crop(num)
        self._readings[True] = Reading(cache, token_ids[: cache.length])

    def on(self, context: Context) -> Reading | None:
        """Return the reading that goes on from ``context``."""
        return self._readings.get(bool(context.parts))

    def fork(self) -> Reading | None:
        """Return a copy of what was read of the conversation."""
        reading = self._readings.get(True)
        return None if reading is None else Reading(reading.cache.fork(), reading.token_ids)

    def read(
        self,
        parts: Sequence[Part],
        num_kept: int,
        context: Context,
        cancelled: Cancelled,
        trace: Trace,
    ) -> bool:
        """Read ``parts``, which begin with those of ``context``; return whether it came to its end.

        The reader remembers the first ``num_kept`` of them.
        """
        self._writing = None
        reading = self.reader.read(
            parts,
            self.on(context),
            num_kept=num_kept,
            step_tokens=self._step_tokens,
            cancelled=cancelled,
            trace=trace,
        )
        self._readings[bool(context.parts)] = self._counted(reading)
        return len(reading.token_ids) == num_tokens(parts)

    def read_aside(self, parts: Sequence[Part], cancelled: Cancelled, trace: Trace) -> bool:
        """Have the reader remember ``parts``, and leave the readings as they are."""
        reading = self.reader.read(
            parts, step_tokens=self._step_tokens, cancelled=cancelled, trace=trace
        )
        return len(self._counted(reading).token_ids) >= num_tokens(parts)

    def read_on(
        self, reading: Reading, token_ids: tuple[int, ...], cancelled: Cancelled, trace: Trace
    ) -> None:
        """Read what ``reading`` lacks of ``token_ids``, or as much of it until it is cancelled."""
        first = reading.cache.length
        unread = torch.tensor([token_ids[first:]], dtype=torch.long)  # (1, T)
        with trace.span("prefill", num_cached_tokens=first) as span:
            for step in unread.split(self._step_tokens, dim=1):
                if cancelled():
                    break
                self.reader.model.forward(step, reading.cache)
            reading.token_ids = token_ids[: reading.cache.length]
            span.attributes["num_tokens"] = reading.cache.length - first
        trace.count("computed_tokens", reading.cache.length - first)
        self._computed.append((reading.token_ids, first))

    def write(
        self,
        parts: Sequence[Part],
        context: Context,
        params: SamplingParams,
        cancelled: Cancelled,
        trace: Trace,
    ) -> str | None:
        """Return what the model writes behind ``parts``, None if it was cancelled.

        Call it again to go on, unless something else was read since. ``parts`` begin with those of
        ``context``; the reader remembers nothing of it.
        """
        token_ids = joined(parts)
        if self._writing is None or self._writing.prompt_ids != token_ids:
            if not self.read(first_tokens(parts, len(token_ids) - 1), 0, context, cancelled, trace):
                return None
            reading = self.on(context)
            assert reading is not None
            pieces = generate.stream(
                self.reader.model, token_ids, params, cache=reading.cache, trace=trace
            )
            self._writing = _Writing(token_ids, pieces)
        return self._writing.text(cancelled, trace)

    @property
    def num_computed_tokens(self) -> int:
        """Return how many tokens were computed for this question."""
        known = sum(len(ids) - first for ids, first in self._computed)
        return known + self._num_forgotten_tokens

    def num_ready_tokens(self, token_ids: tuple[int, ...]) -> int:
        """Return how many of ``token_ids``, from the first on, stand in a cache."""
        readings = [reading for reading in self._readings.values() if reading is not None]
        return max((num_shared(one.token_ids, token_ids) for one in readings), default=0)

    def num_useful_tokens(self, token_ids: tuple[int, ...]) -> int:
        """Return how many of ``token_ids`` were computed for this question."""
        useful = (range(first, num_shared(ids, token_ids)) for ids, first in self._computed)
        return len(set().union(*useful))

    def _counted(self, reading: Reading) -> Reading:
        if reading.num_computed_tokens:
            first = len(reading.token_ids) - reading.num_computed_tokens
            self._computed.append((reading.token_ids, first))
        return reading


@dataclass(slots=True)
class _Writing:
    """What is written behind a prompt, some of it perhaps still to come."""

    prompt_ids: tuple[int, ...]
    rest: Generator[Piece]
    written: list[str] = field(default_factory=list)

    def text(self, cancelled: Cancelled, trace: Trace) -> str | None:
        """Return all of it, None if it was cancelled before."""
        while not cancelled():
            if (piece := next(self.rest, None)) is None:
                return "".join(self.written)
            self.written.append(piece.text)
            trace.count("decoded_ahead_tokens", len(piece.token_ids))
        return None


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

    def all_events(self, params: SamplingParams, tokenizer: Tokenizer) -> Generator[Event]:
        """Yield what was decoded and injected, and go on from there, to the length of ``params``.

        The branch itself may go further; the last piece is that of an answer that ends here.
        """
        stream, num_tokens = TextStream(tokenizer, params.stop), 0
        with closing(self.rest):
            for event in chain(self.events, self.rest):
                if isinstance(event, Piece):
                    num_tokens += len(event.token_ids)
                    for token_id in event.token_ids:
                        stream.push(token_id)
                    if num_tokens == params.max_new_tokens and event.finish_reason is None:
                        text = event.text + stream.finish()
                        yield replace(event, text=text, finish_reason="length")
                        return
                yield event

    def decode(self, limit: int, readings: Readings, cancelled: Cancelled, trace: Trace) -> bool:
        """Decode ``limit`` pieces; return whether it came to that or to the answer's end.

        What was injected is read in small steps, as the writer would do in large ones.
        """
        while self.num_pieces < limit and not self.is_finished:
            if self.unread:
                readings.read_on(self.reading, self.token_ids[:-1], cancelled, trace)
            if cancelled():
                return False
            self.step()
        return True

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
