"""One ranking out of several; knows no index.

    score(x) = weight(kind of x) · rarity(heading of x) · Σ_lists vote(x)
    vote(x)  = (standout(x) + 0.01) / (rrf_k + rank(x))
    standout(x) = (s(x) − s(last)) / s(first)

s: a list's own scores, best first, negative ones taken as 0; rank: from 1. A passage that is not in
a list has no vote there; the only one of a list stands out by 1.

A list counts as far as its first ``num_candidates`` ranks, however long it is: s(last) is the score
of the last of these. What stands behind them in every list follows, by its best rank. So hits that
are asked for beyond that number move none of those before them.

This is reciprocal rank fusion in which a list's votes count for as much as its hits stand out.
Departs from plain reciprocal rank fusion, whose votes count the same however level the scores
are: a search that tells nothing apart, such as an English embedder on a Chinese question, would
push down the right hits of the other. The 0.01 keeps the order where all scores are equal.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from readahead.config import RetrievalConfig
from readahead.retrieval.lexical import terms
from readahead.retrieval.records import Outline

Ranking = Sequence[tuple[int, float]]  # (id, score), best first

MAX_RARITY_GAIN = 0.1
_LEVEL_VOTE = 0.01


def fuse(
    rankings: Iterable[Ranking],
    outlines: Mapping[int, Outline],
    query: str,
    config: RetrievalConfig,
) -> list[tuple[int, float]]:
    """Return ids with their scores, best first, equal ones by id; ids without outline are left out.

    Rankings that go on beyond ``num_candidates`` add ids at the end, and change nothing before.

    The kind's weight multiplies the score. Departs from the recipe that this project began with,
    which multiplies the vector and normalises it afterwards, so that the weight cancels.
    """
    lists = list(rankings)
    candidates = [ranking[: config.num_candidates] for ranking in lists]
    votes = reciprocal_rank(candidates, config.rrf_k)
    headings = {id: outline.heading for id, outline in outlines.items() if id in votes}
    rarity = heading_rarity(headings, query)
    scores = {
        id: votes[id] * rarity[id] * config.kind_weights.get(outlines[id].kind, 1.0)
        for id in headings
    }
    best = sorted(scores.items(), key=lambda scored: (-scored[1], scored[0]))
    lowest = best[-1][1] if best else 0.0
    ranks = _best_ranks(lists)
    behind = sorted((ranks[id], id) for id in outlines if id in ranks and id not in scores)
    return best + [(id, lowest * config.num_candidates / rank) for rank, id in behind]


def _best_ranks(rankings: Iterable[Ranking]) -> dict[int, int]:
    ranks: dict[int, int] = {}
    for ranking in rankings:
        for rank, (id, _) in enumerate(ranking, start=1):
            ranks[id] = min(rank, ranks.get(id, rank))
    return ranks


def reciprocal_rank(rankings: Iterable[Ranking], rrf_k: int) -> dict[int, float]:
    """Return the sum of the votes for each id."""
    votes: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        if not ranking:
            continue
        first = max(0.0, ranking[0][1])
        last = max(0.0, ranking[-1][1]) if len(ranking) > 1 else 0.0
        for rank, (id, score) in enumerate(ranking, start=1):
            standout = max(0.0, score - last) / first if first else 0.0
            votes[id] += (standout + _LEVEL_VOTE) / (rrf_k + rank)
    return dict(votes)


def heading_rarity(headings: Mapping[int, tuple[str, ...]], query: str) -> dict[int, float]:
    """Return a factor for each id: how much of the query its heading says that others do not.

        rarity = 1 + 0.1 · Σ_{w in heading} r(w) / Σ_w r(w),   r(w) = log(n / n(w)) / log(n)

    w runs over the query's words; n: number of headings, n(w): those that contain w. A word of no
    heading has r = 1, one of all headings 0. Between 1 and 1.1.
    """
    words = set(terms(query))
    found = {id: words & set(terms(" ".join(heading))) for id, heading in headings.items()}
    counts = Counter(word for those in found.values() for word in those)
    log_n = math.log(max(2, len(headings)))
    r = {word: 1.0 - math.log(max(1, counts[word])) / log_n for word in words}
    total = sum(r.values()) or 1.0
    return {
        id: 1.0 + MAX_RARITY_GAIN * sum(r[word] for word in those) / total
        for id, those in found.items()
    }
