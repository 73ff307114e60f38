"""From a score to the probability of being right; ``risk`` says what a threshold on it buys.

Two maps, each fitted to questions whose answers are known: ``fit_isotonic`` assumes only that a
higher score is no worse, and needs a few hundred questions; ``fit_platt`` draws one S-shaped curve
[Platt99], and is content with a few dozen. Knows nothing about where scores come from.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readahead.errors import InputError

CALIBRATION_FILE = "calibration.json"
Floats = NDArray[np.float64]
_MAX_NEWTON_STEPS = 100


class Calibration(ABC):
    """A map from scores to probabilities."""

    __slots__ = ()

    @abstractmethod
    def probability(self, score: float) -> float:
        """Return the probability in [0, 1]; 0 for a score that is not a number."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return what ``from_json`` reads."""

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> Calibration:
        """Return the map that ``to_json`` described.

        Raises:
            InputError: The record describes none.
        """
        try:
            if record["kind"] == "isotonic":
                return Isotonic(_numbers(record["scores"]), _numbers(record["probabilities"]))
            if record["kind"] == "platt":
                return Platt(float(record["slope"]), float(record["intercept"]))
        except (KeyError, TypeError, ValueError, OverflowError):
            pass
        raise InputError(
            f"This is not a calibration: {json.dumps(record, default=str)[:80]}.",
            remedy="Fit one: readahead calibrate",
        )


@dataclass(frozen=True, slots=True)
class Isotonic(Calibration):
    """A line through knots, level outside of them.

    Attributes:
        scores: Of the knots, each above the one before.
        probabilities: At the knots, none below the one before.
    """

    scores: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        scores, probabilities = np.array(self.scores), np.array(self.probabilities)
        is_line = len(scores) == len(probabilities) > 0 and bool(np.all(np.diff(scores) > 0))
        if not (is_line and np.all(np.diff(probabilities, prepend=0.0, append=1.0) >= 0)):
            raise ValueError("an isotonic map needs rising scores, each with its probability")

    def probability(self, score: float) -> float:
        """Return the probability, interpolated between the knots."""
        if math.isnan(score):
            return 0.0
        return float(np.interp(score, self.scores, self.probabilities))

    def to_json(self) -> dict[str, Any]:
        """Return the knots."""
        return {
            "kind": "isotonic",
            "scores": list(self.scores),
            "probabilities": list(self.probabilities),
        }


@dataclass(frozen=True, slots=True)
class Platt(Calibration):
    """A logistic curve of one score: p = 1 / (1 + exp(−(slope · score + intercept)))."""

    slope: float
    intercept: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.slope) and math.isfinite(self.intercept)):
            raise ValueError("a logistic curve needs a finite slope and intercept")

    def probability(self, score: float) -> float:
        """Return the probability on the curve."""
        z = self.slope * score + self.intercept
        return 0.0 if math.isnan(z) else float(_sigmoid(np.float64(z)))

    def to_json(self) -> dict[str, Any]:
        """Return slope and intercept."""
        return {"kind": "platt", "slope": self.slope, "intercept": self.intercept}


def fit_isotonic(scores: Sequence[float], correct: Sequence[bool]) -> Isotonic:
    """Return the rising map with the least squared error, by pooling adjacent violators [Ayer55].

    Exact. Its ends are often 0 or 1, which few questions do not justify: use ``fit_platt`` there.

    Args:
        scores: Of answers, finite.
        correct: Whether each was right.

    Raises:
        InputError: There are no scores, or one of them is not finite.
    """
    score, right = labelled(scores, correct)
    blocks: list[tuple[float, float, float, int]] = []  # first and last score, number right, size
    for value in np.unique(score):
        same = right[score == value]
        blocks.append((float(value), float(value), float(same.sum()), len(same)))
        while len(blocks) > 1 and _mean(blocks[-2]) >= _mean(blocks[-1]):
            (first, _, right_a, size_a), (_, last, right_b, size_b) = blocks[-2:]
            blocks[-2:] = [(first, last, right_a + right_b, size_a + size_b)]
    knots = {end: _mean(block) for block in blocks for end in block[:2]}
    return Isotonic(tuple(knots), tuple(knots.values()))


def _mean(block: tuple[float, float, float, int]) -> float:
    return block[2] / block[3]


def fit_platt(scores: Sequence[float], correct: Sequence[bool]) -> Platt:
    """Return the logistic curve that makes the smoothed labels most likely.

        t = (N₊ + 1) / (N₊ + 2) for a right answer,   1 / (N₋ + 2) for a wrong one

    They keep the curve finite where a score separates right from wrong perfectly [Platt99]. Found
    by Newton steps, halved until they help [Lin07]; exact up to rounding.

    Args:
        scores: Of answers, finite.
        correct: Whether each was right.

    Raises:
        InputError: There are no scores, or one of them is not finite.
    """
    score, right = labelled(scores, correct)
    num_right = right.sum()
    targets = np.where(right, (num_right + 1) / (num_right + 2), 1 / (len(right) - num_right + 2))
    is_level = np.ptp(score) <= max(1e-9 * np.abs(score).max(), 1e-100)
    centre, scale = score.mean(), np.inf if is_level else score.std()  # rounding says nothing
    design = np.stack([(score - centre) / scale, np.ones_like(score)], axis=1)  # (n, 2)
    slope, intercept = _newton(design, targets)
    return Platt(float(slope / scale), float(intercept - slope * centre / scale))


def _newton(design: Floats, targets: Floats) -> Floats:
    """Return the weights (2,) with the least cross-entropy to ``targets``."""
    weights = np.zeros(design.shape[1])
    for _ in range(_MAX_NEWTON_STEPS):
        fitted = _sigmoid(design @ weights)
        gradient = design.T @ (fitted - targets)
        if np.abs(gradient).max() < 1e-10 * len(targets):
            break
        curvature = (design * (fitted * (1 - fitted))[:, None]).T @ design
        step = np.linalg.solve(curvature + 1e-12 * np.eye(len(weights)), gradient)
        before, size = _cross_entropy(design @ weights, targets), 1.0
        while size > 1e-10 and _cross_entropy(design @ (weights - size * step), targets) > before:
            size /= 2
        weights = weights - size * step
    return weights


def _cross_entropy(z: Floats, targets: Floats) -> float:
    return float((np.logaddexp(0, z) - targets * z).sum())


def _sigmoid(z: Floats | np.float64) -> Floats:
    return np.exp(-np.logaddexp(0, -np.asarray(z)))


def labelled(scores: Sequence[float], correct: Sequence[bool]) -> tuple[Floats, NDArray[np.bool_]]:
    """Return both as arrays (n,).

    Raises:
        InputError: There are no scores, or one of them is not finite.
    """
    score, right = np.array(scores, dtype=np.float64), np.array(correct, dtype=np.bool_)
    if len(score) != len(right):
        raise ValueError(f"{len(score)} scores for {len(right)} answers")
    if not len(score):
        raise InputError("There is no answer to calibrate on.", remedy="Label some questions.")
    if not np.isfinite(score).all():
        raise InputError("A score is not finite.", remedy="Leave out answers without a score.")
    return score, right


def _numbers(values: Sequence[Any]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def read_calibration(folder: Path, preset: str = "") -> Calibration | None:
    """Return the calibration that was fitted on a knowledge base, None if there is none.

    One that was fitted with another preset than ``preset`` counts for nothing: the two presets tell
    other probabilities.

    Raises:
        InputError: The file is not a calibration.
    """
    try:
        record = json.loads((folder / CALIBRATION_FILE).read_text(encoding="utf-8"))
        calibration = Calibration.from_json(record)
        is_other = bool(preset) and record.get("preset", preset) != preset
        return None if is_other else calibration
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):
        raise InputError(
            f"{folder / CALIBRATION_FILE} is not a calibration.",
            remedy="Fit it again: readahead calibrate",
        ) from None
