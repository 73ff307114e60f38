"""One answer about one long document: the target reads all of it, the drafter its best part."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from readahead.config import Config, TokensConfig
from readahead.errors import ConfigError, InputError
from readahead.knowledge import KnowledgeBase
from readahead.lm.base import Cancelled
from readahead.lm.dialogue import Exchange, build_dialogue
from readahead.lm.generate import Piece
from readahead.lm.model import TransformersModel
from readahead.lm.prompt import Prompt
from readahead.lm.reuse import PrefixReader, Reading
from readahead.plain import check_passages, fitting_notes, outgrown_notes, sampling_params
from readahead.reply import Event, Reply, reading_notes
from readahead.retrieval.base import Filter
from readahead.retrieved import Retrieved
from readahead.speculation.tokens import decode
from readahead.speculation.tokens.acceptance import Rule
from readahead.speculation.tokens.base import Pacer
from readahead.speculation.tokens.drafters import check_vocabularies
from readahead.speculation.tokens.governor import FixedPacer, Governor
from readahead.speculation.tokens.summary import summary
from readahead.speculation.tokens.transfer import dynamic
from readahead.trace import Trace
from readahead.turns import Turns
from readahead.types import Passage

METHOD = "rapid"
ALONE = "The answer was written without the drafter: {}"


def rule_of(config: TokensConfig) -> Rule:
    """Return how the settings accept draft tokens."""
    return Rule(config.mode, eta=config.eta, weight=config.weight, tail=config.tail)


def drafts_by_model(config: Config) -> bool:
    """Return whether a model drafts, or tokens are only copied.

    Raises:
        ConfigError: Tokens are copied, and the law of acceptance needs a drafter's distributions;
            or a strength is to be weakened, and the law has none.
    """
    tokens = config.tokens
    if tokens.dynamic and tokens.mode not in ("augmented", "paper"):
        raise ConfigError(
            f"tokens.dynamic weakens a strength, and tokens.mode {tokens.mode!r} has none.",
            remedy="Set tokens.mode to augmented, or leave tokens.dynamic out.",
        )
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


@dataclass(frozen=True, slots=True)
class Past:
    """What a conversation about one document has come to.

    Attributes:
        exchanges: The questions and answers that the next question follows.
        target: What the target has read, the document among it; None where the prefix tree is all
            that knows of it.
        drafter: What the drafter has read.
    """

    exchanges: tuple[Exchange, ...] = ()
    target: Reading | None = None
    drafter: Reading | None = None


NO_PAST = Past()


class RapidRun:
    """Reads a document, drafts from its best part, verifies, cites, and traces it all.

    Args:
        knowledge: Holds the document.
        models: Answer.
        trace: Of the request.
        question: What is asked.
        max_prompt_tokens: Of the target.
        turns: Who has the models.
        past: What was asked about the same document before.
        query: What the document, where none is named, and the drafter's passages are retrieved
            for; "" is the question.
        notes: What the reader should know besides.
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
        past: Past = NO_PAST,
        query: str = "",
        notes: Sequence[str] = (),
    ) -> None:
        self._knowledge = knowledge
        self._config = knowledge.config
        self._models = models
        self._trace = trace
        self._question = question
        self._max_prompt_tokens = max_prompt_tokens
        self._turns = turns
        self._past = past
        self._query = query or question
        self._notes = notes
        self._exchanges = past.exchanges
        self._read_ids: list[int] = []  # prompt and answer
        self._num_prompt_tokens = 0
        self._reading: Reading | None = None
        self._retrieved: Retrieved | None = None

    def past(self, *, is_answered: bool) -> Past:
        """Return what the next question follows, once the events have ended without an error.

        Args:
            is_answered: Whether this question and its answer are part of it.
        """
        if self._reading is None or self._retrieved is None:
            return self._past
        cache = self._reading.cache
        exchanges = self._past.exchanges
        if is_answered:
            answer_ids = tuple(self._read_ids[self._num_prompt_tokens :])
            exchanges = (*self._exchanges, Exchange(self._question, answer_ids))
        read = Reading(cache, tuple(self._read_ids[: cache.length]))
        return Past(exchanges, read, self._retrieved.reading)

    def events(self, filter: Filter | None, cancelled: Cancelled) -> Iterator[Event]:
        """Yield text, citations and, last, the Answer.

        Raises:
            InputError: ``filter`` allows several documents by name.
        """
        name = self._document(filter)
        passages = self._passages(name, filter) if name else []
        if not passages:
            yield from self._reply(()).nothing_found()
            return
        self._trace.attributes["document"] = name
        prompt = self._prompt(passages)
        self._retrieved = retrieved = self._retrieve(prompt)
        notes = [*self._notes, *fitting_notes(prompt)]
        reply = self._reply(prompt.passages, notes)
        pieces = self._pieces(prompt, retrieved, notes, cancelled)
        yield from reply.events(self._turns.steps(pieces, trace=self._trace))

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
        hits = self._knowledge.search(self._query, 1, filter=filter, trace=self._trace)
        self._trace.count("retrievals")
        return hits[0].passage.document if hits else ""

    def _passages(self, name: str, filter: Filter | None) -> list[Passage]:
        """Return what ``filter`` allows of the document, passage by passage, in its order."""
        store = self._knowledge.store
        about = replace(filter or Filter(), documents=(name,))
        passages = store.passages(store.live_ids(about))
        return sorted(passages, key=lambda passage: (passage.start, passage.end))

    def _prompt(self, passages: Sequence[Passage]) -> Prompt:
        with self._trace.span("prompt") as span:
            dialogue = build_dialogue(
                self._models.target.tokenizer,
                self._question,
                passages,
                self._past.exchanges,
                max_tokens=self._max_prompt_tokens,
                system=self._config.generation.system,
            )
            prompt, self._exchanges = dialogue.prompt, dialogue.exchanges
            span.attributes["num_passages"] = len(prompt.passages)
            span.attributes["num_turns"] = len(self._exchanges)
        check_passages(prompt, self._max_prompt_tokens)
        self._notes = (*self._notes, *outgrown_notes(dialogue, self._past.exchanges))
        self._trace.count("prompt_tokens", len(prompt.token_ids))
        shown = [{"id": passage.id, "score": 0.0} for passage in prompt.passages]
        self._trace.attributes["passages"] = shown
        return prompt

    def _retrieve(self, prompt: Prompt) -> Retrieved:
        return Retrieved(
            self._knowledge,
            self._models.target,
            self._models.drafter,
            self._question,
            prompt,
            self._exchanges,
            self._trace,
            query=self._query,
            on=self._past.drafter,
        )

    def _pieces(
        self, prompt: Prompt, retrieved: Retrieved, notes: list[str], cancelled: Cancelled
    ) -> Generator[Piece]:
        """Read the document, which the tree keeps, and what was said since, and decode.

        ``notes`` gets what the reader should know of it.
        """
        models, config = self._models, self._config.tokens
        pacer = pacer_of(config, models.governor)
        self._read_ids = list(prompt.token_ids)
        self._num_prompt_tokens = len(prompt.token_ids)
        self._reading = models.reader.read(
            prompt.parts[:-2],
            self._past.target,
            num_kept=1 + len(prompt.passages),
            cancelled=cancelled,
            trace=self._trace,
        )
        notes += reading_notes(self._reading)
        pieces = decode.stream(
            models.target,
            prompt.token_ids,
            sampling_params(self._config.generation),
            retrieved.drafter(),
            rule=dynamic(rule_of(config), retrieved.trust) if config.dynamic else rule_of(config),
            pacer=pacer,
            cache=self._reading.cache,
            cancelled=cancelled,
            trace=self._trace,
        )
        try:
            with closing(pieces):
                for piece in pieces:
                    self._read_ids += piece.token_ids
                    yield piece
        finally:
            found = summary(self._trace, config.mode, pacer)
            self._trace.attributes["speculation"] = found
            if error := found.get("drafter_error"):
                retrieved.lose_drafter()  # what its cache holds is not known
                notes.append(ALONE.format(error))

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
