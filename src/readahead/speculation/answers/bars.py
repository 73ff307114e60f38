"""From which probability on to answer: the user's number, or what was fitted under its name.

Both are told on the user's own scale, where one was calibrated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from readahead.config import DraftsConfig
from readahead.speculation.answers.calibration import Calibration
from readahead.speculation.answers.choose import PACKAGE, Rated


@dataclass(frozen=True, slots=True)
class Bars:
    """The probabilities that answers are held against.

    Attributes:
        config: Names the preset, and the bars or what they mean.
        calibration: From the shipped model's probabilities to the user's own; None: they are these.
    """

    config: DraftsConfig
    calibration: Calibration | None = None

    @property
    def model(self) -> str:
        """Return which of the shipped models tells probabilities."""
        return "verified" if self.config.preset == "accurate" else "evidence"

    def threshold(self, is_lacking: bool = False) -> float:
        """Return the probability from which on to answer.

        Where the passages clearly lack the answer, ``lenient`` is as strict as ``strict``.
        """
        threshold = self.config.threshold
        if not isinstance(threshold, str):
            return threshold
        return self._told(thresholds(self.model)["strict" if is_lacking else threshold])

    @property
    def also(self) -> float | None:
        """Return the probability from which on to give further answers; None: by their gain."""
        also = self.config.also
        if also is None and "also" in thresholds(self.model):
            return self._told(thresholds(self.model)["also"])
        return also

    @property
    def harm(self) -> float:
        """Return the λ of the expected gain of further answers."""
        return thresholds(self.model).get("harm", 0.0)

    def calibrated(self, rated: Sequence[Rated]) -> list[Rated]:
        """Return the answers with the user's own probabilities, the most probable first.

        That of being wrong stays as it was fitted: only right answers are labelled.
        """
        if self.calibration is None:
            return list(rated)
        own = [replace(one, probability=self._told(one.probability)) for one in rated]
        return sorted(own, key=lambda one: -one.probability)

    def _told(self, probability: float) -> float:
        """Return the user's own probability for one of the shipped model."""
        told = self.calibration
        return probability if told is None else told.probability(probability)


@cache
def thresholds(model: str) -> Mapping[str, float]:
    """Return what was fitted for a model, by name.

    ``strict`` and ``lenient`` are the probabilities that these mean; ``also`` is that from which on
    further answers are given, or ``harm`` the λ of their expected gain.
    """
    text = files(PACKAGE).joinpath("thresholds.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, float]] = json.loads(text)
    return found[model]
