"""A made-up document, read once by target and drafter: times steps behind it and ways to decode."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import torch

from readahead.config import TokensConfig
from readahead.errors import ContextOverflow
from readahead.evaluation.needles import make_needles
from readahead.evidence.terms import read_terms
from readahead.lm.base import Cache, CachedModel
from readahead.lm.batch import prefill
from readahead.lm.generate import Piece, stream
from readahead.lm.model import TransformersModel
from readahead.lm.prompt import build_prompt
from readahead.lm.reuse import Reading
from readahead.lm.sample import SamplingParams
from readahead.speculation.tokens import decode
from readahead.speculation.tokens.advise import Costs
from readahead.speculation.tokens.base import MAX_DRAFT_TOKENS, Pacer
from readahead.speculation.tokens.context import budget_tokens, select
from readahead.speculation.tokens.drafters import DrafterKind, ModelDrafter, make_drafter
from readahead.speculation.tokens.lookup import LookupDrafter, Sources
from readahead.speculation.tokens.tally import Tally
from readahead.trace import Trace
from readahead.types import Passage

Way = DrafterKind | Literal["plain"]
PLAIN: Literal["plain"] = "plain"
STEP_TOKENS = (1, 2, 5, 9, MAX_DRAFT_TOKENS + 1)
NUM_STEPS = 5  # timed of each kind, behind one to warm up
NUM_NEEDLES = 4
DETAIL = "? Write one sentence for each of them, in the words of the document."


@dataclass(frozen=True, slots=True)
class Task:
    """What is decoded.

    Attributes:
        prompt_ids: The whole document and the question.
        drafter_ids: The best part of it and the question.
        texts: What can be copied from, best first.
    """

    prompt_ids: tuple[int, ...]
    drafter_ids: tuple[int, ...]
    texts: tuple[tuple[int, ...], ...]


def make_task(
    target: CachedModel,
    drafter: CachedModel,
    config: TokensConfig,
    *,
    num_tokens: int,
    max_new_tokens: int,
    seed: int,
) -> Task:
    """Return a task over a made-up document of ``num_tokens`` tokens that holds its answer.

    Raises:
        ContextOverflow: The target cannot read it.
        InputError: The document is too short for what it must hold.
    """
    case = make_needles(num_tokens, target.tokenizer, seed, kind="valued", num_needles=NUM_NEEDLES)
    question = case.turns[0].question.split("?")[0] + DETAIL
    passages = [
        Passage("", match[0], *match.span()) for match in re.finditer(r"\S.*", case.document)
    ]
    prompt = build_prompt(target.tokenizer, question, passages, max_tokens=10**9)
    room = target.max_context_tokens - max_new_tokens - max(STEP_TOKENS)
    if len(prompt.token_ids) > room:
        raise ContextOverflow(
            f"A context of {num_tokens} tokens makes a prompt of {len(prompt.token_ids)}; the "
            f"target reads {room} beside the answer.",
            remedy="Give a smaller --context.",
        )
    sizes = [stop - start for start, stop in prompt.spans]
    asked = read_terms(question).content
    selected = select(
        [len(asked & read_terms(passage.text).content) / len(asked) for passage in passages],
        sizes,
        min_similarity=config.context_min_similarity,
        max_tokens=budget_tokens(sum(sizes), config.context_tokens, config.context_share),
    )
    room = drafter.max_context_tokens - max_new_tokens - max(STEP_TOKENS)
    best = [passages[place] for place in selected.places]
    own = build_prompt(drafter.tokenizer, question, best, max_tokens=room)
    texts = [prompt.token_ids[slice(*prompt.spans[place])] for place in selected.best_first]
    document = prompt.token_ids[prompt.spans[0][0] : prompt.spans[-1][1]]
    return Task(prompt.token_ids, own.token_ids, (*texts, document))


@dataclass(slots=True)
class Run:
    """What one way to decode came to.

    Attributes:
        token_s: Seconds for each token behind the first piece.
    """

    token_ids: list[int]
    token_s: float
    tally: Tally


class Course:
    """One task, read once by both models."""

    def __init__(
        self, target: TransformersModel, drafter: TransformersModel, task: Task, max_new_tokens: int
    ) -> None:
        self._target, self._drafter, self._task = target, drafter, task
        self._params = SamplingParams(max_new_tokens=max_new_tokens)
        self._clock = Trace("advise")
        self._cache = _read(target, task.prompt_ids)
        self._own_cache = _read(drafter, task.drafter_ids)

    def costs(self) -> Costs:
        """Return the medians of steps that are taken back; both models take turns."""
        times: dict[int, list[float]] = defaultdict(list)
        for _ in range(NUM_STEPS + 1):
            times[0].append(self._step_s(self._drafter, self._own_cache, 1))
            for k in STEP_TOKENS:
                times[k].append(self._step_s(self._target, self._cache, k))
        medians = {k: median(seconds[1:]) for k, seconds in times.items()}
        return Costs({k: medians[k] for k in STEP_TOKENS}, medians[0])

    def _step_s(self, model: CachedModel, cache: Cache, num_tokens: int) -> float:
        known = cache.length
        ids = torch.tensor([self._task.drafter_ids[:num_tokens]])
        begun_s = self._clock.now_s()
        logits = model.forward(ids, cache, num_logits=num_tokens)
        float(logits[0, -1, 0])  # a GPU is done only now
        seconds = self._clock.now_s() - begun_s
        cache.crop(known)
        return seconds

    def run(self, way: Way, pacer: Pacer) -> Run:
        """Decode once, counting the time behind the first token."""
        tally = Tally()
        pieces = self._pieces(way, pacer, tally)
        ids = list(next(pieces).token_ids)
        begun_s, num_first = self._clock.now_s(), len(ids)
        for piece in pieces:
            ids += piece.token_ids
        seconds = self._clock.now_s() - begun_s
        return Run(ids, seconds / max(1, len(ids) - num_first), tally)

    def _pieces(self, way: Way, pacer: Pacer, tally: Tally) -> Iterator[Piece]:
        prompt_ids, cache = self._task.prompt_ids, self._cache.fork()
        if way == PLAIN:
            return stream(self._target, prompt_ids, self._params, cache=cache)
        model = None if way == "lookup" else self._model_drafter()
        drafter = make_drafter(way, LookupDrafter(Sources(self._task.texts)), model)
        return decode.stream(
            self._target, prompt_ids, self._params, drafter, pacer=pacer, cache=cache, tally=tally
        )

    def _model_drafter(self) -> ModelDrafter:
        return ModelDrafter(
            self._drafter,
            self._task.drafter_ids,
            vocabulary_size=self._target.vocabulary_size,
            on=Reading(self._own_cache.fork(), self._task.drafter_ids[:-1]),
        )


def _read(model: CachedModel, prompt_ids: Sequence[int]) -> Cache:
    """Return a cache that holds all of a prompt but its last token."""
    cache = model.new_cache()
    prefill(model, torch.tensor([prompt_ids[:-1]]), cache)
    cache.record_past()
    return cache
