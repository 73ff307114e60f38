"""What was said so far, and what there is to show for the next question; knows no threads."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from readahead.engine import Engine
from readahead.errors import ContextOverflow, NotFound
from readahead.lm.prompt import Context, Part, build_prompt
from readahead.retrieval.base import Filter, Vector
from readahead.session.said import Turn, without_gone
from readahead.speculation.retrieval.guess import Found
from readahead.speculation.retrieval.topic import (
    NUM_RUNNERS_UP,
    Topic,
    Verdict,
    stored_vectors,
)
from readahead.trace import Trace
from readahead.types import Hit, Passage

LABELS = " "  # between the ids of several passages in one label
OVERFLOW = "The conversation outgrew the model's context: its earlier turns were left out."
REMOVED = "A document that the conversation showed has changed or gone: its turns were left out."


@dataclass(frozen=True, slots=True)
class Search(Found):
    """What was found for a question, and why.

    Attributes:
        verdict: What the topic says to the question, before anything was searched.
        notes: What the reader should know of it.
    """

    verdict: Verdict | None = None
    notes: tuple[str, ...] = ()


class Conversation:
    """The turns on one topic, which the next question may follow.

    A turn is appended to what the model has read; only passages that are not in context yet are
    added. When the topic changes, the earlier turns are left out, for they no longer help and cost
    time; the same where the model's context ends, or a document that they show has gone.
    """

    def __init__(self, engine: Engine, filter: Filter | None = None) -> None:
        self.turns: list[Turn] = []
        self.found: list[Found] = []
        self._engine = engine
        self.opening = Context(system=engine.config.generation.system)
        self.context = self.opening
        self._filter = filter
        store = engine.knowledge.store
        self._generation = store.generation()
        embedder = engine.knowledge.embedder
        self._topic = Topic(stored_vectors(store) if embedder else None)
        self._notes: tuple[str, ...] = ()

    @property
    def is_current(self) -> bool:
        """Return whether the knowledge base is what it was at the last ``refresh``."""
        return self._engine.knowledge.store.generation() == self._generation

    def find(self, question: str, trace: Trace) -> Search:
        """Return what there is to show for a question, typed or asked.

        Args:
            question: Without white space around it.
            trace: Gets a ``topic`` span, unless there was no turn before, and those of the search.
        """
        if not self.context.parts:
            return Search(self._search(question, trace), self.opening, notes=self._notes)
        with trace.span("topic") as span:
            verdict = self._topic.judge(question, self._vector(question))
            span.attributes |= verdict.signals
        if verdict.skip:
            trace.count("retrievals_skipped")
            return self._fitting(question, Search((), self.context, verdict, self._notes))
        hits = self._search(verdict.query, trace)
        k = self._engine.config.retrieval.k
        has_left = self._topic.is_left(verdict, hits[:k])
        span.attributes["changed"] = has_left
        if has_left:
            return Search(hits, self.opening, verdict, self._notes)
        return self._fitting(question, Search(hits, self.context, verdict, self._notes))

    def append(self, turn: Turn, found: Found) -> None:
        """Let the next question follow this turn.

        Args:
            turn: The last one.
            found: What there was to show for it; its context decides whether it followed those
                before it.
        """
        self.turns.append(turn)
        self.found.append(found)
        if not found.context.parts:
            self._topic.reset()
        verdict = found.verdict if isinstance(found, Search) else None
        verdict = verdict or self._topic.judge(turn.question)
        # It is decided already: what followed stayed on the topic.
        verdict = replace(verdict, on_topic=verdict.on_topic or bool(found.context.parts))
        shown = {passage.id for passage in turn.passages}
        known = {hit.passage.id for hit in found.hits}
        injected = [Hit(self._whole(p), 0.0) for p in turn.passages if p.id not in known]
        # In the order in which the topic tells read from not read.
        hits = sorted((*found.hits, *injected), key=lambda hit: hit.passage.id not in shown)
        self._topic.follow(verdict, hits, k=len(shown))
        label = LABELS.join(passage.id for passage in turn.injected)
        answer = (Part(turn.token_ids, label),) if turn.token_ids else ()
        self.context = Context(
            (*turn.prompt.parts, *answer),
            (*found.context.passages, *turn.passages),
            turn.prompt.text + turn.text,
        )
        self._notes = ()

    def recall(self, question: str, text: str) -> None:
        """Let the next question follow a turn that was held elsewhere, whose passages are unknown.

        Where it does not fit behind those before it, they are left out; where it does not fit
        alone, it is, too.
        """
        tokenizer, room = self._engine.target.tokenizer, self._engine.max_prompt_tokens
        token_ids = tuple(tokenizer.encode(text))
        lay_out = partial(build_prompt, tokenizer, question, (), max_tokens=room - len(token_ids))
        for _ in range(2):
            try:
                prompt = lay_out(context=self.context)
            except ContextOverflow:
                self.forget(OVERFLOW)
            else:
                turn, notes = Turn(question, prompt, token_ids, text, ()), self._notes
                self.append(turn, Search((), self.context))
                self._notes = notes  # no answer has shown them yet
                return

    def refresh(self) -> bool:
        """Forget what was read of documents that have changed or gone; return if any have."""
        store = self._engine.knowledge.store
        if (generation := store.generation()) == self._generation:
            return False
        self._generation = generation
        self._engine.drop_stale()
        is_stale = store.stale_test()
        if any(is_stale(passage.id) for passage in self.context.passages):
            self.forget(REMOVED)
        self._topic.drop(is_stale)
        has_gone = store.gone_test()
        self.turns = [without_gone(turn, has_gone) for turn in self.turns]
        self.found = [_without_gone(found, has_gone) for found in self.found]
        return True

    def adopt(self, other: Conversation) -> None:
        """Follow the turns of another conversation; the two go on independently."""
        self.turns, self.found = list(other.turns), list(other.found)
        self.context, self._notes = other.context, other._notes
        self._generation, self._topic = other._generation, copy.deepcopy(other._topic)

    def forget(self, *notes: str) -> None:
        """Let the next question stand for itself, and say why."""
        self.context = self.opening
        self._topic.reset()
        self._notes = notes

    def search(self, query: str, num_hits: int, trace: Trace) -> tuple[Hit, ...]:
        """Return the best hits among the passages that may be shown."""
        trace.count("retrievals" if "asked_s" in trace.attributes else "retrievals_ahead")
        knowledge = self._engine.knowledge
        return tuple(knowledge.search(query, num_hits, filter=self._filter, trace=trace))

    def nearest(self, question: str, context: Context) -> tuple[Hit, ...]:
        """Return the passages of ``context`` that are most like a question.

        As many as a question is shown; of equals, and where there are no vectors, the last ones.
        """
        vector = self._vector(question) if context.passages else None
        passages = context.passages[::-1]
        similarities: list[float | None] = [None] * len(passages)
        if vector is not None:
            whole = [self._whole(passage) for passage in passages]
            known = stored_vectors(self._engine.knowledge.store)(whole)
            similarities = [None if own is None else float(vector @ own) for own in known]
        hits = [Hit(p, s or 0.0, s) for p, s in zip(passages, similarities, strict=True)]
        hits.sort(key=lambda hit: -hit.score)
        return tuple(hits[: self._engine.config.retrieval.k])

    def _whole(self, passage: Passage) -> Passage:
        """Return a passage that was perhaps shortened as it is stored."""
        try:
            return self._engine.knowledge.store.passage(passage.id)
        except NotFound:
            return passage

    def _search(self, query: str, trace: Trace) -> tuple[Hit, ...]:
        config = self._engine.config
        num_hits = config.retrieval.k + max(NUM_RUNNERS_UP, config.prefetch.num_runners_up)
        return self.search(query, max(num_hits, config.prefetch.relaxed_k), trace)

    def _vector(self, question: str) -> Vector | None:
        embedder = self._engine.knowledge.embedder
        return None if embedder is None else embedder.embed_query(question)[0]

    def _fitting(self, question: str, found: Search) -> Search:
        """Return ``found``, without the earlier turns if not all of it fits behind them."""
        engine = self._engine
        shown = {passage.id for passage in self.context.passages}
        new = [h.passage for h in found.hits[: engine.config.retrieval.k]]
        try:
            prompt = build_prompt(
                engine.target.tokenizer,
                question,
                [passage for passage in new if passage.id not in shown],
                max_tokens=engine.max_prompt_tokens,
                context=self.context,
            )
            fits = not prompt.dropped and not prompt.is_shortened
        except ContextOverflow:
            fits = False
        if fits:
            return found
        hits = found.hits or self._search(question, Trace("search"))
        notes = tuple(dict.fromkeys((*found.notes, OVERFLOW)))
        return Search(hits, self.opening, found.verdict, notes)


def _without_gone(found: Found, has_gone: Callable[[str], bool]) -> Found:
    """Return what was found, without the text of documents that have gone."""
    context = found.context
    if any(has_gone(passage.id) for passage in context.passages):
        context = Context((Part(()),))  # there was one, whatever it said
    hits = tuple(hit for hit in found.hits if not has_gone(hit.passage.id))
    return replace(found, hits=hits, context=context)
