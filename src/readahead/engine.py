"""Questions to answers: brings the knowledge base and the models together."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Protocol, Self
from weakref import WeakSet

from readahead.config import Config, load_config
from readahead.drafted import METHOD, DraftedRun, Failed
from readahead.errors import InputError, StoreError
from readahead.knowledge import KnowledgeBase
from readahead.lm.base import Cancelled, never
from readahead.lm.dialogue import Exchange
from readahead.lm.memory import free_bytes, readable_tokens
from readahead.lm.model import TransformersModel
from readahead.lm.prefixtree import PrefixTree
from readahead.lm.reuse import PrefixReader
from readahead.lm.watch import make_watchable
from readahead.loading import Loaded
from readahead.plain import PlainRun, query_behind
from readahead.rapid import METHOD as RAPID
from readahead.rapid import Models, Past, RapidRun, drafts_by_model
from readahead.reply import Event
from readahead.retrieval.base import Filter
from readahead.speculation.answers.breaker import Breaker
from readahead.speculation.answers.calibration import Calibration, read_calibration
from readahead.speculation.answers.speculate import Speculator
from readahead.speculation.answers.split import Splitter
from readahead.speculation.tokens.governor import Governor
from readahead.trace import Trace
from readahead.types import Answer

LEFT_OUT = "Drafts answer each question by itself: the earlier messages were left out."
METHODS = ("plain", METHOD, RAPID)


class Memory(Protocol):
    """What holds what was read of documents."""

    def refresh(self) -> object:
        """Forget what was read of those that have changed or gone; called by the models' thread."""
        ...


class Engine:
    """A knowledge base and a target model; the target is loaded at the first question."""

    def __init__(
        self,
        knowledge: KnowledgeBase,
        target: TransformersModel | None = None,
        *,
        loaded: Loaded | None = None,
    ) -> None:
        self.knowledge = knowledge
        self.config = knowledge.config
        self.loaded = loaded or Loaded(self.config, target)
        self.turns = self.loaded.turns
        self.breaker = Breaker(self.config.drafts.num_failures, self.config.drafts.retry_after_s)
        self.governor = Governor()
        self._memories: WeakSet[Memory] = WeakSet()
        self._entry = threading.Lock()  # of the set
        self._loading = threading.Lock()  # the first questions may come at once

    @classmethod
    def open(cls, config: Config | None = None) -> Self:
        """Open the knowledge base that ``config`` names, and its models when they are needed.

        Raises:
            StoreError: The knowledge base cannot be opened.
        """
        config = config or load_config()
        loaded = Loaded(config)
        knowledge = KnowledgeBase.open(config, load=lambda: loaded.embedder)
        return cls(knowledge, loaded=loaded)

    def close(self) -> None:
        """Close the knowledge base, and forget what was read."""
        self.forget()
        self.turns.close()
        self.knowledge.close()

    def forget(self) -> None:
        """Forget what was read of this knowledge base."""
        if "reader" in vars(self):
            self.reader.tree.close()

    def remember(self, memory: Memory) -> None:
        """Have ``forget_stale`` reach what a conversation holds, as long as there is one."""
        with self._entry:
            self._memories.add(memory)

    def forget_stale(self) -> None:
        """Forget what was read of documents that have changed or gone, in all conversations.

        To be called after a change, whose documents no new answer shows. It waits for the step that
        the model is at; an answer that is being written forgets when it ends.
        """
        self.turns.run(self._forget_stale)

    def _forget_stale(self) -> None:
        if "reader" in vars(self):
            self.drop_stale()
        with self._entry:
            memories = list(self._memories)
        for memory in memories:
            memory.refresh()

    def drop_stale(self) -> None:
        """Drop what was read of documents that have changed or gone, in all that sessions share."""
        self.reader.tree.drop(self._stale_test())
        self.loaded.forget_texts()

    def _stale_test(self) -> Callable[[str], bool]:
        """Return what tells whether a label names a passage that can no longer be found."""
        is_stale = self.knowledge.store.stale_test()
        return lambda label: any(map(is_stale, label.split()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def configured(self, config: Config) -> Self:
        """Return an engine that answers by other settings, over the same documents and models.

        It shares what was loaded and what was read; so it keeps to the settings of models, cache
        and ranking that were in force when that was done. It is not to be closed.
        """
        twin = copy.copy(self.load())
        twin.config = config
        twin.knowledge = self.knowledge.configured(config)
        for name in ("speculator", "rapid"):
            vars(twin).pop(name, None)
        return twin

    @property
    def target(self) -> TransformersModel:
        """Return the model that owns the answers; see ``Loaded``."""
        return self.loaded.target

    @property
    def drafter(self) -> TransformersModel:
        """Return the model that writes drafts; see ``Loaded``."""
        return self.loaded.drafter

    @cached_property
    def speculator(self) -> Speculator:
        """Return what drafts answers and chooses among them."""
        config = self.config
        return self.new_speculator(read_calibration(config.kb, config.drafts.preset))

    def new_speculator(self, calibration: Calibration | None = None) -> Speculator:
        """Return what drafts as the settings say, with probabilities as ``calibration`` says."""
        return Speculator(
            self.drafter,
            self.target,
            self.config.drafts,
            calibration=calibration,
            judge=self.loaded.judge,
        )

    @cached_property
    def rapid(self) -> Models:
        """Return what answers about long documents.

        Raises:
            NotFound: The drafter was not pulled.
            VocabularyMismatch: The drafter has other tokens than the target.
            ConfigError: The drafter and the law of acceptance do not go together.
        """
        drafter = self.drafter if drafts_by_model(self.config) else None
        return Models(self.reader, self.target, drafter, self.governor)

    @cached_property
    def reader(self) -> PrefixReader:
        """Return what reads prompts and remembers them; all sessions share it."""
        target, config = self.target, self.config.cache
        share = config.blend_share if config.reuse == "blend" else 0.0
        return PrefixReader(
            target,
            PrefixTree.open(config, target.device),
            blend_share=share,
            stale_test=self._stale_test,
        )

    @property
    def max_prompt_tokens(self) -> int:
        """Return how long a prompt may be, so that an answer of full length fits behind it."""
        return max(0, self._room_tokens - self.config.generation.max_new_tokens)

    @cached_property
    def _room_tokens(self) -> int:
        """Return how long prompt and answer may be together.

        The model's context limits it, and the memory that was free at first. What the prefix tree
        holds counts as free, and the limit is asked for once: what was read ahead must not change
        which passages are shown.
        """
        target, reader = self.target, self.reader
        free = free_bytes(target.device) + reader.tree.num_bytes
        bytes_per_token = self.turns.run(lambda: reader.bytes_per_token)
        return min(target.max_context_tokens, readable_tokens(free, bytes_per_token))

    def load(self, method: str = "plain") -> Self:
        """Load what the first question would load, and return the engine.

        Raises:
            NotFound: A model was not pulled.
            EmbedderMismatch: The knowledge base is embedded with another model.
        """
        with self._loading:
            _ = self.max_prompt_tokens, self.knowledge.retriever
            if method == METHOD:
                _ = self.speculator
            if method == RAPID:
                _ = self.rapid
            if self.config.inject.enabled:
                make_watchable(self.target)  # now: later, other requests may be running
        return self

    def ask(
        self,
        question: str,
        *,
        method: str = "plain",
        filter: Filter | None = None,
        inject: bool | None = None,
        exchanges: Sequence[Exchange] = (),
        cancelled: Cancelled = never,
    ) -> Answer:
        """Return the answer; see ``stream``."""
        *_, answer = self.stream(
            question,
            method=method,
            filter=filter,
            inject=inject,
            exchanges=exchanges,
            cancelled=cancelled,
        )
        assert isinstance(answer, Answer)
        return answer

    def stream(
        self,
        question: str,
        *,
        method: str = "plain",
        filter: Filter | None = None,
        inject: bool | None = None,
        exchanges: Sequence[Exchange] = (),
        cancelled: Cancelled = never,
    ) -> Generator[Event]:
        """Yield the answer's text piece by piece, each citation before its marker, then the Answer.

        The pieces of text joined are the Answer's text.

        Args:
            question: In any language that the target reads.
            method: ``plain``: retrieve, then answer from the passages; ``drafts``: let the drafter
                answer from parts of them, and choose by evidence; ``rapid``: read a whole
                document, the one that ``filter`` names or that of the best passage.
            filter: Limits the passages that may be shown.
            inject: Whether to retrieve again while the answer is written, where its passages seem
                to lack it; None: as ``inject.enabled`` says.
            exchanges: The questions and answers that this one follows, the oldest first. Drafts
                answer each question by itself, and say so; what does not fit is left out, and said.
            cancelled: Asked before each model step; True ends the answer there.

        Raises:
            InputError: The question is blank, or too long for the target's context.
        """
        if not question.strip():
            raise InputError("The question is blank.", remedy="Ask something.")
        if method not in METHODS:
            raise InputError(
                f"There is no method {method!r}.", remedy=f"Use: {', '.join(METHODS)}."
            )
        target = self.load(method).target  # before the clock starts: not the question's time
        trace = Trace("ask", question=question, method=method, target=target.name)
        cancelled = self.turns.or_interrupted(cancelled)
        try:
            with self.turns.answer():
                if method == METHOD:
                    yield from self._drafted(question, filter, cancelled, trace, exchanges)
                elif method == RAPID:
                    yield from self._rapid(question, trace, exchanges).events(filter, cancelled)
                else:
                    injects = self.config.inject.enabled if inject is None else inject
                    yield from self._plain(
                        question, filter, cancelled, trace, exchanges, injects=injects
                    )
        finally:
            # Who stops reading the stream has cancelled the request.
            trace.attributes.setdefault("finish_reason", "cancelled")
            # An answer is worth more than its trace: a full disk or a busy writer loses the latter.
            with suppress(StoreError):
                self.knowledge.keep_trace(trace)

    def _plain(
        self,
        question: str,
        filter: Filter | None,
        cancelled: Cancelled,
        trace: Trace,
        exchanges: Sequence[Exchange] = (),
        *,
        injects: bool = False,
        notes: tuple[str, ...] = (),
    ) -> Iterator[Event]:
        run = PlainRun(
            self.knowledge,
            self.target,
            trace,
            question,
            self.max_prompt_tokens,
            self.turns,
            injects=injects,
            exchanges=exchanges,
            governor=self.governor if self.config.tokens.in_plain else None,
            notes=notes,
        )
        return run.events(filter, cancelled)

    def _rapid(self, question: str, trace: Trace, exchanges: Sequence[Exchange]) -> RapidRun:
        return RapidRun(
            self.knowledge,
            self.rapid,
            trace,
            question,
            self.max_prompt_tokens,
            self.turns,
            past=Past(tuple(exchanges)),
            query=query_behind(question, exchanges),
        )

    def _drafted(
        self,
        question: str,
        filter: Filter | None,
        cancelled: Cancelled,
        trace: Trace,
        exchanges: Sequence[Exchange],
    ) -> Iterator[Event]:
        """Yield an answer by drafts, or, where drafting fails, a plain one behind ``exchanges``."""
        splitter = Splitter(self.target if self.config.drafts.splits_by_model else None)
        run = DraftedRun(
            self.knowledge,
            self.speculator,
            self.breaker,
            trace,
            question,
            self.turns,
            splitter,
            notes=(LEFT_OUT,) if exchanges else (),
        )
        try:
            yield from run.events(filter, cancelled)
            return
        except Failed as failure:
            note = f"Answered plainly, because {failure}."
        # Not in the handler: until it ends, the error keeps what the failed step had in memory.
        trace.attributes["method"] = "plain"
        for event in self._plain(question, filter, cancelled, trace, exchanges, notes=(note,)):
            yield replace(event, audit=run.audit) if isinstance(event, Answer) else event
