"""One conversation: what is typed, what is read ahead for it, and its answers.

``type`` may be called at each key stroke and returns at once; one thread guesses meanwhile.
``submit`` checks the guess, keeps what is right of it, and streams the answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Self

from readahead.engine import (
    Engine,
    check_passages,
    dropped_note,
    max_prompt_tokens,
    sampling_params,
)
from readahead.errors import InputError, ReadaheadError, StoreError
from readahead.lm.base import Cancelled, never
from readahead.lm.generate import Piece
from readahead.lm.prompt import Context, Part, Prompt
from readahead.lm.reuse import Reading
from readahead.reply import Event, Reply
from readahead.retrieval.base import Filter
from readahead.speculation.retrieval.gate import TypingGate
from readahead.speculation.retrieval.prefetch import Prefetcher, Request, Start
from readahead.speculation.retrieval.typed import complete_part, looks_finished
from readahead.trace import Trace
from readahead.types import Hit

METHOD = "prefetch"
_Task = Literal["finish", "guess", "warm"]


@dataclass(frozen=True, slots=True)
class Typed:
    """What stands in the input line.

    Attributes:
        first_s: When its first key was struck, on the clock of the process.
        last_s: When its last one was.
    """

    text: str
    first_s: float
    last_s: float


@dataclass(frozen=True, slots=True)
class Status:
    """What is ready for the question that is being typed.

    Attributes:
        passages: The headings of those that were read ahead, in the order shown.
        num_tokens: How many of the prompt's tokens were read ahead.
        num_answer_tokens: How many of the answer's are decoded.
        probability: That the best passage is final, as the gate sees it.
        reason: Why nothing more is done ahead; "" while or after it is.
    """

    passages: tuple[str, ...] = ()
    num_tokens: int = 0
    num_answer_tokens: int = 0
    probability: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """A question and its answer, as the model read and wrote them.

    Attributes:
        prompt: All that the model read, the earlier turns among it.
        token_ids: The answer's.
    """

    question: str
    prompt: Prompt
    token_ids: tuple[int, ...]
    text: str


class Session:
    """A conversation over the documents of an engine.

    Args:
        engine: Brings the knowledge base and the target; sessions of one engine share what was
            read.
        filter: Limits the passages that may be shown.
    """

    def __init__(self, engine: Engine, *, filter: Filter | None = None) -> None:
        engine.load()
        self.status = Status()
        self.turns: list[Turn] = []
        self._engine = engine
        self._filter = filter
        self._config = engine.config.prefetch
        gate = TypingGate(self._config, engine.knowledge.store.rarity)
        self._prefetcher = Prefetcher(self._search, engine.reader, gate, self._config)
        self._context = Context()
        self._generation = engine.knowledge.store.generation()
        self._trace: Trace | None = None
        self._typed: Typed | None = None
        self._done: dict[_Task, str] = {}
        self._is_closed = False
        self._wake = threading.Condition()
        self._worker: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop guessing, within one model step."""
        with self._wake:
            self._is_closed = True
            self._wake.notify_all()
        if self._worker is not None:
            self._worker.join()

    def type(self, text: str) -> None:
        """Say what stands in the input line now; returns at once."""
        now_s = time.monotonic()
        with self._wake:
            if not text.strip():
                self._typed = None
            elif self._typed is None:
                self._typed = Typed(text, now_s, now_s)
            elif text != self._typed.text:
                self._typed = Typed(text, self._typed.first_s, now_s)
            if self._worker is None and self._config.enabled and not self._is_closed:
                self._worker = threading.Thread(target=self._work, daemon=True)
                self._worker.start()
            self._wake.notify_all()

    def submit(self, question: str, *, cancelled: Cancelled = never) -> Generator[Event]:
        """Yield the answer's text piece by piece, each citation before its marker, then the Answer.

        Args:
            question: What was typed in the end, or anything else.
            cancelled: Asked before each model step; True ends the answer there.

        Raises:
            InputError: The question is blank, or too long for the target's context.
        """
        if not question.strip():
            raise InputError("The question is blank.", remedy="Ask something.")
        engine = self._engine
        with engine.turns.answer():
            trace = self._take_trace(question)
            asked_s = trace.now_s()
            trace.attributes["asked_s"] = asked_s
            try:
                yield from self._answer(question, trace, asked_s, cancelled)
            finally:
                trace.attributes.setdefault("finish_reason", "cancelled")
                # An answer is worth more than its trace.
                with suppress(StoreError):
                    engine.knowledge.keep_trace(trace)
                with self._wake:
                    self._typed = None
                    self._done.clear()
                    self.status = Status()
        with self._wake:
            self._wake.notify_all()

    # Answering

    def _answer(
        self, question: str, trace: Trace, asked_s: float, cancelled: Cancelled
    ) -> Iterator[Event]:
        engine, prefetcher = self._engine, self._prefetcher
        hits = self._found(question, trace)  # while a guess ends its step
        is_sound = False
        try:
            with engine.turns.step():
                self._refresh()
                start = prefetcher.take(
                    question, hits, self._request(), cancelled=cancelled, trace=trace
                )
            self._note(start, trace)
            check_passages(start.prompt, engine.target, engine.config)
            yield from self._events(question, start, trace, asked_s)
            is_sound = True
        except GeneratorExit:
            is_sound = True  # who stops listening has cancelled the rest, and may go on
            raise
        finally:
            if not is_sound:
                prefetcher.reset()

    def _events(self, question: str, start: Start, trace: Trace, asked_s: float) -> Iterator[Event]:
        passages = (*self._context.passages, *start.prompt.passages)
        reply = Reply(
            question,
            passages,
            trace,
            self._engine.config,
            similarity=self._engine.knowledge.similarity,
            method=METHOD,
            notes=dropped_note(start.prompt),
            asked_s=asked_s,
        )
        if not passages:
            self._prefetcher.reset()
            yield from reply.nothing_found()
            return
        answer_ids: list[int] = []
        try:
            yield from reply.events(self._pieces(start, answer_ids))
        finally:
            self._append(Turn(question, start.prompt, tuple(answer_ids), reply.text), start.reading)

    def _pieces(self, start: Start, answer_ids: list[int]) -> Iterator[Piece]:
        for piece in self._engine.turns.steps(start.pieces):
            answer_ids += piece.token_ids
            yield piece

    def _note(self, start: Start, trace: Trace) -> None:
        """Write into the trace what came of the guess."""
        computed = self._prefetcher.num_computed_tokens
        decoded = trace.counters.get("decoded_ahead_tokens", 0)
        used = start.num_useful_tokens + start.num_pieces_ahead
        trace.count("prompt_tokens", len(start.prompt.token_ids))
        trace.count("computed_ahead_tokens", computed + decoded)
        trace.count("wasted_tokens", computed + decoded - used)
        guessed = self._prefetcher.prompt
        trace.attributes["passages"] = [
            {"id": passage.id, "score": score}
            for passage in start.prompt.passages
            for score in [next(h.score for h in start.hits if h.passage.id == passage.id)]
        ]
        trace.attributes["prefetch"] = {
            "policy": self._config.policy,
            "guessed": [passage.id for passage in guessed.passages] if guessed else None,
            "num_kept_passages": start.num_kept_passages,
            "num_useful_tokens": start.num_useful_tokens,
            "num_answer_tokens_ahead": start.num_pieces_ahead,
        }

    def _append(self, turn: Turn, reading: Reading) -> None:
        """Make the turn part of the context of the next one."""
        self.turns.append(turn)
        prompt = turn.prompt
        self._context = Context(
            (*prompt.parts, Part(turn.token_ids)),
            (*self._context.passages, *prompt.passages),
            prompt.text + turn.text,
        )
        held = (*prompt.token_ids, *turn.token_ids)[: reading.cache.length]
        self._prefetcher.reset(Reading(reading.cache, held))

    # Guessing, on the worker's thread

    def _work(self) -> None:
        while True:
            with self._wake:
                while not self._is_closed and (task := self._due()) is None:
                    self._wake.wait(self._patience_s())
                if self._is_closed:
                    return
                typed = self._typed
            assert task is not None and typed is not None
            with self._engine.turns.step():
                self._do(task, typed)

    def _due(self) -> _Task | None:
        """Return what is to be done for the typed text now."""
        typed = self._typed
        if typed is None or self._engine.turns.is_answering:
            return None
        idle_s = time.monotonic() - typed.last_s
        is_resting = idle_s >= self._config.rest_s
        whole = typed.text.strip()
        if is_resting and self._done.get("finish") != whole and looks_finished(whole):
            return "finish"
        part = whole if is_resting else complete_part(typed.text)
        if self._done.get("finish") == whole or self._time_left_s(typed) > 0:
            return None
        if self._done.get("guess") != part:
            return "guess"
        return "warm" if is_resting and self._done.get("warm") != part else None

    def _time_left_s(self, typed: Typed) -> float:
        """Return how long it is too early for a guess."""
        now_s = time.monotonic()
        return max(
            typed.first_s + self._config.min_typing_s - now_s,
            typed.last_s + self._config.debounce_s - now_s,
        )

    def _patience_s(self) -> float | None:
        """Return in how many seconds something may be due though no key is struck."""
        typed = self._typed
        if typed is None or self._engine.turns.is_answering:
            return 0.05 if typed is not None else None
        rests_s = typed.last_s + self._config.rest_s - time.monotonic()
        later = [left for left in (self._time_left_s(typed), rests_s) if left > 0]
        return min(later, default=None)

    def _do(self, task: _Task, typed: Typed) -> None:
        now_s = time.monotonic()
        is_resting = now_s - typed.last_s >= self._config.rest_s
        part = typed.text.strip() if is_resting else complete_part(typed.text)

        def cancelled() -> bool:
            return self._is_outdated(task, typed, part)

        if cancelled():  # while it waited for the model
            return
        if self._trace is None:
            self._trace = Trace("ask", method=METHOD, target=self._engine.target.name)
        trace = self._trace  # the answer may take it over before this step ends
        prefetcher, request = self._prefetcher, self._request()
        try:
            self._refresh()
            if task == "finish":
                is_done = prefetcher.finish(typed.text, request, cancelled=cancelled, trace=trace)
            elif task == "warm":
                is_done = prefetcher.warm(request, cancelled=cancelled, trace=trace)
            else:
                is_done = prefetcher.guess(
                    typed.text,
                    request,
                    since_first_s=now_s - typed.first_s,
                    since_last_s=now_s - typed.last_s,
                    is_resting=is_resting,
                    cancelled=cancelled,
                    trace=trace,
                )
            reason = prefetcher.reason
        except ReadaheadError as error:
            # A guess that fails costs nothing: the question, once asked, says what is wrong.
            is_done, reason = True, error.message
        if is_done:
            with self._wake:
                self._done[task] = part
        self.status = self._current_status(reason)

    def _is_outdated(self, task: _Task, typed: Typed, part: str) -> bool:
        """Return whether something else is more urgent than ``task``."""
        now = self._typed
        if self._is_closed or self._engine.turns.is_answering or now is None:
            return True
        if task != "guess":
            return now.text != typed.text
        if part == typed.text.strip() == now.text.strip():
            return False
        is_resting = time.monotonic() - now.last_s >= self._config.rest_s
        return is_resting or complete_part(now.text) != part

    def _current_status(self, reason: str) -> Status:
        prefetcher = self._prefetcher
        prompt, decision, ahead = prefetcher.prompt, prefetcher.decision, prefetcher.ahead
        return Status(
            passages=tuple(
                " > ".join(p.heading) or p.document for p in (prompt.passages if prompt else ())
            ),
            num_tokens=prefetcher.num_computed_tokens,
            num_answer_tokens=len(ahead.pieces) if ahead else 0,
            probability=decision.probability if decision else 0.0,
            reason=reason,
        )

    # Both

    def _request(self) -> Request:
        engine = self._engine
        return Request(
            k=engine.config.retrieval.k,
            max_tokens=max_prompt_tokens(engine.target, engine.config),
            params=sampling_params(engine.config.generation),
            context=self._context,
        )

    def _take_trace(self, question: str) -> Trace:
        """Return the trace that the first key stroke began, or a new one."""
        trace = self._trace or Trace("ask", method=METHOD, target=self._engine.target.name)
        self._trace = None
        trace.attributes["question"] = question
        return trace

    def _found(self, question: str, trace: Trace) -> Sequence[Hit]:
        """Return the hits of the finished question, found ahead or now."""
        is_current = self._engine.knowledge.store.generation() == self._generation
        known = self._prefetcher.found(question) if is_current else None
        return self._search(question.strip(), trace) if known is None else known

    def _search(self, text: str, trace: Trace) -> list[Hit]:
        config = self._config
        k = self._engine.config.retrieval.k
        num_hits = max(k + config.num_runners_up, 3)
        if config.policy == "relaxed":
            num_hits = max(num_hits, config.relaxed_k)
        trace.count("retrievals" if "asked_s" in trace.attributes else "retrievals_ahead")
        return self._engine.knowledge.search(text, num_hits, filter=self._filter, trace=trace)

    def _refresh(self) -> None:
        """Forget what was read of documents that have changed or gone since."""
        store = self._engine.knowledge.store
        if (generation := store.generation()) == self._generation:
            return
        self._generation = generation
        live = store.live_versions()

        def is_stale(passage_id: str) -> bool:
            return passage_id.rpartition(".")[0] not in live

        self._engine.reader.tree.drop(is_stale)
        self._prefetcher.forget_found()
        if any(is_stale(passage.id) for passage in self._context.passages):
            self._context = Context()
