"""Questions to answers: brings the knowledge base and the models together."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Self

from readahead.config import Config, Dtype, load_config
from readahead.drafted import METHOD, DraftedRun, Failed
from readahead.errors import InputError, StoreError
from readahead.evidence import Judge
from readahead.knowledge import KnowledgeBase
from readahead.lm.base import Cancelled, never
from readahead.lm.entail import Entailment
from readahead.lm.memory import free_bytes, readable_tokens
from readahead.lm.model import TransformersModel, load_named
from readahead.lm.prefixtree import PrefixTree
from readahead.lm.reuse import PrefixReader
from readahead.lm.watch import make_watchable
from readahead.plain import PlainRun
from readahead.rapid import METHOD as RAPID
from readahead.rapid import Models, RapidRun, drafts_by_model
from readahead.reply import Event
from readahead.retrieval.base import Filter
from readahead.speculation.answers.breaker import Breaker
from readahead.speculation.answers.calibration import Calibration, read_calibration
from readahead.speculation.answers.speculate import Speculator
from readahead.speculation.answers.split import Splitter
from readahead.speculation.tokens.governor import Governor
from readahead.trace import Trace
from readahead.turns import Turns
from readahead.types import Answer

METHODS = ("plain", METHOD, RAPID)


class Engine:
    """A knowledge base and a target model; the target is loaded at the first question."""

    def __init__(self, knowledge: KnowledgeBase, target: TransformersModel | None = None) -> None:
        self.knowledge = knowledge
        self.config = knowledge.config
        self.turns = Turns()
        if target is not None:
            self.target = target

    @classmethod
    def open(cls, config: Config | None = None) -> Self:
        """Open the knowledge base that ``config`` names, and its models when they are needed.

        Raises:
            StoreError: The knowledge base cannot be opened.
        """
        return cls(KnowledgeBase.open(config or load_config()))

    def close(self) -> None:
        """Close the knowledge base, and forget what was read."""
        if "reader" in vars(self):
            self.reader.tree.close()
        self.turns.close()
        self.knowledge.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @cached_property
    def target(self) -> TransformersModel:
        """Return the model that owns the answers, loaded once.

        Raises:
            NotFound: It was not pulled.
            InputError: It is an embedding model.
        """
        models = self.config.models
        return self._loaded(*models.target_place)

    @cached_property
    def drafter(self) -> TransformersModel:
        """Return the model that writes drafts; the target, where no other is named.

        Raises:
            NotFound: It was not pulled.
            InputError: It is an embedding model.
        """
        models = self.config.models
        if models.drafter_place == models.target_place:
            return self.target
        return self._loaded(*models.drafter_place)

    def _loaded(self, name: str, device: str, dtype: Dtype) -> TransformersModel:
        num_tokens = self.config.models.prefill_step_tokens
        load = partial(load_named, name, device, dtype, prefill_step_tokens=num_tokens)
        return self.turns.run(load)

    @cached_property
    def judge(self) -> Judge | None:
        """Return the entailment model that judges claims, None where the settings name none.

        Raises:
            NotFound: It was not pulled.
            InputError: It is no entailment model.
        """
        name, device = self.config.evidence.judge, self.config.models.device
        return self.turns.run(partial(Entailment.load, name, device=device)) if name else None

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
            judge=self.judge,
        )

    @cached_property
    def breaker(self) -> Breaker:
        """Return what remembers how drafting went."""
        drafts = self.config.drafts
        return Breaker(drafts.num_failures, drafts.retry_after_s)

    @cached_property
    def governor(self) -> Governor:
        """Return what knows how drafting tokens went."""
        return Governor()

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
        return PrefixReader(target, PrefixTree.open(config, target.device), blend_share=share)

    @cached_property
    def max_prompt_tokens(self) -> int:
        """Return how long a prompt may be, so that an answer of full length fits behind it.

        The model's context limits it, and the memory that was free at first. What the prefix tree
        holds counts as free, and the limit is asked for once: what was read ahead must not change
        which passages are shown.
        """
        target, reader = self.target, self.reader
        free = free_bytes(target.device) + reader.tree.num_bytes
        bytes_per_token = self.turns.run(lambda: reader.bytes_per_token)
        limit = min(target.max_context_tokens, readable_tokens(free, bytes_per_token))
        return max(0, limit - self.config.generation.max_new_tokens)

    def load(self, method: str = "plain") -> Self:
        """Load what the first question would load, and return the engine.

        Raises:
            NotFound: A model was not pulled.
            EmbedderMismatch: The knowledge base is embedded with another model.
        """
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
        cancelled: Cancelled = never,
    ) -> Answer:
        """Return the answer; see ``stream``."""
        *_, answer = self.stream(
            question, method=method, filter=filter, inject=inject, cancelled=cancelled
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
                    yield from self._drafted(question, filter, cancelled, trace)
                elif method == RAPID:
                    yield from self._rapid(question, trace).events(filter, cancelled)
                else:
                    injects = self.config.inject.enabled if inject is None else inject
                    yield from self._plain(question, filter, cancelled, trace, injects=injects)
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
            governor=self.governor if self.config.tokens.in_plain else None,
            notes=notes,
        )
        return run.events(filter, cancelled)

    def _rapid(self, question: str, trace: Trace) -> RapidRun:
        models, room = self.rapid, self.max_prompt_tokens
        return RapidRun(self.knowledge, models, trace, question, room, self.turns)

    def _drafted(
        self, question: str, filter: Filter | None, cancelled: Cancelled, trace: Trace
    ) -> Iterator[Event]:
        """Yield an answer by drafts, or a plain one where drafting fails."""
        splitter = Splitter(self.target if self.config.drafts.splits_by_model else None)
        run = DraftedRun(
            self.knowledge,
            self.speculator,
            self.breaker,
            trace,
            question,
            self.turns,
            splitter,
        )
        try:
            yield from run.events(filter, cancelled)
            return
        except Failed as failure:
            note = f"Answered plainly, because {failure}."
        # Not in the handler: until it ends, the error keeps what the failed step had in memory.
        trace.attributes["method"] = "plain"
        for event in self._plain(question, filter, cancelled, trace, notes=(note,)):
            yield replace(event, audit=run.audit) if isinstance(event, Answer) else event
