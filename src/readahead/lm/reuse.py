"""Reading a prompt on top of what the prefix tree holds of it; knows no retrieval.

*Exact* in float32: a cache that was filled from the tree gives the logits of a cold prefill up to
rounding, and the same greedy tokens. If the tree packs what is cold, a reading says whether it is.

``begin`` may be told to blend what was read elsewhere: *approximate*, and never kept.

Where memory is short, what cannot change an answer comes first: the tree gives back what it holds
(packed, to disk, gone), then what is read is not kept, then all is read again without the tree.
Fewer or shorter passages change the answer, so they are decided before, by ``readable_tokens`` and
``fit_passages``, in the same way for a prompt that nothing was read ahead of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

import torch

from readahead.errors import BackendError
from readahead.lm.base import Cache, CachedModel, Cancelled, never
from readahead.lm.memory import RESERVE_BYTES, is_out_of_memory, reading_bytes
from readahead.lm.node import num_shared
from readahead.lm.prefixtree import Match, PrefixTree, load, root_key
from readahead.lm.prompt import Part, first_tokens, joined
from readahead.trace import Trace

if TYPE_CHECKING:
    from readahead.lm.blend import Blender


@dataclass(slots=True)
class Reading:
    """A cache of one sequence, and the tokens that it holds.

    Attributes:
        token_ids: What ``cache`` holds, from its first position.
        num_reused_tokens: How many of them were known when the reading began.
        num_computed_tokens: How many the model read for it.
    """

    cache: Cache
    token_ids: tuple[int, ...] = ()
    num_reused_tokens: int = 0
    num_computed_tokens: int = 0

    @property
    def refusal(self) -> str:
        """Return why nothing of the cache can be kept, "" if it can."""
        return self.cache.refusal

    @property
    def is_exact(self) -> bool:
        """Return whether the cache holds what the model computes from the tokens alone."""
        return self.cache.is_exact


class PrefixReader:
    """A model that remembers in a tree what it has read.

    Args:
        model: What reads.
        tree: What remembers; may be shared.
        tenant: See ``root_key``.
        reserve_bytes: Memory that is left free.
        blend_share: Of the tokens that ``begin`` takes from elsewhere, computed anew; 0 takes none.
        stale_test: Gives what tells, by a part's label, that it must not be kept any more.
    """

    def __init__(
        self,
        model: CachedModel,
        tree: PrefixTree,
        *,
        tenant: str = "",
        reserve_bytes: int = RESERVE_BYTES,
        blend_share: float = 0.0,
        stale_test: Callable[[], Callable[[str], bool]] = lambda: lambda label: False,
    ) -> None:
        self.model = model
        self.tree = tree
        self._blender: Blender | None = None
        if blend_share:
            from readahead.lm.blend import Blender

            self._blender = Blender(model, tree, share=blend_share)
        self._tenant = tenant
        self._reserve_bytes = reserve_bytes
        self._stale_test = stale_test

    @cached_property
    def bytes_per_token(self) -> int:
        """Return what keys and values of a token take; measured once, by reading two tokens."""
        cache = self.model.new_cache()
        token = torch.zeros(1, 1, dtype=torch.long)
        self.model.forward(token, cache)
        before = cache.num_bytes
        self.model.forward(token, cache)
        return cache.num_bytes - before

    def num_known(self, parts: Sequence[Part], on: Reading | None = None) -> int:
        """Return how many first tokens of ``parts`` need not be read."""
        token_ids = joined(parts)
        with self.tree.match(token_ids, self._root()) as match:
            return max(match.length, _num_usable(on, token_ids))

    def open(
        self, parts: Sequence[Part], on: Reading | None = None, *, trace: Trace | None = None
    ) -> Reading:
        """Return a cache that holds what is known of ``parts``, and computes nothing.

        Args:
            parts: The beginning of a prompt.
            on: An earlier reading; its cache is taken over and cropped if it knows at least as much
                as the tree, and is left as it is otherwise.
            trace: Gets a ``reuse`` span, with what the tree did to make room, and the counter
                ``reused_tokens``.
        """
        trace = trace or Trace("open")
        token_ids, before = joined(parts), self.tree.steps
        with trace.span("reuse") as span, self.tree.match(token_ids, self._root()) as match:
            usable = _num_usable(on, token_ids)
            if on is not None and 0 < usable >= match.length:
                cache = on.cache
                cache.crop(usable)
                self._make_room(len(token_ids) - usable, cache)
            else:
                cache = self._loaded(match, len(token_ids))
            span.attributes |= {"num_reused_tokens": cache.length, **(self.tree.steps - before)}
            if not cache.is_exact:
                span.attributes["is_exact"] = False
        trace.count("reused_tokens", cache.length)
        return Reading(cache, token_ids[: cache.length], num_reused_tokens=cache.length)

    def begin(
        self,
        parts: Sequence[Part],
        on: Reading | None = None,
        *,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> Reading:
        """Return what an answer begins on: ``open``, or if so set and cheaper, all of ``parts``.

        The latter is *approximate*; see ``Blender``.

        Args:
            parts: The beginning of a prompt, up to a part of its question.
            on: See ``open``.
            cancelled: True ends the blending, and what is known remains.
            trace: See ``open``; gets a ``blend`` span, too, which says what was done, or why not.
        """
        trace = trace or Trace("begin")
        reading = self.open(parts, on, trace=trace)
        if self._blender is not None:
            plan = self._blender.extend(
                parts, reading.cache, self._root(), cancelled=cancelled, trace=trace
            )
            if plan is not None:
                trace.count("reused_tokens", plan.num_kept)
                reading.token_ids = plan.token_ids
                reading.num_reused_tokens += plan.num_kept
                reading.num_computed_tokens = plan.num_computed
        return reading

    def read(
        self,
        parts: Sequence[Part],
        on: Reading | None = None,
        *,
        num_kept: int | None = None,
        step_tokens: int | None = None,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> Reading:
        """Return a cache that holds ``parts``; what was new of them is kept in the tree.

        Args:
            parts: The beginning of a prompt.
            on: See ``open``.
            num_kept: How many of the first parts are kept in the tree; None keeps all.
            step_tokens: How many are read between two looks at ``cancelled``.
            cancelled: True ends the reading; what was read so far is kept.
            trace: Gets a ``reuse`` and a ``prefill`` span and the counters of tokens. The former
                says what the tree did to make room, and why not all was kept if it was not.

        Raises:
            BackendError: The device ran out of memory, even without the tree.
        """
        trace = trace or Trace("read")
        token_ids, before = joined(parts), self.tree.steps
        step = step_tokens or self.model.prefill_step_tokens
        reading = self.open(parts, on, trace=trace)
        span = trace.spans[-1]
        cost_s: float | None = None
        try:
            cost_s = self._prefill(token_ids, reading, step, cancelled, trace)
        except BackendError:
            if not self.tree.shrink(self.tree.num_bytes):
                raise
        if cost_s is None:  # outside of the handler, which holds on to what the step had made
            trace.count("reused_tokens", -reading.num_reused_tokens)
            reading = Reading(self.model.new_cache())
            self._prefill(token_ids, reading, step, cancelled, trace)
            not_kept = "memory ran out, so all was read again"
        else:
            not_kept = self.keep(parts[:num_kept], reading, cost_s)
        span.attributes |= self.tree.steps - before
        if not_kept:
            span.attributes |= {"kept": False, "reason": not_kept}
        return reading

    def keep(self, parts: Sequence[Part], reading: Reading, cost_s_per_token: float = 0.0) -> str:
        """Keep in the tree what ``reading`` holds of ``parts``.

        Args:
            parts: The first parts of what was read.
            reading: May hold more, or only some of it.
            cost_s_per_token: What reading one token took.

        Returns:
            Why not all was kept; "" if it was.
        """
        cache = reading.cache
        if cache.is_blended:
            return "it holds what was computed behind other tokens"
        if cache.refusal:
            return cache.refusal
        held = first_tokens(parts, cache.length)
        is_stale = self._stale_test()
        fresh = list(takewhile(lambda part: not is_stale(part.label), held))
        if len(fresh) < len(held):
            held, gone = fresh, f"{held[len(fresh)].label} was dropped while it was read"
        else:
            gone = ""
        num_tokens = len(joined(held))
        if lacking := self._make_room(num_tokens - reading.num_reused_tokens, cache):
            return f"memory is short of {lacking} bytes"
        try:
            num_kept = self.tree.insert(
                held, cache, self._root(), cost_s_per_token=cost_s_per_token
            )
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return "memory ran out"
        full = f"the budget of {self.tree.budget_bytes} bytes is used up"
        return gone if num_kept == num_tokens else full

    def _prefill(
        self,
        token_ids: tuple[int, ...],
        reading: Reading,
        step_tokens: int,
        cancelled: Cancelled,
        trace: Trace,
    ) -> float:
        """Read what ``reading`` does not hold of ``token_ids``; return the seconds per token."""
        cache = reading.cache
        known = cache.length
        unread = torch.tensor([token_ids[known:]], dtype=torch.long)  # (1, T)
        with trace.span("prefill", num_cached_tokens=known) as span:
            for step in unread.split(step_tokens, dim=1):
                if not step.numel() or cancelled():
                    break
                self.model.forward(step, cache)
            span.attributes["num_tokens"] = num_computed = cache.length - known
        trace.count("computed_tokens", num_computed)
        reading.token_ids = token_ids[: cache.length]
        reading.num_computed_tokens = num_computed
        return span.duration_s / max(1, num_computed)

    def _loaded(self, match: Match, num_tokens: int) -> Cache:
        """Return a cache with what ``match`` holds, empty if there is no memory for it."""
        cache = self.model.new_cache()
        self._make_room(num_tokens, cache)
        try:
            load(match, cache)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return self.model.new_cache()
        return cache

    def _make_room(self, num_tokens: int, cache: Cache) -> int:
        """Have the tree give back the memory for ``num_tokens``; return how much is lacking still.

        What is cold is of less use than what is being read.
        """
        if num_tokens <= 0:
            return 0
        needed = reading_bytes(num_tokens, self.bytes_per_token) + self._reserve_bytes
        lacking = needed - cache.free_bytes
        return 0 if lacking <= 0 else max(0, lacking - self.tree.shrink(lacking))

    def _root(self) -> bytes:
        """Return the key of the tree's root; asked anew, for the weights may have changed."""
        return root_key(self.model.fingerprint, self._tenant)


def _num_usable(on: Reading | None, token_ids: tuple[int, ...]) -> int:
    """Return how many first tokens of ``token_ids`` the cache of ``on`` can give."""
    if on is None:
        return 0
    shared = num_shared(on.token_ids, token_ids)
    # Such a cache cannot go back: it is usable only as it is.
    return 0 if shared < on.cache.length and on.refusal else shared
