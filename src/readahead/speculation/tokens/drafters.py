"""Drafters that are models: one on its own, and one that lets copied tokens go first.

The model reads a short prompt of its own, the retrieved part of what the target reads, and then the
same answer. It may be smaller than the target, the same weights over less text, or larger.
[Leviathan23; Chen25]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from readahead.errors import BackendError, ContextOverflow, VocabularyMismatch
from readahead.lm.base import Cache, CachedModel, Cancelled, never
from readahead.lm.batch import prefill
from readahead.lm.node import num_shared
from readahead.lm.reuse import Reading
from readahead.lm.sample import SamplingParams, distribution, draw
from readahead.speculation.tokens.base import Drafter, Kind, Pacer, Proposal
from readahead.speculation.tokens.lookup import Copied, LookupDrafter, no_distribution
from readahead.trace import Trace

DrafterKind = Literal["lookup", "rag", "hybrid"]
"""Tokens are copied, or a model drafts them that reads what was retrieved, or either."""

UNKNOWN = Kind("model", 0)
# What the drafter gives its own token at least, for levels 2, 3, …; below all of them is 1.
_CONFIDENCE = (0.3, 0.5, 0.7, 0.9, 0.98)
_SEED_OFFSET = 0x5EED  # draft tokens are drawn independently of the coins that judge them


def check_vocabularies(target: CachedModel, drafter: CachedModel) -> None:
    """Raise VocabularyMismatch unless every token id means the same to both models.

    More logits than tokens, as some models have for padding, are no difference.
    """
    if target is drafter or target.tokenizer.has_same_tokens(drafter.tokenizer):
        return
    raise VocabularyMismatch(
        f"The drafter has {drafter.tokenizer.num_tokens} tokens of its own, the target "
        f"{target.tokenizer.num_tokens}; draft tokens must mean the same to both.",
        remedy="Take a drafter of the target's family, or the drafter lookup, which has no model.",
    )


@dataclass(frozen=True, slots=True)
class Drawn:
    """One draft token.

    Attributes:
        q: What it was drawn from, (V,).
        soft: The same at temperature 1 where that is 0, else the same tensor.
        kind: By how certain the model was.
    """

    token_id: int
    q: Tensor
    soft: Tensor
    kind: Kind


class ModelDrafter:
    """Drafts with a model that reads a prompt of its own.

    Args:
        model: Has the target's tokens; may be the target itself.
        prompt_ids: What it reads in place of the target's prompt; None: the same.
        vocabulary_size: V of the target.
        on: What it read for an answer before; its cache is taken over, and what of it is the
            beginning of the prompt is not read again.
    """

    def __init__(
        self,
        model: CachedModel,
        prompt_ids: Sequence[int] | None = None,
        *,
        vocabulary_size: int,
        on: Reading | None = None,
    ) -> None:
        self._model = model
        self._own_ids = None if prompt_ids is None else tuple(prompt_ids)
        self._vocabulary_size = vocabulary_size
        self._cache: Cache = model.new_cache() if on is None else on.cache
        self._read_ids = [] if on is None else list(on.token_ids)
        self._params = SamplingParams()

    @property
    def reading(self) -> Reading:
        """Return what it has read so far, for an answer after this one."""
        return Reading(self._cache, tuple(self._read_ids[: self._cache.length]))

    def begin(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> None:
        """Read all of the drafter's prompt but the last token, which the first draft needs.

        Raises:
            BackendError: The model has recurrent layers, which take nothing back.
        """
        self._trace = trace or Trace("draft")
        self._params = params
        self._soft_params = replace(params, temperature=params.temperature or 1.0)
        self._generator = torch.Generator().manual_seed((params.seed + _SEED_OFFSET) % 2**63)
        self._target_ids = tuple(prompt_ids)
        own_ids = self._target_ids if self._own_ids is None else self._own_ids
        self.read_instead(own_ids, cancelled=cancelled)

    def read_instead(self, prompt_ids: Sequence[int], *, cancelled: Cancelled = never) -> None:
        """Read another prompt in place of the drafter's own, in the midst of an answer, too.

        What both begin with is not read again.
        """
        self._prompt_ids = prompt_ids = tuple(prompt_ids)
        read_ids = tuple(self._read_ids[: self._cache.length])
        known = min(num_shared(read_ids, prompt_ids), len(prompt_ids) - 1)
        if known < self._cache.length and self._cache.refusal:
            self._cache, known = self._model.new_cache(), 0  # such a cache cannot go back far
        self._cache.crop(known)
        fits = self.can_read(())  # where it does not, nothing is drafted, so nothing is read
        unread = torch.tensor([prompt_ids[known:-1] if fits else ()], dtype=torch.long)  # (1, T)
        with self._trace.span(
            "drafter_prefill", num_tokens=unread.shape[1], num_cached_tokens=known
        ):
            if unread.numel():
                self._read(unread, cancelled)
        self._trace.count("drafter_tokens", self._cache.length - known)
        self._read_ids = list(prompt_ids[: self._cache.length])
        self._cache.record_past()

    def _read(self, unread: Tensor, cancelled: Cancelled) -> None:
        """Read ``unread`` (1, T), unless the first step shows that nothing can be taken back."""
        for step in unread.split(self._model.prefill_step_tokens, dim=1):
            if prefill(self._model, step, self._cache, cancelled=cancelled) is None:
                return
            if not self._cache.can_go_back:
                raise BackendError(
                    "The drafter keeps one state for all positions, so draft tokens that are "
                    "rejected could not be taken back.",
                    remedy="Take a drafter without recurrent layers, or the drafter lookup.",
                )

    def num_unread(self, answer_ids: Sequence[int]) -> int:
        """Return how many tokens must be read to draft what follows ``answer_ids``."""
        return len(self._prompt_ids) + len(answer_ids) - self._num_known(answer_ids)

    def can_read(self, answer_ids: Sequence[int]) -> bool:
        """Return whether the drafter's context has room for ``answer_ids``."""
        return len(self._prompt_ids) + len(answer_ids) < self._model.max_context_tokens

    def draw(self, answer_ids: Sequence[int], pacer: Pacer) -> Drawn:
        """Return a token to follow ``answer_ids``, drafts included, having read them."""
        known = self._num_known(answer_ids)
        ids = [*self._prompt_ids, *answer_ids]
        begun_s = self._trace.now_s()
        if known < self._cache.length:  # a crop of nothing drops what slid out of a window
            self._cache.crop(known)
        unread = ids[known:]
        with self._trace.step("drafter_decode"):
            row = self._model.forward(torch.tensor([unread]), self._cache)[:, -1]  # (1, V)
        row = self._fit(row)
        seen = []
        if self._params.looks_back:
            seen = [torch.tensor([*self._target_ids, *answer_ids], device=row.device)]
        own = partial(distribution, row, seen_ids=seen, num_prompt_tokens=[len(self._target_ids)])
        q = own(self._params)
        soft = q if self._params.temperature else own(self._soft_params)
        token_id = int(q.argmax() if not self._params.temperature else self._draw(q))
        self._read_ids = ids
        pacer.saw_draft_step(len(unread), self._trace.now_s() - begun_s)
        self._trace.count("drafter_tokens", len(unread))
        return Drawn(token_id, q[0], soft[0], Kind("model", _level(float(soft[0, token_id]))))

    def propose(
        self,
        new_ids: Sequence[int],
        pacer: Pacer,
        max_tokens: int,
        *,
        with_soft: bool = False,
        cancelled: Cancelled = never,
    ) -> Proposal:
        """Return the model's own continuation, as long as going on is worth it.

        A token that turns out to be unlikely is kept and verified: dropping it would bias q.
        """
        draft = _Draft(new_ids)
        while len(draft.drawn) < max_tokens and not cancelled() and self.can_read(draft.ids):
            if draft.gain_s(pacer, UNKNOWN, self.num_unread(draft.ids)) <= 0:
                break
            draft.add(self.draw(draft.ids, pacer), pacer)
        last = self._soft_last(draft, pacer) if with_soft and not cancelled() else None
        return draft.proposal(last)

    def _soft_last(self, draft: _Draft, pacer: Pacer) -> Tensor:
        if not self.can_read(draft.ids):
            raise ContextOverflow(
                f"The drafter's context of {self._model.max_context_tokens} tokens is full.",
                remedy="Use the mode 'exact', which goes on without it, or a shorter answer.",
            )
        return self.draw(draft.ids, pacer).soft

    def _draw(self, q: Tensor) -> Tensor:
        return draw(q.cpu(), [self._generator])

    def _num_known(self, answer_ids: Sequence[int]) -> int:
        """Return how many first tokens of prompt and answer are held and need not be read again."""
        num_prompt, read = len(self._prompt_ids), self._read_ids
        if len(read) < num_prompt:
            return len(read)
        pairs = zip(read[num_prompt:], answer_ids, strict=False)
        num_same = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        if num_same is None:
            num_same = min(len(read) - num_prompt, len(answer_ids))
        return min(num_prompt + num_same, num_prompt + len(answer_ids) - 1)

    def _fit(self, logits: Tensor) -> Tensor:
        """Return logits (1, V) with as many columns as the target has."""
        surplus = self._vocabulary_size - logits.shape[-1]
        if surplus <= 0:
            return logits[:, : self._vocabulary_size]
        return torch.nn.functional.pad(logits, (0, surplus), value=-float("inf"))


class HybridDrafter:
    """Copies where a match is long enough, and asks the model elsewhere.

    Before each draft token both are asked what going on with them is expected to save, and the
    better one gives it: so a model's token may lead into a passage, and the passage goes on.
    """

    def __init__(self, lookup: LookupDrafter, model: ModelDrafter) -> None:
        self._lookup = lookup
        self._model = model
        self._is_processed = False

    def begin(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> None:
        """Get both ready."""
        self._is_processed = bool(params.processors)
        self._lookup.begin(prompt_ids, params, cancelled=cancelled, trace=trace)
        self._model.begin(prompt_ids, params, cancelled=cancelled, trace=trace)

    def propose(
        self,
        new_ids: Sequence[int],
        pacer: Pacer,
        max_tokens: int,
        *,
        with_soft: bool = False,
        cancelled: Cancelled = never,
    ) -> Proposal:
        """Return draft tokens of both.

        Raises:
            ConfigError: ``with_soft``; a copied token has no distribution.
        """
        if with_soft:
            raise no_distribution()
        draft = _Draft(new_ids)
        place = self._lookup.start(new_ids)
        while len(draft.drawn) < max_tokens and not cancelled():
            copied = place.copied
            copied_s = draft.gain_s(pacer, copied.kind) if copied else 0.0
            drawn_s = 0.0
            if self._can_ask(draft):
                drawn_s = draft.gain_s(pacer, UNKNOWN, self._model.num_unread(draft.ids))
            if max(copied_s, drawn_s) <= 0:
                break
            if copied and copied_s >= drawn_s:
                draft.add(copied, pacer)
            else:
                draft.add(self._model.draw(draft.ids, pacer), pacer)
            place = place.after(draft.ids[-1])
        return draft.proposal()

    def _can_ask(self, draft: _Draft) -> bool:
        """Return whether the model may go on: not where a processor would have to, behind a copy.

        That may be a token which the processor rules out, and behind such a one it may fail.
        """
        return self._model.can_read(draft.ids) and not (self._is_processed and draft.has_copies)


def make_drafter(kind: DrafterKind, lookup: LookupDrafter, model: ModelDrafter | None) -> Drafter:
    """Return the drafter of a kind; without a model that is ``lookup``, whatever was asked for."""
    if kind == "lookup" or model is None:
        return lookup
    return model if kind == "rag" else HybridDrafter(lookup, model)


class _Draft:
    """Draft tokens as they are gathered behind the answer so far."""

    def __init__(self, new_ids: Sequence[int]) -> None:
        self.ids = list(new_ids)
        self.drawn: list[Drawn | Copied] = []
        self._survival = 1.0

    @property
    def has_copies(self) -> bool:
        return any(isinstance(token, Copied) for token in self.drawn)

    def gain_s(self, pacer: Pacer, kind: Kind, num_unread: int = 0) -> float:
        return pacer.gain_s(kind, self._survival, len(self.drawn), num_unread)

    def add(self, token: Drawn | Copied, pacer: Pacer) -> None:
        self._survival *= pacer.rate(token.kind)
        self.ids.append(token.token_id)
        self.drawn.append(token)

    def proposal(self, soft_last: Tensor | None = None) -> Proposal:
        softs = [token.soft for token in self.drawn if isinstance(token, Drawn)]
        return Proposal(
            tuple(token.token_id for token in self.drawn),
            tuple(token.q if isinstance(token, Drawn) else None for token in self.drawn),
            tuple(token.kind for token in self.drawn),
            None if soft_last is None else torch.stack([*softs, soft_last]),
        )


def _level(confidence: float) -> int:
    return 1 + sum(confidence >= bound for bound in _CONFIDENCE)
