"""The order in which passages are shown, so that most of what was read can be used.

Knows no cache: how much of an order is known is asked of the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from readahead.config import PrefetchConfig
from readahead.types import Hit, Passage

Known = Callable[[Sequence[Passage]], tuple[int, int]]
"""How many of an order's tokens are known, from the first on, and how many there are."""


def order_passages(
    hits: Sequence[Hit], k: int, config: PrefetchConfig, known: Known
) -> list[Passage]:
    """Return at most ``k`` passages of ``hits`` in the order in which to show them.

    *Exact*, given the order: the policy decides what may differ from the plain path.

    - ``exact-order``: nothing; the ``k`` best, best first.
    - ``same-set``: their order. They come along the longest known path, then by rank.
    - ``relaxed``: the set, too. A passage among the ``relaxed_k`` best that lies on the path takes
      the place of one of the ``k`` best, but never of the very best.

    Args:
        hits: Best first.
        k: How many the model is shown.
        config: Names the policy.
        known: Asked for orders that may be shown.
    """
    ranked = [hit.passage for hit in hits]
    best = ranked[:k]
    if config.policy == "exact-order" or not best:
        return best
    pool = ranked[: max(k, config.relaxed_k)] if config.policy == "relaxed" else best
    path, _ = _longest([], known([])[1], pool, k, known)
    return path + [passage for passage in best if passage not in path][: k - len(path)]


def _longest(
    path: list[Passage], num_path_tokens: int, pool: Sequence[Passage], k: int, known: Known
) -> tuple[list[Passage], int]:
    """Return the path from ``path`` on that is known furthest, and how far; equal ones by rank."""
    best = (path, 0)
    for passage in pool:
        longer = [*path, passage]
        # The last place is kept for the very best passage, which is always shown.
        if passage in path or len(longer) > k or (len(longer) == k and pool[0] not in longer):
            continue
        num_known, num_tokens = known(longer)
        if num_known == num_tokens:
            found = _longest(longer, num_tokens, pool, k, known)
            found = (found[0], max(found[1], num_known))
        elif 2 * (num_tokens - num_known) <= num_tokens - num_path_tokens:
            found = (longer, num_known)  # reading it was interrupted beyond its half
        else:
            continue
        if found[1] > best[1]:
            best = found
    return best
