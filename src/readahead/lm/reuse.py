"""Reading a prompt on top of what the prefix tree holds of it; knows no retrieval.

*Exact* in float32: a cache that was filled from the tree gives the logits of a cold prefill up to
rounding, and the same greedy tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import torch

from readahead.lm.base import Cache, CachedModel, Cancelled, never
from readahead.lm.prefixtree import PrefixTree, load, root_key
from readahead.lm.prompt import Part
from readahead.trace import Trace


@dataclass(frozen=True, slots=True)
class Reading:
    """What became of a prompt that was to be read.

    Attributes:
        cache: Holds the parts, or the first ``cache.length`` tokens of them if cancelled.
        num_reused_tokens: How many came from the tree.
        num_computed_tokens: How many the model read.
        refusal: Why the model's cache cannot be kept; "" where it can.
    """

    cache: Cache
    num_reused_tokens: int
    num_computed_tokens: int
    refusal: str = ""


class PrefixReader:
    """A model that remembers in a tree what it has read."""

    def __init__(self, model: CachedModel, tree: PrefixTree, *, tenant: str = "") -> None:
        self.model = model
        self.tree = tree
        self._tenant = tenant

    def num_known(self, parts: Sequence[Part]) -> int:
        """Return how many first tokens of ``parts`` need not be read."""
        with self.tree.match(joined(parts), self._root()) as match:
            return match.length

    def read(
        self,
        parts: Sequence[Part],
        *,
        step_tokens: int | None = None,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> Reading:
        """Return a cache that holds ``parts``; what was new of them is kept in the tree.

        Args:
            parts: The beginning of a prompt.
            step_tokens: How many are read between two looks at ``cancelled``.
            cancelled: True ends the reading; what was read so far is kept.
            trace: Gets a ``prefill`` span and the counters of tokens.

        Raises:
            BackendError: The device ran out of memory.
        """
        trace = trace or Trace("read")
        step = step_tokens or self.model.prefill_step_tokens
        token_ids, root = joined(parts), self._root()
        cache = self.model.new_cache()
        with trace.span("reuse") as span, self.tree.match(token_ids, root) as match:
            load(match, cache)
            span.attributes["num_reused_tokens"] = num_reused = cache.length
        with trace.span("prefill", num_cached_tokens=num_reused) as span:
            steps = torch.tensor([token_ids[num_reused:]]).split(step, dim=1)  # (1, T) each
            for ids in steps if num_reused < len(token_ids) else ():
                if cancelled():
                    break
                self.model.forward(ids, cache)
            num_computed = cache.length - num_reused
            span.attributes["num_tokens"] = num_computed
        cost_s = span.duration_s / num_computed if num_computed else 0.0
        self.tree.insert(list(_as_far(parts, cache.length)), cache, root, cost_s_per_token=cost_s)
        trace.count("reused_tokens", num_reused)
        trace.count("computed_tokens", num_computed)
        return Reading(cache, num_reused, num_computed, cache.refusal)

    def _root(self) -> bytes:
        """Return the key of the tree's root; asked anew, for the weights may have changed."""
        return root_key(self.model.fingerprint, self._tenant)


def joined(parts: Sequence[Part]) -> tuple[int, ...]:
    """Return the token ids of ``parts``."""
    return tuple(chain.from_iterable(part.token_ids for part in parts))


def _as_far(parts: Sequence[Part], length: int) -> Iterator[Part]:
    """Yield the first ``length`` tokens of ``parts``; the last part may come shortened."""
    for part in parts:
        if length <= 0:
            return
        yield part if len(part.token_ids) <= length else Part(part.token_ids[:length], part.label)
        length -= len(part.token_ids)
