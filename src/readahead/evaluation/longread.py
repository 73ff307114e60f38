"""What target and drafter read of a long case: cut, chunked and searched in memory.

Retrieval is on the passages that the target reads and on no others: a document that is too long
loses its middle before anything is retrieved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import apsw
import torch

from readahead.config import Config, PassagesConfig
from readahead.errors import ContextOverflow
from readahead.evaluation.longcases import LongCase, Turn, keep_ends
from readahead.lm.base import Cache, CachedModel
from readahead.lm.batch import prefill
from readahead.lm.dialogue import Exchange, build_dialogue
from readahead.lm.prompt import Prompt, build_prompt
from readahead.lm.tokenizer import Tokenizer
from readahead.retrieval import lexical
from readahead.retrieval.base import Embedder
from readahead.retrieval.chunk import chunk
from readahead.retrieval.content import embedded_text, heading_text
from readahead.speculation.tokens.context import Selected, budget_tokens, by_rank, select
from readahead.speculation.tokens.transfer import trust
from readahead.trace import Trace
from readahead.types import Document, Passage

_ENDLESS = 10**9


class Index(Protocol):
    """Tells how much passages resemble a question."""

    def similarities(self, question: str) -> list[float]:
        """Return a number for each passage."""
        ...


class VectorIndex:
    """The cosine of question and passage."""

    def __init__(self, passages: Sequence[Passage], embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors = embedder.embed_passages([embedded_text(passage) for passage in passages])

    def similarities(self, question: str) -> list[float]:
        """Return the cosines."""
        return [float(one) for one in self._vectors @ self._embedder.embed_query(question)[0]]


class WordIndex:
    """What BM25 finds is similar, the first the most; 0 where no word is shared."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._num = len(passages)
        self._connection = apsw.Connection(":memory:")
        self._connection.execute(lexical.SCHEMA)
        for place, passage in enumerate(passages):
            heading = heading_text(passage.heading)
            lexical.insert(self._connection, place, heading, embedded_text(passage))

    def similarities(self, question: str) -> list[float]:
        """Return what the ranks stand for."""
        found = lexical.search(self._connection, question, max(1, self._num), None)
        return by_rank([place for place, _ in found], self._num)


def fitting_passages(
    case: LongCase, tokenizer: Tokenizer, config: PassagesConfig, max_prompt_tokens: int
) -> list[Passage]:
    """Return the passages of the case's document, the middle cut out if a prompt has not room.

    Raises:
        ContextOverflow: A question leaves no room for any.
    """
    room = min(max_prompt_tokens, len(tokenizer.encode(case.document)))
    document = case.document
    while True:
        passages = chunk(Document("document", document), config)
        prompts = (
            build_prompt(tokenizer, turn.prompt, passages, max_tokens=_ENDLESS)
            for turn in case.turns
        )
        surplus = max(len(prompt.token_ids) for prompt in prompts) - max_prompt_tokens
        if surplus <= 0:
            return passages
        room -= surplus
        if room < 1:
            raise ContextOverflow(
                f"A question leaves no room for its document in {max_prompt_tokens} tokens.",
                remedy="Raise --max-context, or lower generation.max_new_tokens.",
            )
        document = keep_ends(case, tokenizer, room).document


class Reader:
    """A model that reads the beginning of prompts, each once for as many answers as like.

    Attributes:
        seconds: What reading took, of the beginning that was asked for last.
    """

    def __init__(self, model: CachedModel) -> None:
        self.model = model
        self.seconds = 0.0
        self._token_ids: tuple[int, ...] = ()
        self._cache = model.new_cache()

    def fork(self, token_ids: tuple[int, ...]) -> Cache:
        """Return a cache that holds ``token_ids``, to be written into."""
        if token_ids != self._token_ids:
            self._token_ids, self._cache = token_ids, self.model.new_cache()
            trace = Trace("read")
            if token_ids:
                prefill(self.model, torch.tensor([token_ids]), self._cache)
            self.seconds = trace.now_s()
        return self._cache.fork()


@dataclass(frozen=True, slots=True)
class Long:
    """A case with what is shown of its document.

    Attributes:
        passages: What the target reads, in the order of the document.
        index_s: What it took to index them.
    """

    case: LongCase
    passages: tuple[Passage, ...]
    index: Index
    index_s: float

    @classmethod
    def open(
        cls,
        case: LongCase,
        tokenizer: Tokenizer,
        config: Config,
        max_prompt_tokens: int,
        embedder: Embedder | None,
    ) -> Long:
        """Cut the document to its room, chunk and index it; by words without an embedder.

        Raises:
            ContextOverflow: There is no room.
        """
        passages = fitting_passages(case, tokenizer, config.passages, max_prompt_tokens)
        trace = Trace("index")
        index = VectorIndex(passages, embedder) if embedder and passages else WordIndex(passages)
        return cls(case, tuple(passages), index, trace.now_s())


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a document that the drafter reads.

    Attributes:
        own: The drafter's prompt.
        copied: Token ids of the passages, best first.
        selected: Their places.
        similarities: Of what was searched for and every passage of the document.
        retrieval_s: What finding them took.
    """

    own: Prompt
    copied: tuple[tuple[int, ...], ...]
    selected: Selected
    similarities: Sequence[float]
    retrieval_s: float


@dataclass(frozen=True, slots=True)
class Asked:
    """What is read for one question.

    Attributes:
        prompt: The target's.
        part: What the drafter reads.
        trust: How much the retrieval is to be trusted, see ``transfer.trust``.
        refreshed: From a sentence of the answer to what the drafter reads for both.
    """

    turn: Turn
    prompt: Prompt
    part: Part
    trust: float
    refreshed: Callable[[str], Part]

    @property
    def own(self) -> Prompt:
        """Return the drafter's prompt."""
        return self.part.own


def ask(
    long: Long,
    number: int,
    tokenizer: Tokenizer,
    config: Config,
    max_prompt_tokens: int,
    *,
    other: Long | None = None,
) -> Asked:
    """Return what is read for a turn, behind the right answers to those before.

    Args:
        long: The case.
        number: Of the turn.
        tokenizer: Of target and drafter.
        config: Its section ``tokens`` says how much the drafter reads.
        max_prompt_tokens: Of both.
        other: A case from whose document the drafter reads, what is found there for that one's own
            question: the stress test of [Chen25].

    Raises:
        ContextOverflow: The question does not fit.
    """
    turn, shown = long.case.turns[number], other or long
    exchanges = _exchanges(long.case.turns[:number], tokenizer)
    prompt, whole = (
        build_dialogue(tokenizer, turn.prompt, some, exchanges, max_tokens=max_prompt_tokens).prompt
        for some in (long.passages, shown.passages)
    )

    def part(query: str) -> Part:
        trace = Trace("retrieve")
        similarities = shown.index.similarities(query)
        selected = _selected(similarities, whole, config)
        retrieval_s = trace.now_s()
        copied = tuple(whole.token_ids[slice(*whole.spans[n])] for n in selected.best_first)
        passages = [whole.passages[place] for place in selected.places]
        own = build_dialogue(
            tokenizer, turn.prompt, passages, exchanges, max_tokens=max_prompt_tokens
        ).prompt
        return Part(own, copied, selected, similarities, retrieval_s)

    query = turn.question if other is None else other.case.turns[-1].question
    first = part(query)
    similarities = first.similarities
    if other is not None:
        similarities = shown.index.similarities(turn.question)
    trusted = trust(similarities, first.selected)
    return Asked(turn, prompt, first, trusted, lambda sentence: part(f"{query} {sentence}"))


def _selected(ranking: Sequence[float], prompt: Prompt, config: Config) -> Selected:
    tokens = config.tokens
    sizes = [stop - start for start, stop in prompt.spans]
    budget = budget_tokens(sum(sizes), tokens.context_tokens, tokens.context_share)
    return select(
        ranking[: len(sizes)],
        sizes,
        min_similarity=tokens.context_min_similarity,
        max_tokens=budget,
    )


def _exchanges(turns: Sequence[Turn], tokenizer: Tokenizer) -> list[Exchange]:
    return [
        Exchange(turn.prompt, tuple(tokenizer.encode(" ".join(turn.golds[:1])))) for turn in turns
    ]
