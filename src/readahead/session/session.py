"""One conversation: what is typed, what is read ahead for it, and its answers.

``type`` may be called at each key stroke and returns at once; one thread guesses meanwhile.
``submit`` checks the guess, keeps what is right of it, and streams the answer.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

from readahead.engine import Engine
from readahead.errors import InputError, StoreError
from readahead.evidence.markers import Markers
from readahead.lm.base import Cancelled, never
from readahead.lm.sample import SamplingParams
from readahead.plain import sampling_params
from readahead.reply import Event
from readahead.retrieval.base import Filter
from readahead.session.answering import METHOD, Answering
from readahead.session.conversation import Conversation
from readahead.session.said import Turn
from readahead.session.saved import restore, save
from readahead.session.status import Status
from readahead.session.suggestions import Suggestions
from readahead.session.worker import FAULTY, GOES_FIRST, Worker
from readahead.session.writing import write_injecting
from readahead.speculation.retrieval.gate import TypingGate
from readahead.speculation.retrieval.guess import Request
from readahead.speculation.retrieval.prefetch import Prefetcher
from readahead.trace import Trace


class Session:
    """A conversation over the documents of an engine.

    *Exact* in float32: each answer is, token for token, that of a cold run over the same prompt;
    ``turns`` tells which that was. Of an answer into which passages were injected, this holds from
    the last of them on. Where ``cache.reuse`` or ``cache.storage`` ask for something
    approximate, the answer's notes say so.

    Args:
        engine: Brings the knowledge base and the target; sessions of one engine share what was
            read.
        filter: Limits the passages that may be shown.
        inject: Whether to retrieve again while an answer is written, also ahead, where the passages
            seem to lack it; None: as ``inject.enabled`` says.
    """

    def __init__(
        self, engine: Engine, *, filter: Filter | None = None, inject: bool | None = None
    ) -> None:
        engine.load()
        config = engine.config
        self._engine = engine
        self._filter = filter
        self._injects = config.inject.enabled if inject is None else inject
        self._conversation = Conversation(engine, filter)
        self._free = threading.Lock()  # held while an answer is given
        gate = TypingGate(config.prefetch, engine.knowledge.store.rarity)
        write = partial(write_injecting, engine, self._conversation) if self._injects else None
        self._prefetcher = Prefetcher(
            self._conversation.find, engine.reader, gate, config.prefetch, write
        )
        self._request = Request(
            k=config.retrieval.k,
            max_tokens=engine.max_prompt_tokens,
            params=sampling_params(config.generation),
        )
        self._answering = Answering(
            engine, self._conversation, self._prefetcher, self._refresh, injects=self._injects
        )
        self._suggestions = Suggestions(engine, self._prefetcher, self._request)
        self._worker = Worker(
            self._prefetcher,
            self._request,
            engine.turns,
            config.prefetch,
            refresh=self._refresh,
            new_trace=lambda: Trace("ask", method=METHOD, target=engine.target.name),
            idle=partial(self._suggestions.make, self._conversation),
        )
        engine.remember(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop guessing, within one model step, and give back the memory of what was read.

        If an answer is being given, the memory goes when it ends.
        """
        self._worker.close()
        if not self._free.locked():
            self._prefetcher.reset()

    @property
    def num_bytes(self) -> int:
        """Return the memory that what was read takes, beside the prefix tree.

        What an answer reads is counted once it has ended.
        """
        return self._prefetcher.num_bytes

    def release(self) -> None:
        """Give that memory back, as soon as the model is free, unless an answer is given then.

        Returns at once. The next question is read anew, through the prefix tree; its answer is the
        same.
        """
        self._engine.turns.run_later(self._release)

    def _release(self) -> None:
        if not self._free.locked():
            self._worker.status = Status()
            self._prefetcher.release()

    def refresh(self) -> None:
        """Forget what was read of documents that have changed or gone; see ``Memory``.

        While an answer is written, that is done when it ends.
        """
        if not self._free.locked() and self._refresh():
            self._worker.begin_anew()

    def fork(self) -> Session:
        """Return a session that has had the same turns; the two go on independently."""
        twin = Session(self._engine, filter=self._filter, inject=self._injects)
        twin._conversation.adopt(self._conversation)
        twin._prefetcher.reset(self._engine.turns.run(self._prefetcher.fork_reading))
        return twin

    def save(self, file: Path) -> None:
        """Write the turns to a file; what the model read of them is read anew after ``load``.

        Raises:
            StoreError: The file cannot be written.
        """
        save(self._conversation, self._engine.target.name, file)

    @classmethod
    def load(
        cls,
        engine: Engine,
        file: Path,
        *,
        filter: Filter | None = None,
        inject: bool | None = None,
    ) -> Self:
        """Return a session that goes on where ``save`` was called.

        Turns that show a document which has changed or gone since are not followed.

        Raises:
            InputError: The file is not a saved session, or one of another target.
        """
        session = cls(engine, filter=filter, inject=inject)
        restore(session._conversation, engine, file)
        return session

    @property
    def turns(self) -> Sequence[Turn]:
        """Return the questions and answers so far."""
        return tuple(self._conversation.turns)

    @property
    def status(self) -> Status:
        """Return what is ready for the question that is being typed."""
        if not self._conversation.is_current:
            return Status()
        status, worker = self._worker.status, self._worker
        if not status.reason and worker.fault is not None:
            return replace(status, reason=FAULTY)
        waits = worker.is_waiting and not status.reason
        return replace(status, reason=GOES_FIRST) if waits else status

    def suggestions(self) -> tuple[str, ...]:
        """Return questions that may come next, the likeliest first, whose passages are ready.

        They are made up between turns, while nothing else runs; none until then.
        """
        return self._suggestions.questions if self._conversation.is_current else ()

    def type(self, text: str) -> None:
        """Say what stands in the input line now; returns at once."""
        self._worker.type(text)

    def follow(self, exchanges: Sequence[tuple[str, str]]) -> None:
        """Let the next question follow questions and answers that were given elsewhere.

        Args:
            exchanges: The oldest first; citation markers in answers are left out, and so are turns
                that do not fit.

        Raises:
            InputError: The session is answering.
        """
        if self._free.locked():
            raise _busy()
        for question, answer in exchanges:
            self._conversation.recall(question, Markers.read(answer).text)
        if self._worker.has_begun:  # for a question that follows less
            self._engine.turns.run(self._guess_anew)

    def _guess_anew(self) -> None:
        self._prefetcher.forget_found(self._conversation.context)
        self._worker.begin_anew()

    def submit(
        self,
        question: str,
        *,
        params: SamplingParams | None = None,
        cancelled: Cancelled = never,
    ) -> Generator[Event]:
        """Yield the answer's text piece by piece, each citation before its marker, then the Answer.

        Args:
            question: What was typed in the end, or anything else.
            params: How tokens are chosen; None: as the settings say, which is also how the answer
                is begun ahead.
            cancelled: Asked before each model step; True ends the answer there.

        Raises:
            InputError: The question is blank, or too long for the target's context; or another
                answer of this session was begun and neither read to its end nor closed.
        """
        question = question.strip()
        if not question:
            raise InputError("The question is blank.", remedy="Ask something.")
        if not self._free.acquire(blocking=False):
            raise _busy()
        engine = self._engine
        cancelled = engine.turns.or_interrupted(cancelled)
        with self._releasing(), engine.turns.answer():
            trace = self._worker.take_line()
            trace.attributes |= {
                "question": question,
                "asked_s": trace.now_s(),
                "was_suggested": question in self._suggestions.questions,
            }
            is_sound = False
            try:
                request = self._request if params is None else replace(self._request, params=params)
                yield from self._answering.events(question, request, trace, cancelled)
                is_sound = True
            except GeneratorExit:
                is_sound = True  # who stops listening has cancelled the rest, and may go on
                raise
            finally:
                if not is_sound:
                    self._prefetcher.reset()
                trace.attributes.setdefault("finish_reason", "cancelled")
                # An answer is worth more than its trace.
                with suppress(StoreError):
                    engine.knowledge.keep_trace(trace)
                self._suggestions.forget()
                self._worker.go_on()

    @contextmanager
    def _releasing(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._free.release()
            if self._worker.is_closed:
                self._prefetcher.reset()
            with suppress(StoreError, InputError):  # closed meanwhile
                if not self._conversation.is_current:
                    self._engine.turns.run(self.refresh)

    def _refresh(self) -> bool:
        """Drop what was read of documents that have changed or gone; return if any have."""
        if not self._conversation.is_current:
            self._worker.status = Status()
        if not self._conversation.refresh():
            return False
        self._prefetcher.forget_found(self._conversation.context)
        self._suggestions.forget()
        return True


def _busy() -> InputError:
    return InputError(
        "The session is answering already.",
        remedy="Read the answer to its end, or close it, before the next question.",
    )
