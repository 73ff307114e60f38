"""k-means over a handful of passage vectors; knows nothing about what they stand for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from readahead.retrieval.base import Vector, Vectors

Labels = NDArray[np.intp]  # (n,)
_MAX_ITERATIONS = 50
_NUM_RUNS = 5
_DECIMALS = 6  # beyond which float32 is noise; equal distances go to the first


def beyond_question(vectors: Vectors, question: Vector) -> Vectors:
    """Return what each vector says beyond the question, (n, dim), to unit length.

        u = v − (v·q) q,   u / |u|

    All hits resemble the question, and how much is known from their ranks; what is left tells them
    apart. A vector that says nothing more becomes zero.
    """
    rest = vectors - np.outer(vectors @ question, question)
    lengths = np.linalg.norm(rest, axis=1, keepdims=True)
    return np.where(lengths > 10**-_DECIMALS, rest / np.maximum(lengths, 10**-_DECIMALS), 0.0)


def k_means(points: Vectors, k: int, rng: np.random.Generator) -> Labels:
    """Return the cluster of each point, (n,), numbered by first appearance: 0 holds point 0.

    The tightest of a few runs of Lloyd's algorithm from spread starting points [Arthur07].
    Approximate, as k-means is, and the same for the same generator. There are ``min(k, n)``
    clusters and none is empty, even if all points are equal.
    """
    k = min(k, len(points))
    if k < 1:
        return np.zeros(len(points), dtype=np.intp)
    runs = [_lloyd(points, points[_spread(points, k, rng)]) for _ in range(_NUM_RUNS)]
    labels, _ = min(runs, key=lambda run: run[1])
    _, first, numbers = np.unique(labels, return_index=True, return_inverse=True)
    return first.argsort().argsort()[numbers]


def _lloyd(points: Vectors, centres: Vectors) -> tuple[Labels, float]:
    """Return where the points settle, and the sum of their squared distances to the centres."""
    labels = np.full(len(points), -1)
    for _ in range(_MAX_ITERATIONS):
        distances = _distances(points, centres)
        before, labels = labels, _refill(distances.argmin(axis=1), distances)
        if np.array_equal(labels, before):
            break
        centres = np.stack([points[labels == each].mean(axis=0) for each in range(len(centres))])
    own = _distances(points, centres)[np.arange(len(points)), labels]
    return labels, round(float(own.sum()), _DECIMALS)


def _spread(points: Vectors, k: int, rng: np.random.Generator) -> list[int]:
    """Return k different points, each drawn with its squared distance to the nearest before it."""
    chosen = [int(rng.integers(len(points)))]
    while len(chosen) < k:
        far = _distances(points, points[chosen]).min(axis=1)
        far[chosen] = 0.0
        if far.sum() > 0:
            chosen.append(int(rng.choice(len(points), p=far / far.sum())))
        else:  # all others are equal to one of them
            chosen.append(next(i for i in range(len(points)) if i not in chosen))
    return chosen


def _refill(labels: Labels, distances: NDArray[np.float64]) -> Labels:
    """Return the labels with an empty cluster given the point that fits its own one worst."""
    for cluster in range(distances.shape[1]):
        if cluster not in labels:
            sizes = np.bincount(labels, minlength=distances.shape[1])
            own = distances[np.arange(len(labels)), labels]
            worst = np.where(sizes[labels] > 1, own, -1.0).argmax()
            labels[worst] = cluster
    return labels


def _distances(points: Vectors, centres: Vectors) -> NDArray[np.float64]:
    """Return the squared distances (n, k)."""
    gaps = points[:, None, :].astype(np.float64) - centres[None, :, :]
    distances: NDArray[np.float64] = np.square(gaps).sum(axis=2).round(_DECIMALS)
    return distances
