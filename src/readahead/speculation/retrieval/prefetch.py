"""Read the passages of a question ahead while it is typed; knows no threads and no clocks.

Guess: the passages that the part typed so far retrieves. Check: retrieve again with the finished
question. Roll-back: crop the cache to what the right prompt shares with what was read. *Exact* in
float32: the answer is that of a cold run over the same passages in the same order, unless the
reader was told to blend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from readahead.config import PrefetchConfig
from readahead.lm.base import Cancelled, never
from readahead.lm.prompt import Context, Part, Prompt, first_tokens, joined
from readahead.lm.reuse import PrefixReader, Reading
from readahead.lm.sample import SamplingParams
from readahead.speculation.retrieval.ahead import Ahead, Readings
from readahead.speculation.retrieval.check import Checker, written_by
from readahead.speculation.retrieval.gate import Decision, TypingGate
from readahead.speculation.retrieval.guess import Find, Found, Request, Start, Write
from readahead.speculation.retrieval.prompts import Prompts
from readahead.speculation.retrieval.typed import complete_part
from readahead.trace import Trace


class Prefetcher:
    """Guesses for one question after the other; used by one thread at a time.

    Args:
        find: Returns what there is to show for a question.
        reader: Reads prompts and remembers them.
        gate: Decides which guesses are worth their prefill.
        config: What may be done ahead.
        write: Writes the answers, those ahead, too; None: the model, without any injection.

    Attributes:
        num_dropped: How often all that was found became stale.
    """

    def __init__(
        self,
        find: Find,
        reader: PrefixReader,
        gate: TypingGate,
        config: PrefetchConfig,
        write: Write | None = None,
    ) -> None:
        self._find = find
        self._write = write or written_by(reader.model)
        self._injects = write is not None
        self._readings = Readings(reader, config.step_tokens)
        self._checker = Checker(self._readings, self._write)
        self.ahead: Ahead | None = None
        self._gate = gate
        self._config = config
        self._prompts = Prompts(reader, config)
        self._found: dict[str, Found] = {}
        self.num_dropped = 0
        self._params: SamplingParams | None = None  # of what is decoded ahead
        self.reset()

    def reset(self, reading: Reading | None = None) -> None:
        """Forget the question; the next one begins.

        Args:
            reading: Holds the context of the next one.
        """
        self._gate.reset()
        self._readings.reset(reading)
        self._found.clear()
        self._typed = ""
        self.decision: Decision | None = None
        self.reason = ""
        self._drop_ahead()
        self.prompt: Prompt | None = None

    def release(self) -> None:
        """Let go of what was read; what is needed of it is read anew, through the prefix tree."""
        self._drop_ahead()
        self._readings.release()

    def fork_reading(self) -> Reading | None:
        """Return a copy of what was read of the conversation."""
        return self._readings.fork()

    def forget_found(self, context: Context) -> None:
        """Search again even for what was searched: the knowledge base has changed.

        Of what was read, only ``context`` stays, where that is known to be as it was.
        """
        self._gate.reset()
        self._found.clear()
        self._drop_ahead()
        self._readings.crop(joined(context.parts))
        self.prompt, self.decision = None, None
        self._typed = ""
        self.num_dropped += 1  # last: who read it before looking learns that it was in vain

    def guess(
        self,
        text: str,
        request: Request,
        *,
        since_first_s: float,
        since_last_s: float,
        is_settled: bool = False,
        cancelled: Cancelled = never,
        trace: Trace,
    ) -> bool:
        """Retrieve with what is typed and read what is found, if the gate lets it pass.

        Call it again with the same text to go on after a cancellation.

        Args:
            text: All that is typed; of a moving text the last, perhaps unfinished word is left out.
            request: What the question is part of.
            since_first_s: Seconds since the first stroke.
            since_last_s: Seconds since the last one.
            is_settled: Whether no key moved for so long that the last word is finished.
            cancelled: True ends the reading within one step; what was read is kept.
            trace: Gets a ``guess`` span with the signals of the gate.

        Returns:
            Whether there is nothing left to do for this text.
        """
        part = text.strip() if is_settled else complete_part(text)
        if not part:
            return True
        if part != self._typed:
            self.reason = self._gate.wait(
                part, since_first_s=since_first_s, since_last_s=since_last_s
            )
            if self.reason:
                return True
            with trace.span("guess", text=part) as span:
                found = self.look_up(part, trace)
                self.decision = self._gate.decide(part, found.hits, request.k)
                span.attributes |= _shown(self.decision)
            self._typed, self.reason = part, self.decision.reason
        decision, found = self.decision, self._found[part]
        if decision is None or not found.hits or not decision.passed:
            return True
        if cancelled():
            return False
        on = self._readings.on(found.context)
        prompt = self._prompts.planned(part, found, decision, request, on)
        return self._read_ahead(prompt, decision, found.context, cancelled, trace)

    def finish(
        self,
        text: str,
        request: Request,
        *,
        decodes: bool = True,
        cancelled: Cancelled = never,
        trace: Trace,
    ) -> bool:
        """Read a question that seems finished as a whole, and decode the answer's first tokens.

        Args:
            text: All that is typed.
            request: What the question is part of.
            decodes: Whether to decode further than the first token.
            cancelled: True ends it within one step; what was read is kept.
            trace: Gets a ``guess`` span.

        Returns:
            Whether there is nothing left to do for this text.
        """
        question = text.strip()
        if self.ahead is None or self.ahead.question != question:
            with trace.span("guess", text=question, is_finished=True):
                found = self.look_up(question, trace)
            prompt = self._best(question, found, request)
            if not prompt.passages and not found.context.parts:
                return True
            # All but the last token, which must be read to predict the next.
            parts = first_tokens(prompt.parts, len(prompt.token_ids) - 1)
            self.prompt = prompt
            if not self._read(parts, len(prompt.parts) - 2, found.context, cancelled, trace):
                return False
            reading = self._readings.on(found.context)
            assert reading is not None
            self._params = self._open_ended(request.params)
            self.ahead = Ahead.begin(
                self._write, question, prompt, found, reading, self._params, trace
            )
        limit = min(self._config.decode_ahead_tokens, request.params.max_new_tokens)
        return self.ahead.decode(
            limit if decodes else min(1, limit), self._readings, cancelled, trace
        )

    def warm(self, request: Request, *, cancelled: Cancelled = never, trace: Trace) -> bool:
        """Read the runners-up in the place of the first passage, should one of them overtake it.

        Returns:
            Whether there is nothing left to do for this text.
        """
        found = self._found.get(self._typed)
        if found is None or self.decision is None or not self.decision.passed:
            return True
        if found.context.parts:
            return True  # there is no first place: what follows a context is rarely met again
        for hit in found.hits[1 : 1 + self._config.num_runners_up]:
            parts = self._prompts.built(self._typed, [hit.passage], found, request).parts[:-2]
            if not self._readings.read_aside(parts, cancelled, trace):
                return False
        return True

    def write(
        self,
        parts: Sequence[Part],
        context: Context,
        params: SamplingParams,
        *,
        cancelled: Cancelled = never,
        trace: Trace,
    ) -> str | None:
        """Return what the model writes behind ``parts``, None if it was cancelled.

        Call it again to go on after a cancellation.

        Args:
            parts: Begin with those of ``context``; nothing of them is kept.
            context: The conversation.
            params: How tokens are chosen.
            cancelled: Asked before each model step.
            trace: Gets the spans and counters of reading and writing.
        """
        self._drop_ahead()
        return self._readings.write(parts, context, params, cancelled, trace)

    def prepare(
        self, question: str, request: Request, *, cancelled: Cancelled = never, trace: Trace
    ) -> bool:
        """Read the passages of a question that may be asked next; they are kept in the tree.

        Returns:
            Whether it came to its end.
        """
        found = self.look_up(question, trace)
        parts = self._best(question, found, request).parts[:-2]
        return self._read(parts, len(parts), found.context, cancelled, trace)

    def look_up(self, question: str, trace: Trace) -> Found:
        """Return what there is to show for a question, searched for once."""
        if question not in self._found:
            self._found[question] = self._find(question, trace)
        return self._found[question]

    def found(self, question: str) -> Found | None:
        """Return what was found ahead for just this question, None if it was not searched for."""
        return self._found.get(question.strip())

    def take(
        self,
        text: str,
        found: Found,
        request: Request,
        *,
        cancelled: Cancelled = never,
        trace: Trace,
    ) -> Start:
        """Return the answer's beginning for the finished question: check the guess, keep the rest.

        Args:
            text: The question as it was submitted.
            found: What there is to show for it.
            request: What it is part of.
            cancelled: Asked before each model step of the answer.
            trace: Of the request.

        Raises:
            ContextOverflow: The question does not fit.
        """
        question = text.strip()
        ahead, params = self.ahead, request.params
        is_same = self._params == self._open_ended(params)
        if ahead is not None and ahead.question == question and is_same:
            self.ahead = None
            return self._checker.take(ahead, self.prompt, found, params, cancelled)
        self._drop_ahead()
        prompt = self._best(question, found, request)
        return self._checker.begin(question, prompt, self.prompt, found, params, cancelled, trace)

    @property
    def num_bytes(self) -> int:
        """Return the memory that what was read takes, beside the prefix tree."""
        return self._readings.num_bytes

    @property
    def num_ready_tokens(self) -> int:
        """Return how many tokens of the guessed prompt, from the first on, stand in a cache."""
        return 0 if self.prompt is None else self._readings.num_ready_tokens(self.prompt.token_ids)

    @property
    def num_computed_tokens(self) -> int:
        """Return how many of the prompts' tokens were computed ahead for this question."""
        return self._readings.num_computed_tokens

    def _best(self, question: str, found: Found, request: Request) -> Prompt:
        return self._prompts.best(question, found, request, self._readings.on(found.context))

    def _open_ended(self, params: SamplingParams) -> SamplingParams:
        """Return how an answer is decoded ahead: how long it may be is known when it is asked for.

        Who injects must know it at once: the rest of the context is for passages.
        """
        if self._injects:
            return params
        return replace(params, max_new_tokens=self._readings.reader.model.max_context_tokens)

    def _read_ahead(
        self,
        prompt: Prompt,
        decision: Decision,
        context: Context,
        cancelled: Cancelled,
        trace: Trace,
    ) -> bool:
        """Read the passages and, once they are all read, as much of the question as will stay."""
        self.prompt = prompt
        parts = list(prompt.parts[:-2])
        num_kept = len(parts)
        if decision.probability >= self._config.threshold_question:
            question = prompt.parts[-2].token_ids
            parts.append(Part(question[: max(0, len(question) - self._config.held_back_tokens)]))
        return self._read(parts, num_kept, context, cancelled, trace)

    def _read(
        self,
        parts: Sequence[Part],
        num_kept: int,
        context: Context,
        cancelled: Cancelled,
        trace: Trace,
    ) -> bool:
        """Read ``parts``; return whether it came to its end."""
        self._drop_ahead()  # it decodes on the cache that is now taken over
        return self._readings.read(parts, num_kept, context, cancelled, trace)

    def _drop_ahead(self) -> None:
        if self.ahead is not None:
            self.ahead.drop()
        self.ahead = None


def _shown(decision: Decision) -> dict[str, object]:
    return {
        "passed": decision.passed,
        "reason": decision.reason,
        "probability": decision.probability,
        "stays": list(decision.stays),
        "signals": dict(decision.signals),
    }
