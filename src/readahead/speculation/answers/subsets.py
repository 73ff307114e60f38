"""Which passages each draft is written from.

Drafts are worth comparing if they do not depend on the same passages, so every strategy says how
the passages of two drafts differ: in what they say, where they come from, how new or how trusted
they are. Knows no model; vectors are given to it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from types import MappingProxyType
from typing import Protocol, TypeVar

import numpy as np

from readahead.retrieval.base import Vector, Vectors
from readahead.speculation.answers.clusters import beyond_question, k_means
from readahead.speculation.answers.dates import read_date
from readahead.types import Hit

Subset = tuple[int, ...]
"""Places in the ranking, from 0, best first; never empty, none twice."""

DATE_KEYS = ("date", "published", "updated", "modified", "created", "timestamp", "year")
WEIGHT_KEYS = ("authority", "weight", "trust")
_MAX_DRAWS = 100
_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class Pool:
    """The hits to choose from.

    Attributes:
        hits: Best first.
        vectors: Of their passages, (n, dim), unit rows; None where there are none.
        question: Its vector, (dim,), of unit length.
    """

    hits: Sequence[Hit]
    vectors: Vectors | None = None
    question: Vector | None = None

    @property
    def places(self) -> range:
        """Return all places, best first."""
        return range(len(self.hits))


class Strategy(Protocol):
    """A way to make subsets."""

    def __call__(self, pool: Pool, k: int, rng: np.random.Generator) -> Iterable[Sequence[int]]:
        """Return finitely many subsets, those first that are to be drafted from first.

        Args:
            pool: Never empty.
            k: The most places of a subset, from 1 to the size of the pool.
            rng: For what is random.
        """
        ...


def choose_subsets(
    strategy: Strategy,
    hits: Sequence[Hit],
    vectors: Vectors | None = None,
    question: Vectors | None = None,
    *,
    m: int = 5,
    k: int = 2,
    seed: int = 0,
) -> list[Subset]:
    """Return at most ``m`` different subsets of at most ``k`` hits, in the strategy's order.

    There are fewer where fewer exist. The same arguments give the same subsets.

    Args:
        strategy: One of ``STRATEGIES``, or another.
        hits: Best first; the ten best are a good pool.
        vectors: Of their passages, (n, dim), unit rows; None where there are none.
        question: Its vector, (1, dim) or (dim,), of unit length.
        m: How many drafts there will be.
        k: How many passages each of them reads.
        seed: Of what is random.

    Raises:
        ValueError: There is not one vector for each hit.
    """
    if vectors is not None and len(vectors) != len(hits):
        raise ValueError(f"{len(vectors)} vectors for {len(hits)} hits")
    if not hits or m < 1 or k < 1:
        return []
    pool = Pool(hits, vectors, None if question is None else question.reshape(-1))
    found: dict[Subset, None] = {}
    for subset in strategy(pool, min(k, len(hits)), np.random.default_rng(seed)):
        found[tuple(sorted(subset))] = None
        if len(found) == m:
            break
    return list(found)


def perspectives(pool: Pool, k: int, rng: np.random.Generator) -> Iterator[Sequence[int]]:
    """Take one passage from each of ``k`` clusters of passages that say similar things.

    The first subset has the best of every cluster, the second the second best, and so on, so that
    every passage is read before any is combined anew; then come the combinations of lowest ranks.
    Speculative RAG [Wang24] clusters the vectors of an embedder that reads the question as an
    instruction, draws from each cluster at random, and never ends if too few subsets exist. Here
    any embedder will do: what a vector shares with the question is taken out of it, since all hits
    have that in common. (Appending the question to each vector would change nothing: it cancels in
    every distance.)

    Without vectors the hits are dealt to the clusters by rank, like cards.
    """
    if pool.vectors is None:
        labels = [place % k for place in pool.places]
    else:
        vectors, question = pool.vectors, pool.question
        points = vectors if question is None else beyond_question(vectors, question)
        labels = k_means(points, k, rng).tolist()
    clusters = _grouped(pool.places, labels.__getitem__)
    return chain(_side_by_side(clusters), _by_rank(clusters))


def single(pool: Pool, k: int, rng: np.random.Generator) -> Iterator[Sequence[int]]:
    """Take one passage, best first: cheap to read, and no draft can mix up two of them."""
    return _slices(pool.places, 1)


def sources(pool: Pool, k: int, rng: np.random.Generator) -> Iterator[Sequence[int]]:
    """Take passages of one document: the best ``k`` of every document, then the next ``k``."""
    documents = _grouped(pool.places, lambda place: pool.hits[place].passage.document)
    slices = [list(_slices(places, k)) for places in documents]
    turns = range(max(map(len, slices)))
    return (own[turn] for turn in turns for own in slices if turn < len(own))


def time(
    pool: Pool, k: int, rng: np.random.Generator, *, keys: Sequence[str] = DATE_KEYS
) -> Iterator[Sequence[int]]:
    """Take passages of similar age: the newest ``k``, then the next.

    The date is the first that one of ``keys`` has in the metadata; hits without one come last.
    """
    return _slices(_descending(pool, keys, _timestamp), k)


def authority(
    pool: Pool, k: int, rng: np.random.Generator, *, keys: Sequence[str] = WEIGHT_KEYS
) -> Iterator[Sequence[int]]:
    """Take passages of similar weight: the weightiest ``k``, then the next.

    The weight is the first that one of ``keys`` has in the metadata; hits without one come last.
    """
    return _slices(_descending(pool, keys, _weight), k)


def contiguous(pool: Pool, k: int, rng: np.random.Generator) -> Iterator[Sequence[int]]:
    """Take neighbours in the ranking: the best ``k``, then the next."""
    return _slices(pool.places, k)


def random(pool: Pool, k: int, rng: np.random.Generator) -> Iterator[Sequence[int]]:
    """Draw passages by chance: the control that every other strategy has to beat.

    After a hundred draws, when hardly any subset can be left, the rest comes in order.
    """
    draws = (rng.choice(len(pool.hits), k, replace=False).tolist() for _ in range(_MAX_DRAWS))
    return chain(draws, combinations(pool.places, k))


STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "perspectives": perspectives,
        "single": single,
        "sources": sources,
        "time": time,
        "authority": authority,
        "contiguous": contiguous,
        "random": random,
    }
)


def _slices(places: Sequence[int], k: int) -> Iterator[Sequence[int]]:
    """Yield ``k`` at a time; the last may be shorter."""
    return (places[start : start + k] for start in range(0, len(places), k))


def _grouped(places: Iterable[int], key: Callable[[int], _Key]) -> list[list[int]]:
    """Return the groups of equal key, that of the best place first."""
    groups: dict[_Key, list[int]] = {}
    for place in places:
        groups.setdefault(key(place), []).append(place)
    return list(groups.values())


def _descending(
    pool: Pool, keys: Sequence[str], read: Callable[[object], float | None]
) -> list[int]:
    """Return all places, the highest value first; equal ones by rank, those without one last."""
    values: list[float] = []
    for hit in pool.hits:
        found = (read(hit.passage.metadata.get(key)) for key in keys)
        values.append(next((value for value in found if value is not None), -math.inf))
    return sorted(pool.places, key=lambda place: -values[place])


def _timestamp(value: object) -> float | None:
    date = read_date(value)
    return date.timestamp() if date else None


def _weight(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        weight = float(value)
    except (ValueError, OverflowError):
        return None
    return weight if math.isfinite(weight) else None


def _side_by_side(clusters: Sequence[Sequence[int]]) -> Iterator[Sequence[int]]:
    """Yield the n-th of every cluster for each n; a cluster that has no more begins again."""
    for turn in range(max(map(len, clusters))):
        yield [cluster[turn % len(cluster)] for cluster in clusters]


def _by_rank(clusters: Sequence[Sequence[int]]) -> Iterator[Sequence[int]]:
    """Yield every choice of one per cluster, the lowest sum of ranks first.

    Each step makes only the choices that are one further in one cluster, so the first few are
    cheap, however many there are.
    """

    def ranked(turns: Subset) -> tuple[int, list[int], Subset]:
        places = [cluster[turn] for cluster, turn in zip(clusters, turns, strict=True)]
        return sum(places), sorted(places), turns

    queue = [ranked((0,) * len(clusters))]
    queued = {queue[0][-1]}
    while queue:
        _, places, turns = heapq.heappop(queue)
        yield places
        for which, cluster in enumerate(clusters):
            further = (*turns[:which], turns[which] + 1, *turns[which + 1 :])
            if further[which] < len(cluster) and further not in queued:
                queued.add(further)
                heapq.heappush(queue, ranked(further))
