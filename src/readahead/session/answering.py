"""Answers a conversation's questions on what was read ahead for them; knows who waits, not why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from readahead.engine import Engine
from readahead.lm.base import Cancelled
from readahead.lm.generate import Piece
from readahead.lm.reuse import Reading
from readahead.plain import check_passages, fitting_notes
from readahead.reply import Event, Reply, reading_notes
from readahead.session.conversation import Conversation, Search
from readahead.session.outcome import note_injected, note_outcome
from readahead.session.said import Saying, Turn
from readahead.speculation.retrieval.guess import Found, Request, Start
from readahead.speculation.retrieval.inject import Injected
from readahead.speculation.retrieval.prefetch import Prefetcher
from readahead.trace import Trace

METHOD = "prefetch"


class Answering:
    """Checks what was guessed for a question, keeps what is right, and answers it.

    Args:
        engine: Has the knowledge base, and the model in turns.
        conversation: Gets each answer as a turn.
        prefetcher: Has guessed.
        refresh: Drops what was read of documents that have changed or gone; returns if any have.
        injects: Whether passages may be put into answers.
    """

    def __init__(
        self,
        engine: Engine,
        conversation: Conversation,
        prefetcher: Prefetcher,
        refresh: Callable[[], bool],
        *,
        injects: bool,
    ) -> None:
        self._engine = engine
        self._conversation = conversation
        self._prefetcher = prefetcher
        self._refresh = refresh
        self._injects = injects

    def events(
        self, question: str, request: Request, trace: Trace, cancelled: Cancelled
    ) -> Iterator[Event]:
        """Yield the answer's text piece by piece, each citation before its marker, then the Answer.

        Args:
            question: Without white space around it.
            request: What it is part of.
            trace: Knows when it was asked.
            cancelled: Asked before each model step.
        """
        turns, num_dropped = self._engine.turns, self._prefetcher.num_dropped
        found = self._found(question, trace)  # while a guess ends its step
        begin = partial(self._start, question, found, num_dropped, request, cancelled, trace)
        # It computes nothing, unless it blends.
        is_step = self._engine.config.cache.reuse == "exact"
        start = turns.run(begin, is_step=is_step, trace=trace)
        reply = self._reply(question, start, request, trace)
        if not start.passages:
            self._prefetcher.reset()
            yield from reply.nothing_found()
            return
        saying, has_failed = Saying(start.prompt), False
        try:
            yield from reply.events(self._pieces(start, saying, reply, trace))
        except Exception:  # the next question might fail behind it, too
            has_failed = True
            raise
        finally:
            if not has_failed:
                self._append(saying.turn(question, reply.text), start)

    def _found(self, question: str, trace: Trace) -> Found:
        """Return what there is to show for the question, found ahead or now."""
        known = self._prefetcher.found(question) if self._conversation.is_current else None
        return known or self._conversation.find(question, trace)

    def _start(
        self,
        question: str,
        found: Found,
        num_dropped: int,
        request: Request,
        cancelled: Cancelled,
        trace: Trace,
    ) -> Start:
        # Also where a guess did so while ``found`` was looked for.
        if self._refresh() or self._prefetcher.num_dropped != num_dropped:
            found = self._conversation.find(question, trace)
        return self._prefetcher.take(question, found, request, cancelled=cancelled, trace=trace)

    def _reply(self, question: str, start: Start, request: Request, trace: Trace) -> Reply:
        """Return what makes an answer of what is written; the trace learns what was guessed."""
        engine, found = self._engine, start.found
        check_passages(start.prompt, request.max_tokens)
        if start.passages:
            note_outcome(self._prefetcher, start, engine.config.prefetch.policy, trace)
        notes = found.notes if isinstance(found, Search) else ()
        asked_s = trace.attributes["asked_s"]
        assert isinstance(asked_s, float)
        return Reply(
            question,
            start.passages,
            trace,
            engine.config,
            similarity=engine.knowledge.similarity,
            method=METHOD,
            notes=(*notes, *fitting_notes(start.prompt), *reading_notes(start.reading)),
            asked_s=asked_s,
        )

    def _pieces(self, start: Start, saying: Saying, reply: Reply, trace: Trace) -> Iterator[Piece]:
        """Yield the pieces of the answer; what was injected is shown and traced from here on."""
        turns, is_step = self._engine.turns, self._is_short(start)
        for event in turns.steps(start.events, is_step=is_step, trace=trace):
            saying.push(event)
            if not isinstance(event, Injected):
                yield event
                continue
            reply.extend(event.passages, in_front=event.in_front)
            note_injected(event, start, trace)

    def _is_short(self, start: Start) -> bool:
        """Return whether the answer begins with a step that others may wait for."""
        num_unread = len(start.prompt.token_ids) - start.num_ready_tokens
        return not self._injects and num_unread <= self._engine.target.prefill_step_tokens

    def _append(self, turn: Turn, start: Start) -> None:
        """Make the turn part of what the next one follows."""
        self._conversation.append(turn, start.found)
        cache, read = start.reading.cache, (*turn.prompt.token_ids, *turn.token_ids)
        if cache.length > len(read):  # the listener left before all that was written came out
            if cache.refusal:
                self._prefetcher.reset()
                return
            cache.crop(len(read))
        self._prefetcher.reset(Reading(cache, read[: cache.length]))
