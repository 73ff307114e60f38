"""Questions to answers: retrieves, builds the prompt, decodes, cites, and traces it all.

``method="plain"`` is the baseline and the oracle of every speculation: it guesses nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Self

from readahead.config import Config, GenerationConfig, load_config
from readahead.errors import ContextOverflow, InputError, StoreError
from readahead.knowledge import KnowledgeBase
from readahead.lm import generate
from readahead.lm.base import Cancelled, never
from readahead.lm.generate import Piece
from readahead.lm.memory import free_bytes, readable_tokens
from readahead.lm.model import TransformersModel
from readahead.lm.prefixtree import PrefixTree
from readahead.lm.prompt import Prompt, build_prompt
from readahead.lm.reuse import PrefixReader
from readahead.lm.sample import SamplingParams
from readahead.lm.watch import make_watchable
from readahead.lm.weights import resolve
from readahead.reply import Event, Reply
from readahead.retrieval.base import Filter
from readahead.speculation.retrieval.inject import Injected, Injecting
from readahead.trace import Trace
from readahead.turns import Turns
from readahead.types import Answer, Hit, Passage

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
        return TransformersModel.load(
            found.folder,
            device=models.device,
            dtype=models.dtype,
            name=models.target,
            prefill_step_tokens=models.prefill_step_tokens,
        )

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
        limit = min(target.max_context_tokens, readable_tokens(free, reader.bytes_per_token))
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
        run = _PlainRun(
            self.knowledge, target, trace, question, self.max_prompt_tokens, injects=injects
        )
        try:
            yield from run.events(filter, cancelled)
        finally:
            # Who stops reading the stream has cancelled the request.
            trace.attributes.setdefault("finish_reason", "cancelled")
            # An answer is worth more than its trace: a full disk or a busy writer loses the latter.
            with suppress(StoreError):
                self.knowledge.keep_trace(trace)


def sampling_params(config: GenerationConfig) -> SamplingParams:
    """Return how the settings choose tokens."""
    return SamplingParams(
        max_new_tokens=config.max_new_tokens,
        temperature=config.temperature,
        top_k=config.top_k,
        top_p=config.top_p,
        repetition_penalty=config.repetition_penalty,
        seed=config.seed,
    )


class _PlainRun:
    """One plain answer, from question to trace."""

    def __init__(
        self,
        knowledge: KnowledgeBase,
        target: TransformersModel,
        trace: Trace,
        question: str,
        max_prompt_tokens: int,
        *,
        injects: bool,
    ) -> None:
        self._knowledge = knowledge
        self._config = knowledge.config
        self._max_prompt_tokens = max_prompt_tokens
        self._injects = injects
        self._target = target
        self._trace = trace
        self._question = question

    def events(self, filter: Filter | None, cancelled: Cancelled) -> Iterator[Event]:
        """Yield text, citations and, last, the Answer."""
        k = self._config.retrieval.k
        hits = self._knowledge.search(self._question, k, filter=filter, trace=self._trace)
        self._trace.count("retrievals")
        self._trace_passages(hits)
        if not hits:
            yield from self._reply(()).nothing_found()
            return
        prompt = self._prompt(hits)
        reply = self._reply(prompt.passages, fitting_notes(prompt))
        if self._injects:
            pieces = self._injecting(prompt, hits, reply, filter, cancelled)
        else:
            pieces = generate.stream(
                self._target,
                prompt.token_ids,
                sampling_params(self._config.generation),
                cancelled=cancelled,
                trace=self._trace,
            )
        yield from reply.events(pieces)

    def _trace_passages(self, hits: Sequence[Hit]) -> None:
        """Note what is shown; a trace goes when one of its passages is removed."""
        shown = [{"id": hit.passage.id, "score": hit.score} for hit in hits]
        before = self._trace.attributes.get("passages")
        self._trace.attributes["passages"] = (
            [*before, *shown] if isinstance(before, list) else shown
        )

    def _injecting(
        self,
        prompt: Prompt,
        hits: Sequence[Hit],
        reply: Reply,
        filter: Filter | None,
        cancelled: Cancelled,
    ) -> Generator[Piece]:
        """Yield the pieces of an answer that may get further passages."""
        knowledge = self._knowledge
        injecting = Injecting(
            self._target,
            self._question,
            prompt,
            hits,
            partial(knowledge.search, filter=filter, trace=self._trace),
            config=self._config.inject,
            max_prompt_tokens=self._max_prompt_tokens,
            rarity=knowledge.store.rarity,
        )
        for event in injecting.stream(
            sampling_params(self._config.generation), cancelled=cancelled, trace=self._trace
        ):
            if isinstance(event, Injected):
                self._trace_passages(event.hits)
                reply.extend(event.passages, in_front=event.in_front)
            else:
                yield event

    def _reply(self, passages: Sequence[Passage], notes: Sequence[str] = ()) -> Reply:
        return Reply(
            self._question,
            passages,
            self._trace,
            self._config,
            similarity=self._knowledge.similarity,
            notes=notes,
        )

    def _prompt(self, hits: Sequence[Hit]) -> Prompt:
        with self._trace.span("prompt") as span:
            prompt = build_prompt(
                self._target.tokenizer,
                self._question,
                [hit.passage for hit in hits],
                max_tokens=self._max_prompt_tokens,
            )
            span.attributes["num_passages"] = len(prompt.passages)
        check_passages(prompt, self._max_prompt_tokens)
        self._trace.count("prompt_tokens", len(prompt.token_ids))
        return prompt


def check_passages(prompt: Prompt, max_prompt_tokens: int) -> None:
    """Raise ContextOverflow if none of the passages found fits."""
    if prompt.dropped and not prompt.passages:
        raise ContextOverflow(
            f"None of the {len(prompt.dropped)} passages found fits beside the question into "
            f"{max_prompt_tokens} tokens, which context and memory leave beside an answer.",
            remedy="Ask a shorter question, or lower generation.max_new_tokens.",
        )


def fitting_notes(prompt: Prompt) -> tuple[str, ...]:
    """Return the notes on the passages that did not fit, if there are such."""
    notes = []
    if prompt.dropped:
        notes.append(f"{len(prompt.dropped)} of the passages found did not fit into the context.")
    if prompt.is_shortened:
        notes.append("The last passage shown was shortened to fit.")
    return tuple(notes)
