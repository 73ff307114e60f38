"""The part of a long document that the drafter reads; knows no model.

Passages that resemble the question, in the order of the document, as many as the budget holds.
[Chen25]
Departs from the source: the passages are those that the document was indexed in, which follow its
structure; and where none resembles the question enough, the best ones are read, never nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MIN_SIMILARITY = 0.3
MAX_CONTEXT_TOKENS = 4096
MAX_CONTEXT_SHARE = 0.25
MIN_CONTEXT_SHARE = 1 / 24


@dataclass(frozen=True, slots=True)
class Selected:
    """Which passages the drafter reads.

    Attributes:
        places: Their places in the document, in its order.
        best_first: The same, the most similar first.
        num_tokens: Of all of them.
        is_fallback: Whether none was as similar as asked for.
    """

    places: tuple[int, ...]
    best_first: tuple[int, ...]
    num_tokens: int
    is_fallback: bool = False


def budget_tokens(
    document_tokens: int, max_tokens: int = MAX_CONTEXT_TOKENS, share: float = MAX_CONTEXT_SHARE
) -> int:
    """Return how many tokens of a document of L the drafter may read.

        max(min(C, σ · L), L / 24)

    C: ``max_tokens``; σ: ``share``, so that the drafter's context stays short beside the target's.
    """
    return max(
        1, int(max(min(max_tokens, share * document_tokens), MIN_CONTEXT_SHARE * document_tokens))
    )


def select(
    similarities: Sequence[float],
    sizes: Sequence[int],
    *,
    min_similarity: float = MIN_SIMILARITY,
    max_tokens: int,
) -> Selected:
    """Return which passages are read, at least one where there is one.

    Args:
        similarities: Of the question and each passage of the document, in its order.
        sizes: How many tokens each takes.
        min_similarity: Of those that count.
        max_tokens: Of all; the best passage is read even if it alone takes more.
    """
    ranked = sorted(range(len(sizes)), key=lambda place: (-similarities[place], place))
    similar = [place for place in ranked if similarities[place] >= min_similarity]
    chosen: list[int] = []
    num_tokens = 0
    for place in similar or ranked:
        if chosen and num_tokens + sizes[place] > max_tokens:
            continue
        chosen.append(place)
        num_tokens += sizes[place]
    return Selected(tuple(sorted(chosen)), tuple(chosen), num_tokens, not similar and bool(ranked))


def by_rank(found: Sequence[int], num: int) -> list[float]:
    """Return similarities of ``num`` passages where words alone tell their order.

    Whatever was found counts as similar: 1 for the best, more than ½ for the last; 0 for the rest.

    Args:
        found: Places of the passages that were found, the best first.
        num: How many passages there are.
    """
    similarities = [0.0] * num
    for rank, place in enumerate(found):
        similarities[place] = 1 - rank / (2 * num)
    return similarities
