"""One answer about one long document: the target reads all of it, the drafter its best part."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from readahead.config import Config, TokensConfig
from readahead.errors import ConfigError, InputError
from readahead.knowledge import KnowledgeBase
from readahead.lm.base import Cancelled
from readahead.lm.generate import Piece
from readahead.lm.model import TransformersModel
from readahead.lm.prompt import Context, Prompt, build_prompt
from readahead.lm.reuse import PrefixReader, Reading
from readahead.plain import check_passages, fitting_notes, sampling_params
from readahead.reply import Event, Reply
from readahead.retrieval.base import Filter
from readahead.speculation.tokens import decode
from readahead.speculation.tokens.acceptance import Rule
from readahead.speculation.tokens.base import Drafter, Pacer
from readahead.speculation.tokens.context import Selected, budget_tokens, select
from readahead.speculation.tokens.drafters import (
    HybridDrafter,
    ModelDrafter,
    check_vocabularies,
)
from readahead.speculation.tokens.governor import FixedPacer, Governor
from readahead.speculation.tokens.lookup import LookupDrafter, Sources
from readahead.trace import Trace
from readahead.turns import Turns
from readahead.types import Passage

METHOD = "rapid"
NO_TURNS = Context()


def rule_of(config: TokensConfig) -> Rule:
    """Return how the settings accept draft tokens."""
    return Rule(config.mode, eta=config.eta, weight=config.weight, tail=config.tail)


def drafts_by_model(config: Config) -> bool:
    """Return whether a model drafts, or tokens are only copied.

    Raises:
        ConfigError: Tokens are copied, and the law of acceptance needs a drafter's distributions.
    """
    tokens = config.tokens
    is_model = tokens.drafter == "rag"
    if tokens.drafter in ("auto", "hybrid"):
        is_model = tokens.drafter == "hybrid" or bool(config.models.drafter)
    if tokens.mode != "exact" and tokens.drafter != "rag":
        raise ConfigError(
            f"tokens.mode is {tokens.mode!r}, which needs tokens.drafter to be 'rag': copied "
            "tokens have no distribution.",
            remedy="Set tokens.drafter to rag, or tokens.mode to exact.",
        )
    return is_model


def pacer_of(config: TokensConfig, governor: Governor) -> Pacer:
    """Return what decides how many tokens are drafted: the governor, unless a number is set."""
    return FixedPacer(config.num_draft_tokens) if config.num_draft_tokens else governor


@dataclass(frozen=True, slots=True)
class Models:
    """What answers about documents, and what remembers how that went.

    Attributes:
        reader: The target, with what it has read.
        drafter: None where tokens are only copied.
        governor: Learns from every answer.
    """

    reader: PrefixReader
    target: TransformersModel
    drafter: TransformersModel | None
    governor: Governor

    def __post_init__(self) -> None:
        if self.drafter is not None:
            check_vocabularies(self.target, self.drafter)


class RapidRun:
    """Reads a document, drafts from its best part, verifies, cites, and traces it all.

    Args:
        knowledge: Holds the document.
        models: Answer.
        trace: Of the request.
        question: What is asked.
        max_prompt_tokens: Of the target.
        turns: Who has the models.
        context: The earlier turns about the same document.
        on: What the target has read of them.
    """

    def __init__(
        self,
        knowledge: KnowledgeBase,
        models: Models,
        trace: Trace,
        question: str,
        max_prompt_tokens: int,
        turns: Turns,
        *,
        context: Context = NO_TURNS,
        on: Reading | None = None,
    ) -> None:
        self._knowledge = knowledge
        self._config = knowledge.config
        self._models = models
        self._trace = trace
        self._question = question
        self._max_prompt_tokens = max_prompt_tokens
        self._turns = turns
        self._context = context
        self._on = on

    def events(self, filter: Filter | None, cancelled: Cancelled) -> Iterator[Event]:
        """Yield text, citations and, last, the Answer.

        Raises:
            InputError: ``filter`` allows several documents by name.
        """
        name = self._document(filter)
        if not name:
            yield from self._reply(()).nothing_found()
            return
        self._trace.attributes["document"] = name
        passages = self._passages(name)
        prompt = self._prompt(passages)
        selected = self._selected(prompt)
        reply = self._reply(prompt.passages, fitting_notes(prompt))
        yield from reply.events(self._turns.steps(self._pieces(prompt, selected, cancelled)))

    def _document(self, filter: Filter | None) -> str:
        """Return the document that is asked about: the one named, or that of the best passage."""
        named = filter.documents if filter else ()
        if len(named) > 1:
            raise InputError(
                f"{len(named)} documents are named; the method {METHOD!r} reads one.",
                remedy="Name one with --document, or none: then that of the best passage is read.",
            )
        if named:
            return named[0]
        hits = self._knowledge.search(self._question, 1, filter=filter, trace=self._trace)
        self._trace.count("retrievals")
        return hits[0].passage.document if hits else ""

    def _passages(self, name: str) -> list[Passage]:
        """Return the document whole, passage by passage, in its order."""
        store = self._knowledge.store
        passages = store.passages(store.live_ids(Filter(documents=(name,))))
        return sorted(passages, key=lambda passage: (passage.start, passage.end))

    def _prompt(self, passages: Sequence[Passage]) -> Prompt:
        with self._trace.span("prompt") as span:
            prompt = build_prompt(
                self._models.target.tokenizer,
                self._question,
                passages,
                max_tokens=self._max_prompt_tokens,
                context=self._context,
            )
            span.attributes["num_passages"] = len(prompt.passages)
        check_passages(prompt, self._max_prompt_tokens)
        self._trace.count("prompt_tokens", len(prompt.token_ids))
        shown = [{"id": passage.id, "score": 0.0} for passage in prompt.passages]
        self._trace.attributes["passages"] = shown
        return prompt

    def _selected(self, prompt: Prompt) -> Selected:
        """Return which passages of those that the target reads the drafter reads, too."""
        config = self._config.tokens
        sizes = [stop - start for start, stop in prompt.spans]
        budget = budget_tokens(sum(sizes), config.context_tokens, config.context_share)
        with self._trace.span("retrieve") as span:
            selected = select(
                self._similarities(prompt.passages),
                sizes,
                min_similarity=config.context_min_similarity,
                max_tokens=budget,
            )
            span.attributes |= {
                "passages": [prompt.passages[place].id for place in selected.best_first],
                "num_tokens": selected.num_tokens,
                "is_fallback": selected.is_fallback,
            }
        self._trace.count("retrievals")
        return selected

    def _similarities(self, passages: Sequence[Passage]) -> list[float]:
        """Return how alike question and passages are; by words where nothing is embedded."""
        knowledge = self._knowledge
        embedder, vectors = knowledge.embedder, knowledge.vectors(passages)
        if embedder is not None and vectors is not None:
            return [float(one) for one in vectors @ embedder.embed_query(self._question)[0]]
        where = Filter(documents=(passages[0].document,)) if passages else None
        hits = knowledge.search(self._question, max(1, len(passages)), filter=where)
        rank = {hit.passage.id: 1 / place for place, hit in enumerate(hits, start=1)}
        return [rank.get(passage.id, 0.0) for passage in passages]

    def _pieces(self, prompt: Prompt, selected: Selected, cancelled: Cancelled) -> Generator[Piece]:
        """Read the document, of which the tree keeps all but the question, and decode."""
        models, config = self._models, self._config.tokens
        reading = models.reader.read(
            prompt.parts[:-2], self._on, cancelled=cancelled, trace=self._trace
        )
        yield from decode.stream(
            models.target,
            prompt.token_ids,
            sampling_params(self._config.generation),
            self._drafter(prompt, selected),
            rule=rule_of(config),
            pacer=pacer_of(config, models.governor),
            cache=reading.cache,
            cancelled=cancelled,
            trace=self._trace,
        )

    def _drafter(self, prompt: Prompt, selected: Selected) -> Drafter:
        config, models = self._config.tokens, self._models
        texts = [prompt.token_ids[slice(*prompt.spans[place])] for place in selected.best_first]
        document = prompt.token_ids[prompt.spans[0][0] : prompt.spans[-1][1]]
        lookup = LookupDrafter(Sources([*texts, document]))
        if models.drafter is None:
            return lookup
        passages = [prompt.passages[place] for place in selected.places]
        room = models.drafter.max_context_tokens - self._config.generation.max_new_tokens
        own = build_prompt(models.drafter.tokenizer, self._question, passages, max_tokens=room)
        model = ModelDrafter(
            models.drafter, own.token_ids, vocabulary_size=models.target.vocabulary_size
        )
        return model if config.drafter == "rag" else HybridDrafter(lookup, model)

    def _reply(self, passages: Sequence[Passage], notes: Sequence[str] = ()) -> Reply:
        return Reply(
            self._question,
            passages,
            self._trace,
            self._config,
            similarity=self._knowledge.similarity,
            method=METHOD,
            notes=notes,
        )
