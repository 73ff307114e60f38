"""Questions to answers: brings the knowledge base and the models together."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from functools import cached_property, partial
from typing import Self

from readahead.config import Config, load_config
from readahead.errors import InputError, StoreError
from readahead.knowledge import KnowledgeBase
from readahead.lm.base import Cancelled, never
from readahead.lm.memory import free_bytes, readable_tokens
from readahead.lm.model import TransformersModel
from readahead.lm.prefixtree import PrefixTree
from readahead.lm.reuse import PrefixReader
from readahead.lm.watch import make_watchable
from readahead.lm.weights import resolve
from readahead.plain import PlainRun
from readahead.reply import Event
from readahead.retrieval.base import Filter
from readahead.trace import Trace
from readahead.turns import Turns
from readahead.types import Answer

METHODS = ("plain",)


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
        found = resolve(models.target)
        if found.kind != "target":
            raise InputError(
                f"{models.target!r} is an embedding model and cannot answer.",
                remedy="Choose a language model, for instance qwen2.5-coder-0.5b.",
            )
        load = partial(
            TransformersModel.load,
            found.folder,
            device=models.device,
            dtype=models.dtype,
            name=models.target,
            prefill_step_tokens=models.prefill_step_tokens,
        )
        return self.turns.run(load)

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

    def load(self) -> Self:
        """Load what the first question would load, and return the engine.

        Raises:
            NotFound: A model was not pulled.
            EmbedderMismatch: The knowledge base is embedded with another model.
        """
        _ = self.max_prompt_tokens, self.knowledge.retriever
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
            method: ``plain``: retrieve, then answer from the passages.
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
        target = self.load().target  # before the clock starts: this time is not the question's
        trace = Trace("ask", question=question, method=method, target=target.name)
        injects = self.config.inject.enabled if inject is None else inject
        run = PlainRun(
            self.knowledge,
            target,
            trace,
            question,
            self.max_prompt_tokens,
            self.turns,
            injects=injects,
        )
        try:
            with self.turns.answer():
                yield from run.events(filter, self.turns.or_interrupted(cancelled))
        finally:
            # Who stops reading the stream has cancelled the request.
            trace.attributes.setdefault("finish_reason", "cancelled")
            # An answer is worth more than its trace: a full disk or a busy writer loses the latter.
            with suppress(StoreError):
                self.knowledge.keep_trace(trace)
