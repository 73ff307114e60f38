"""Questions to answers: retrieves, builds the prompt, decodes, cites, and traces it all.

``method="plain"`` is the baseline and the oracle of every speculation: it guesses nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Self

from readahead.citing import Citing, Tally
from readahead.config import Config, load_config
from readahead.errors import ContextOverflow, InputError, StoreError
from readahead.knowledge import KnowledgeBase
from readahead.lm import generate
from readahead.lm.base import Cancelled, never
from readahead.lm.model import TransformersModel
from readahead.lm.prompt import Prompt, build_prompt
from readahead.lm.sample import SamplingParams
from readahead.lm.weights import resolve
from readahead.retrieval.base import Filter
from readahead.trace import Trace
from readahead.types import Answer, Citation, FinishReason, Hit, Passage, Timing, Usage

METHODS = ("plain",)
Event = str | Citation | Answer
NOTHING_FOUND = "No passage of the knowledge base matches the question."


class Engine:
    """A knowledge base and a target model; the target is loaded at the first question."""

    def __init__(self, knowledge: KnowledgeBase, target: TransformersModel | None = None) -> None:
        self.knowledge = knowledge
        self.config = knowledge.config
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
        """Close the knowledge base."""
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

    def load(self) -> Self:
        """Load what the first question would load, and return the engine.

        Raises:
            NotFound: A model was not pulled.
            EmbedderMismatch: The knowledge base is embedded with another model.
        """
        _ = self.target, self.knowledge.retriever
        return self

    def ask(
        self,
        question: str,
        *,
        method: str = "plain",
        filter: Filter | None = None,
        cancelled: Cancelled = never,
    ) -> Answer:
        """Return the answer; see ``stream``."""
        *_, answer = self.stream(question, method=method, filter=filter, cancelled=cancelled)
        assert isinstance(answer, Answer)
        return answer

    def stream(
        self,
        question: str,
        *,
        method: str = "plain",
        filter: Filter | None = None,
        cancelled: Cancelled = never,
    ) -> Generator[Event]:
        """Yield the answer's text piece by piece, each citation before its marker, then the Answer.

        The pieces of text joined are the Answer's text.

        Args:
            question: In any language that the target reads.
            method: ``plain``: retrieve, then answer from the passages.
            filter: Limits the passages that may be shown.
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
        try:
            yield from _PlainRun(self.knowledge, target, trace, question).events(filter, cancelled)
        finally:
            # Who stops reading the stream has cancelled the request.
            trace.attributes.setdefault("finish_reason", "cancelled")
            # An answer is worth more than its trace: a full disk or a busy writer loses the latter.
            with suppress(StoreError):
                self.knowledge.keep_trace(trace)


class _PlainRun:
    """One plain answer, from question to trace."""

    def __init__(
        self, knowledge: KnowledgeBase, target: TransformersModel, trace: Trace, question: str
    ) -> None:
        self._knowledge = knowledge
        self._config = knowledge.config
        self._target = target
        self._trace = trace
        self._question = question
        self._text = ""
        self._ttft_s = 0.0

    def events(self, filter: Filter | None, cancelled: Cancelled) -> Iterator[Event]:
        """Yield text, citations and, last, the Answer."""
        k = self._config.retrieval.k
        hits = self._knowledge.search(self._question, k, filter=filter, trace=self._trace)
        self._trace.count("retrievals")
        self._trace.attributes["passages"] = [
            {"id": hit.passage.id, "score": hit.score} for hit in hits
        ]
        if not hits:
            yield self._said(NOTHING_FOUND)
            yield self._answer(Tally(num_refusals=1))
            return
        prompt = self._prompt(hits)
        if not prompt.passages:
            raise ContextOverflow(
                f"None of the {len(hits)} passages found fits into the context of "
                f"{self._target.max_context_tokens} tokens beside the question and an answer of "
                f"{self._config.generation.max_new_tokens}.",
                remedy="Ask a shorter question, or lower generation.max_new_tokens.",
            )
        citing = Citing(
            prompt.passages,
            self._question,
            threshold=self._config.evidence.threshold,
            similarity=self._knowledge.similarity,
        )
        finish_reason: FinishReason = "stop"
        for piece in generate.stream(
            self._target,
            prompt.token_ids,
            self._sampling_params(),
            cancelled=cancelled,
            trace=self._trace,
        ):
            self._trace.count("completion_tokens", len(piece.token_ids))
            finish_reason = piece.finish_reason or finish_reason
            with self._trace.step("cite"):
                events = list(citing.push(piece.text))
                if piece.finish_reason:
                    events += citing.finish()
            yield from map(self._said, events)
        yield self._answer(citing.tally, citing.citations, prompt.dropped, finish_reason)

    def _prompt(self, hits: Sequence[Hit]) -> Prompt:
        max_new_tokens = self._config.generation.max_new_tokens
        with self._trace.span("prompt") as span:
            prompt = build_prompt(
                self._target.tokenizer,
                self._question,
                [hit.passage for hit in hits],
                max_tokens=max(0, self._target.max_context_tokens - max_new_tokens),
            )
            span.attributes["num_passages"] = len(prompt.passages)
        self._trace.count("prompt_tokens", len(prompt.token_ids))
        return prompt

    def _sampling_params(self) -> SamplingParams:
        options = self._config.generation
        return SamplingParams(
            max_new_tokens=options.max_new_tokens,
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            repetition_penalty=options.repetition_penalty,
            seed=options.seed,
        )

    def _said(self, event: str | Citation) -> str | Citation:
        """Return ``event``, noting when the first text went out."""
        if isinstance(event, str):
            if not self._text and event:
                self._ttft_s = self._trace.now_s()
            self._text += event
        return event

    def _answer(
        self,
        tally: Tally,
        citations: Sequence[Citation] = (),
        dropped: Sequence[Passage] = (),
        finish_reason: FinishReason = "stop",
    ) -> Answer:
        counters = self._trace.counters
        e2e_s = self._trace.now_s()
        num_later_tokens = max(counters.get("completion_tokens", 0) - 1, 1)
        notes = list(tally.notes)
        if dropped:
            notes.append(f"{len(dropped)} of the passages found did not fit into the context.")
        self._trace.attributes |= {
            "answer": self._text,
            "citations": [
                {"marker": c.marker, "passage_id": c.passage_id, "start": c.start, "end": c.end}
                for c in citations
            ],
            "finish_reason": finish_reason,
            "e2e_s": e2e_s,
        }
        return Answer(
            text=self._text,
            abstained=tally.abstained,
            confidence=tally.confidence,
            method="plain",
            citations=tuple(citations),
            usage=Usage(
                prompt_tokens=counters.get("prompt_tokens", 0),
                completion_tokens=counters.get("completion_tokens", 0),
                computed_tokens=counters.get("computed_tokens", 0),
                reused_tokens=counters.get("reused_tokens", 0),
                retrievals=counters.get("retrievals", 0),
            ),
            timing=Timing(
                ttft_s=self._ttft_s,
                e2e_s=e2e_s,
                retrieval_s=self._trace.total_s("encode") + self._trace.total_s("search"),
                prefill_s=self._trace.total_s("prefill"),
                tpot_s=(e2e_s - self._ttft_s) / num_later_tokens,
            ),
            finish_reason=finish_reason,
            notes=tuple(notes),
            trace_id=self._trace.id,
        )
