"""What answering only from a probability on buys, and how far to trust the probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from readahead.speculation.answers.calibration import labelled


@dataclass(frozen=True, slots=True)
class Point:
    """What answering from ``threshold`` on means.

    Attributes:
        coverage: The share of questions that are answered.
        threshold: The lowest probability that is still answered.
        accuracy: The share of right answers among them; ``risk`` is the rest.
    """

    coverage: float
    threshold: float
    accuracy: float
    risk: float


def risk_coverage(probabilities: Sequence[float], correct: Sequence[bool]) -> list[Point]:
    """Return a point for each threshold, the strictest first [Geifman17].

    Answers of equal probability are answered together: no threshold tells them apart.

    Raises:
        InputError: There are no probabilities, or one of them is not finite.
    """
    probability, right = labelled(probabilities, correct)
    points, num_answered, num_right = [], 0, 0
    ranked = sorted(zip(probability.tolist(), right.tolist(), strict=True), reverse=True)
    for threshold, group in groupby(ranked, key=lambda pair: pair[0]):
        outcomes = [is_right for _, is_right in group]
        num_answered += len(outcomes)
        num_right += sum(outcomes)
        accuracy = num_right / num_answered
        points.append(Point(num_answered / len(ranked), threshold, accuracy, 1 - accuracy))
    return points


def area_under(points: Sequence[Point]) -> float:
    """Return the mean risk over all coverages: 0 is best, a blind order gives the overall risk."""
    before = [0.0, *(point.coverage for point in points)]
    return sum(
        point.risk * (point.coverage - left) for point, left in zip(points, before, strict=False)
    )


def threshold_for(points: Sequence[Point], accuracy: float) -> float | None:
    """Return the smallest threshold whose answers are right often enough; None if none is."""
    reached = [point.threshold for point in points if point.accuracy >= accuracy]
    return min(reached, default=None)


def calibration_error(
    probabilities: Sequence[float], correct: Sequence[bool], *, num_bins: int = 10
) -> float:
    """Return the expected calibration error over bins of equal width [Guo17].

        ECE = Σ_b |B_b| / n · |accuracy(B_b) − mean probability(B_b)|

    Raises:
        InputError: There are no probabilities, or one of them is not finite.
    """
    probability, right = labelled(probabilities, correct)
    bins = np.minimum((probability * num_bins).astype(int), num_bins - 1)
    gaps = [abs((right[bins == b] - probability[bins == b]).sum()) for b in np.unique(bins)]
    return float(sum(gaps)) / len(right)


def brier_score(probabilities: Sequence[float], correct: Sequence[bool]) -> float:
    """Return the mean squared distance of probability and outcome [Brier50]; 0 is best.

    Raises:
        InputError: There are no probabilities, or one of them is not finite.
    """
    probability, right = labelled(probabilities, correct)
    return float(np.mean((probability - right) ** 2))
