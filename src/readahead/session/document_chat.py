"""Several questions about one document, which the target reads once."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import suppress

from readahead.engine import Engine
from readahead.errors import InputError, NotFound, StoreError
from readahead.lm.base import Cancelled, never
from readahead.rapid import METHOD, Past, RapidRun
from readahead.reply import Event
from readahead.retrieval.base import Filter
from readahead.speculation.retrieval.followup import refers_back
from readahead.trace import Trace
from readahead.types import Answer, Passage

CHANGED = "The document has changed: the earlier turns were left out."


class DocumentChat:
    """A conversation about one document.

    A question stands behind the document and all earlier questions and answers, which are known
    from the turns before; the drafter reads what is retrieved for it anew. *Exact* in float32 where
    ``tokens.mode`` is exact: each greedy answer is, token for token, that of a plain run over the
    same prompt.

    Args:
        engine: Brings the knowledge base and the models.
        document: A name or id.

    Raises:
        NotFound: There is no such document, or a model was not pulled.
    """

    def __init__(self, engine: Engine, document: str) -> None:
        self.document = engine.knowledge.document(document).name
        engine.load(METHOD)
        self._engine = engine
        self._about = Filter(documents=(self.document,))
        self._past = Past()
        self._notes: tuple[str, ...] = ()
        self._generation = engine.knowledge.store.generation()
        self._passages = self._stored()
        self._free = threading.Lock()  # held while an answer is given
        engine.remember(self)

    @property
    def questions(self) -> tuple[str, ...]:
        """Return the questions that the next one follows."""
        return tuple(exchange.question for exchange in self._past.exchanges)

    @property
    def num_bytes(self) -> int:
        """Return the memory that what was read takes, beside the prefix tree."""
        readings = (self._past.target, self._past.drafter)
        return sum(reading.cache.num_bytes for reading in readings if reading is not None)

    def release(self) -> None:
        """Give that memory back, unless an answer is given; the next question is read anew."""
        if not self._free.locked():
            self._past = Past(self._past.exchanges)

    def refresh(self) -> None:
        """Forget what was read of the document if it has changed or gone; see ``Memory``.

        While an answer is written, that is done when it ends.
        """
        if not self._free.locked():
            with suppress(NotFound):  # the next question says so
                self._refresh()

    def submit(self, question: str, *, cancelled: Cancelled = never) -> Generator[Event]:
        """Yield the answer's text piece by piece, each citation before its marker, then the Answer.

        A question that is cancelled, or whose answer is not read to its end, leaves the
        conversation as it was before.

        Args:
            question: In any language that the target reads.
            cancelled: Asked before each model step; True ends the answer there.

        Raises:
            InputError: The question is blank, or too long for the target's context; or another
                answer of this conversation was begun and neither read to its end nor closed.
            NotFound: The document has gone.
        """
        question = question.strip()
        if not question:
            raise InputError("The question is blank.", remedy="Ask something.")
        if not self._free.acquire(blocking=False):
            raise InputError(
                "The conversation is answering already.",
                remedy="Read the answer to its end, or close it, before the next question.",
            )
        try:
            yield from self._answer(question, cancelled)
        finally:
            self._free.release()
            with suppress(StoreError, InputError):  # closed meanwhile
                if not self._is_current:
                    self._engine.turns.run(self.refresh)

    def _answer(self, question: str, cancelled: Cancelled) -> Generator[Event]:
        engine = self._engine
        if not self._is_current:
            engine.turns.run(self._refresh)
        notes, self._notes = self._notes, ()
        trace = Trace("ask", question=question, method=METHOD, target=engine.target.name)
        run = self._run(question, trace, notes)
        cancelled = engine.turns.or_interrupted(cancelled)
        is_answered = is_sound = False
        try:
            with engine.turns.answer():
                for event in run.events(self._about, cancelled):
                    if isinstance(event, Answer):
                        is_answered = event.finish_reason != "cancelled"
                    yield event
            is_sound = True
        except (GeneratorExit, InputError):
            is_sound = True  # nothing is wrong with what was read
            raise
        finally:
            past = run.past(is_answered=is_answered)
            self._past = past if is_sound else Past(past.exchanges)
            trace.attributes.setdefault("finish_reason", "cancelled")
            with suppress(StoreError):  # an answer is worth more than its trace
                engine.knowledge.keep_trace(trace)

    def _run(self, question: str, trace: Trace, notes: tuple[str, ...]) -> RapidRun:
        engine, asked = self._engine, self.questions
        signs = refers_back(question) if asked else ()
        trace.attributes |= {"turn": len(asked) + 1, "refers_back": list(signs)}
        return RapidRun(
            engine.knowledge,
            engine.rapid,
            trace,
            question,
            engine.max_prompt_tokens,
            engine.turns,
            past=self._past,
            query=f"{asked[-1]} {question}" if signs else question,
            notes=notes,
        )

    @property
    def _is_current(self) -> bool:
        return self._engine.knowledge.store.generation() == self._generation

    def _refresh(self) -> None:
        """Forget what was said of a document that has changed, and note it for the next answer."""
        generation = self._engine.knowledge.store.generation()
        if generation == self._generation:
            return
        self._engine.drop_stale()
        (past, self._past), notes = (self._past, Past()), self._notes
        before, self._passages = self._passages, []
        if past.exchanges:
            self._notes = (CHANGED,)
        self._passages = self._stored()
        self._generation = generation
        if self._passages == before:
            self._past, self._notes = past, notes

    def _stored(self) -> list[Passage]:
        store = self._engine.knowledge.store
        passages = store.passages(store.live_ids(self._about))
        if not passages:
            raise NotFound(
                f"The document {self.document!r} is not in the knowledge base, or has no text.",
                remedy="See: readahead ls",
            )
        return passages
