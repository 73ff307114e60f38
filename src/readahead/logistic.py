"""A fitted logistic model of a few named features; knows nothing about what they mean.

    p(x) = 1 / (1 + exp(−z)),   z = bias + Σ_i weight_i · (x_i − mean_i) / scale_i

The numbers are fitted by a script of the repository and shipped as a JSON file beside the
module that asks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Logistic:
    """Features to a probability.

    Attributes:
        names: Of the features; means, scales and weights are in the same order.
        threshold: The probability from which the answer is best taken as yes.
    """

    names: tuple[str, ...]
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float
    threshold: float = 0.5

    def __post_init__(self) -> None:
        lengths = {len(self.names), len(self.means), len(self.scales), len(self.weights)}
        if len(lengths) > 1 or len(set(self.names)) < len(self.names) or 0 in self.scales:
            raise ValueError("every feature needs a name of its own, mean, scale and weight")

    def probability(self, features: Mapping[str, float]) -> float:
        """Return the probability that ``features`` give.

        A feature that is missing or not finite says nothing: it counts as its mean. Others than
        those of ``names`` are ignored.
        """
        z = self.bias
        fitted = zip(self.names, self.means, self.scales, self.weights, strict=True)
        for name, mean, scale, weight in fitted:
            value = features.get(name, mean)
            if math.isfinite(value):
                z += weight * (value - mean) / scale
        return 1.0 / (1.0 + math.exp(-z)) if z > -700 else 0.0  # exp overflows beyond that

    def to_json(self) -> dict[str, Any]:
        """Return what ``from_json`` reads: one object for each feature."""
        fitted = zip(self.names, self.means, self.scales, self.weights, strict=True)
        features = {
            name: {"mean": mean, "scale": scale, "weight": weight}
            for name, mean, scale, weight in fitted
        }
        return {"bias": self.bias, "threshold": self.threshold, "features": features}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Return the model that ``to_json`` described."""
        features = record["features"]
        return cls(
            names=tuple(features),
            means=tuple(float(feature["mean"]) for feature in features.values()),
            scales=tuple(float(feature["scale"]) for feature in features.values()),
            weights=tuple(float(feature["weight"]) for feature in features.values()),
            bias=float(record["bias"]),
            threshold=float(record["threshold"]),
        )

    @classmethod
    def load(cls, package: str, name: str) -> Self:
        """Return the model of ``name.json`` in ``package``."""
        text = files(package).joinpath(f"{name}.json").read_text(encoding="utf-8")
        return cls.from_json(json.loads(text))
