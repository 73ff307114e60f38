"""Reading a prompt on top of what the prefix tree holds of it; knows no retrieval.

*Exact* in float32: a cache that was filled from the tree gives the logits of a cold prefill up to
rounding, and the same greedy tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from readahead.lm.base import Cache, CachedModel, Cancelled, never
from readahead.lm.prefixtree import PrefixTree, load, num_shared, root_key
from readahead.lm.prompt import Part, first_tokens, joined
from readahead.trace import Trace


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


class PrefixReader:
    """A model that remembers in a tree what it has read."""

    def __init__(self, model: CachedModel, tree: PrefixTree, *, tenant: str = "") -> None:
        self.model = model
        self.tree = tree
        self._tenant = tenant

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
            trace: Gets a ``reuse`` span and the counter ``reused_tokens``.
        """
        trace = trace or Trace("open")
        token_ids = joined(parts)
        with trace.span("reuse") as span, self.tree.match(token_ids, self._root()) as match:
            usable = _num_usable(on, token_ids)
            if on is not None and 0 < usable >= match.length:
                cache = on.cache
                cache.crop(usable)
            else:
                cache = self.model.new_cache()
                load(match, cache)
            span.attributes["num_reused_tokens"] = cache.length
        trace.count("reused_tokens", cache.length)
        return Reading(cache, token_ids[: cache.length], num_reused_tokens=cache.length)

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
            trace: Gets a ``reuse`` and a ``prefill`` span and the counters of tokens.

        Raises:
            BackendError: The device ran out of memory.
        """
        trace = trace or Trace("read")
        reading = self.open(parts, on, trace=trace)
        token_ids, known = joined(parts), reading.cache.length
        unread = torch.tensor([token_ids[known:]], dtype=torch.long)  # (1, T)
        with trace.span("prefill", num_cached_tokens=known) as span:
            for step in unread.split(step_tokens or self.model.prefill_step_tokens, dim=1):
                if not step.numel() or cancelled():
                    break
                self.model.forward(step, reading.cache)
            span.attributes["num_tokens"] = num_computed = reading.cache.length - known
        trace.count("computed_tokens", num_computed)
        reading.token_ids = token_ids[: reading.cache.length]
        reading.num_computed_tokens = num_computed
        self.keep(parts[:num_kept], reading, span.duration_s / max(1, num_computed))
        return reading

    def keep(self, parts: Sequence[Part], reading: Reading, cost_s_per_token: float = 0.0) -> None:
        """Keep in the tree what ``reading`` holds of ``parts``.

        Args:
            parts: The first parts of what was read.
            reading: May hold more, or only some of it.
            cost_s_per_token: What reading one token took.
        """
        held = first_tokens(parts, reading.cache.length)
        self.tree.insert(held, reading.cache, self._root(), cost_s_per_token=cost_s_per_token)

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
