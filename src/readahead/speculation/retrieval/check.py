"""Check a guess against the finished question, and begin the answer with what is right of it.

*Exact* in float32, as ``lm/reuse`` is: what was read ahead and is not shared with the right prompt
is cropped, so it costs time and leaves nothing in the answer.
"""

from __future__ import annotations

from collections.abc import Generator

from readahead.lm import generate
from readahead.lm.base import CachedModel, Cancelled
from readahead.lm.generate import Piece
from readahead.lm.prompt import Prompt, first_tokens
from readahead.lm.reuse import Reading
from readahead.lm.sample import SamplingParams
from readahead.speculation.retrieval.ahead import Ahead, Readings
from readahead.speculation.retrieval.guess import Event, Found, Start, Write
from readahead.speculation.retrieval.inject import Injected
from readahead.trace import Trace


class Checker:
    """Begins answers on what was read ahead for their questions.

    Args:
        readings: What was read ahead; released once the answer begins. Their reader reads what was
            not, and remembers what the answer read.
        write: Writes the answers.
    """

    def __init__(self, readings: Readings, write: Write) -> None:
        self._readings = readings
        self._write = write

    def take(
        self,
        ahead: Ahead,
        guessed: Prompt | None,
        found: Found,
        params: SamplingParams,
        cancelled: Cancelled,
    ) -> Start:
        """Return the branch that was decoded for just this question; it takes the cache over.

        It ends where ``params`` say so.
        """
        self._readings.release()
        ahead.cancelled = cancelled
        num_ready = len(ahead.prompt.token_ids)
        if ahead.has_injected:  # which took the cache back
            num_ready = min(num_ready, ahead.reading.cache.length)
        return Start(
            ahead.prompt,
            found,
            ahead.all_events(params, self._readings.reader.model.tokenizer),
            ahead.reading,
            num_ready,
            self._readings.num_useful_tokens(ahead.token_ids),
            num_kept_passages(guessed, ahead.prompt),
            min(ahead.num_pieces, params.max_new_tokens),
        )

    def begin(
        self,
        question: str,
        prompt: Prompt,
        guessed: Prompt | None,
        found: Found,
        params: SamplingParams,
        cancelled: Cancelled,
        trace: Trace,
    ) -> Start:
        """Return an answer to ``prompt`` on the longest prefix that it shares with what was read.

        Args:
            question: The finished one.
            prompt: With the right passages.
            guessed: The last prompt that was read ahead.
            found: What there was to show.
            params: How tokens are chosen.
            cancelled: Asked before each model step of the answer.
            trace: Of the request.
        """
        unread = first_tokens(prompt.parts, len(prompt.token_ids) - 1)
        on = self._readings.on(found.context)
        self._readings.release()
        reading = self._readings.reader.begin(unread, on, cancelled=cancelled, trace=trace)
        written = self._write(
            question, prompt, found, reading, params, cancelled=cancelled, trace=trace
        )
        return Start(
            prompt,
            found,
            self._remembered(written, prompt, reading, trace),
            reading,
            reading.num_reused_tokens,
            # Some of it may have been let go of since.
            min(self._readings.num_useful_tokens(prompt.token_ids), reading.num_reused_tokens),
            num_kept_passages(guessed, prompt),
        )

    def _remembered(
        self, events: Generator[Event], prompt: Prompt, reading: Reading, trace: Trace
    ) -> Generator[Event]:
        """Yield the answer; its passages are kept once they are read."""
        began_s, before = trace.now_s(), trace.counters.get("computed_tokens", 0)
        while isinstance(event := next(events), Injected):
            prompt = event.prompt
            yield event
        yield event
        num_read = max(1, trace.counters.get("computed_tokens", 0) - before)
        self._readings.reader.keep(
            prompt.parts[:-2], reading, trace.total_s("prefill", began_s) / num_read
        )
        yield from events


def num_kept_passages(guessed: Prompt | None, prompt: Prompt) -> int:
    """Return how many passages, from the first on, are those that were guessed."""
    passages = guessed.passages if guessed else ()
    pairs = zip(passages, prompt.passages, strict=False)
    differing = (place for place, (a, b) in enumerate(pairs) if a.id != b.id)
    return next(differing, min(len(passages), len(prompt.passages)))


def written_by(model: CachedModel) -> Write:
    """Return who has ``model`` write answers on its own, without any injection."""

    def write(
        question: str,
        prompt: Prompt,
        found: Found,
        reading: Reading,
        params: SamplingParams,
        *,
        cancelled: Cancelled,
        trace: Trace,
    ) -> Generator[Piece]:
        return generate.stream(
            model,
            prompt.token_ids,
            params,
            cache=reading.cache,
            cancelled=cancelled,
            trace=trace,
        )

    return write
