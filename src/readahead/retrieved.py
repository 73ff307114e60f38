"""The part of a document that the drafter reads for a question, and the drafter that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from readahead.errors import ContextOverflow
from readahead.knowledge import KnowledgeBase
from readahead.lm.base import Cancelled, never
from readahead.lm.dialogue import Exchange, build_dialogue
from readahead.lm.model import TransformersModel
from readahead.lm.prompt import Prompt
from readahead.lm.reuse import Reading
from readahead.retrieval.base import Filter, Vectors
from readahead.speculation.tokens.base import Drafter
from readahead.speculation.tokens.context import Selected, budget_tokens, by_rank, select
from readahead.speculation.tokens.drafters import DrafterKind, ModelDrafter, make_drafter
from readahead.speculation.tokens.lookup import LookupDrafter, Sources
from readahead.speculation.tokens.refresh import RefreshingDrafter
from readahead.speculation.tokens.transfer import trust
from readahead.trace import Trace

TURN_TOKENS = 64
"""What a model that drafts reads of an earlier answer."""


class Retrieved:
    """Retrieves in one document, and lets the drafter read what it finds.

    Attributes:
        trust: How well what was found resembles the question, in [0, 1]; 0 where nothing does.

    Args:
        knowledge: Holds the document.
        target: What the prompt is for; its tokens are drafted.
        model: Drafts; None where tokens are only copied.
        question: What is asked.
        prompt: What the target reads. The drafter reads no passage that the target does not.
        exchanges: Earlier questions and answers about the document.
        trace: Of the request.
        query: What passages are retrieved for.
        on: What ``model`` has read for the question before.
    """

    def __init__(
        self,
        knowledge: KnowledgeBase,
        target: TransformersModel,
        model: TransformersModel | None,
        question: str,
        prompt: Prompt,
        exchanges: Sequence[Exchange],
        trace: Trace,
        *,
        query: str,
        on: Reading | None = None,
    ) -> None:
        self._knowledge = knowledge
        self._config = knowledge.config
        self._target = target
        self._model = model
        self._question = question
        self._prompt = prompt
        self._exchanges = [exchange.shortened(TURN_TOKENS) for exchange in exchanges]
        self._trace = trace
        self._query = query
        self._on = on
        self._lookup = LookupDrafter()
        self._drafting: ModelDrafter | None = None
        self._selected = self._select(query)

    @property
    def reading(self) -> Reading | None:
        """Return what the model that drafts has read, for the next question."""
        return self._on if self._drafting is None else self._drafting.reading

    def lose_drafter(self) -> None:
        """Forget what the model that drafts has read: it failed in the midst of a step."""
        self._on = self._drafting = None

    def drafter(self) -> Drafter:
        """Return what drafts the answer."""
        tokens = self._config.tokens
        self._lookup = LookupDrafter(self._sources())
        own_ids = None if self._model is None else self._own_ids(self._model)
        if self._model is not None and own_ids is not None:
            self._drafting = ModelDrafter(
                self._model,
                own_ids,
                vocabulary_size=self._target.vocabulary_size,
                on=self._on,
            )
        kind: DrafterKind = "rag" if tokens.drafter == "rag" else "hybrid"
        drafter = make_drafter(kind, self._lookup, self._drafting)
        if not tokens.refresh_tokens:
            return drafter
        decode = self._target.tokenizer.decode
        return RefreshingDrafter(drafter, self.refresh, decode, tokens.refresh_tokens)

    def refresh(self, sentence: str, *, cancelled: Cancelled = never) -> bool:
        """Retrieve for the question and a sentence of its answer; return if more was found.

        If a passage is among the best that was not, the drafter reads those in place of the former
        ones, and copies from them first.
        """
        selected = self._select(f"{self._query} {sentence}")
        if set(selected.places) <= set(self._selected.places):
            return False
        self._selected = selected
        self._lookup.prefer(self._sources())
        if self._drafting is not None and self._model is not None:
            own_ids = self._own_ids(self._model)
            assert own_ids is not None, "the question has fitted before"
            self._drafting.read_instead(own_ids, cancelled=cancelled)
        return True

    def _select(self, query: str) -> Selected:
        """Return which passages of those that the target reads the drafter reads, too."""
        config, passages = self._config.tokens, self._prompt.passages
        sizes = [stop - start for start, stop in self._prompt.spans]
        budget = budget_tokens(sum(sizes), config.context_tokens, config.context_share)
        with self._trace.span("retrieve") as span:
            similarities = self._similarities(query)
            selected = select(
                similarities,
                sizes,
                min_similarity=config.context_min_similarity,
                max_tokens=budget,
            )
            self.trust = trust(similarities, selected)
            span.attributes |= {
                "passages": [passages[place].id for place in selected.best_first],
                "num_tokens": selected.num_tokens,
                "is_fallback": selected.is_fallback,
            }
        self._trace.count("retrievals")
        return selected

    def _similarities(self, query: str) -> list[float]:
        """Return how alike query and passages are; by words where nothing is embedded."""
        knowledge, passages = self._knowledge, self._prompt.passages
        embedder, vectors = knowledge.embedder, self._vectors
        if embedder is not None and vectors is not None:
            return [float(one) for one in vectors @ embedder.embed_query(query)[0]]
        where = Filter(documents=(passages[0].document,)) if passages else None
        hits = knowledge.search(query, max(1, len(passages)), filter=where)
        places = {passage.id: place for place, passage in enumerate(passages)}
        found = [places[hit.passage.id] for hit in hits if hit.passage.id in places]
        return by_rank(found, len(passages))

    @cached_property
    def _vectors(self) -> Vectors | None:
        return self._knowledge.vectors(self._prompt.passages)

    def _sources(self) -> Sources:
        """Return what is copied from first; the document itself stands in the target's prompt."""
        prompt = self._prompt
        spans = [prompt.spans[place] for place in self._selected.best_first]
        return Sources([prompt.token_ids[start:stop] for start, stop in spans])

    def _own_ids(self, model: TransformersModel) -> tuple[int, ...] | None:
        """Return the prompt of the model that drafts; None where that has no room for the question.

        Raises:
            ContextOverflow: There is no room, and the law of acceptance needs the model.
        """
        passages = [self._prompt.passages[place] for place in self._selected.places]
        room = model.max_context_tokens - self._config.generation.max_new_tokens
        try:
            dialogue = build_dialogue(
                model.tokenizer,
                self._question,
                passages,
                self._exchanges,
                max_tokens=room,
                system=self._config.generation.system,
            )
        except ContextOverflow:
            if self._config.tokens.mode == "exact":
                return None
            raise ContextOverflow(
                f"The drafter's context of {model.max_context_tokens} tokens has no room for "
                "question and answer.",
                remedy="Set tokens.mode to exact, which goes on without it, or ask a shorter "
                "question.",
            ) from None
        return dialogue.prompt.token_ids
