"""Fit logistic models on what was recorded while questions were typed, and judge them by folds.

Knows no signals: examples come with their names. Folds are of whole questions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, precision_recall_curve, roc_auc_score

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from readahead.logistic import Logistic
from report import SEED

NUM_FOLDS = 5
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Examples:
    """What a model is fitted on.

    Attributes:
        names: Of the signals.
        features: (n, signals); NaN where a signal is missing.
        labels: What it should say.
        waits: Whether it is not asked, which counts as no.
        questions: The number of the question.
    """

    names: tuple[str, ...]

    features: Floats
    labels: Bools
    waits: Bools
    questions: NDArray[np.int64]


def fit(data: Examples, rows: Bools, names: Sequence[str] = ()) -> Logistic:
    """Return the model of these rows, with the threshold of the best F1 on them."""
    names = names or data.names
    columns = [data.names.index(name) for name in names]
    used = data.features[rows & ~data.waits][:, columns]
    means, scales = np.nanmean(used, axis=0), np.nanstd(used, axis=0)
    scales[scales == 0] = 1.0
    scaled = np.nan_to_num((used - means) / scales)
    fitted = LogisticRegression(max_iter=1000).fit(scaled, data.labels[rows & ~data.waits])
    model = Logistic(
        tuple(names),
        tuple(means.tolist()),
        tuple(scales.tolist()),
        tuple(fitted.coef_[0].tolist()),
        float(fitted.intercept_[0]),
    )
    threshold = best_threshold(data.labels[rows], predict(model, data, rows))
    record = model.to_json() | {"threshold": threshold}
    return Logistic.from_json(record)


def best_threshold(labels: Bools, probabilities: Floats) -> float:
    """Return the threshold of the highest F1."""
    precision, recall, thresholds = precision_recall_curve(labels, probabilities)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    return float(thresholds[np.argmax(f1[:-1])])


def predict(model: Logistic, data: Examples, rows: Bools) -> Floats:
    """Return the model's probabilities; 0 for what waits."""
    columns = [data.names.index(name) for name in model.names]
    return np.array(
        [
            0.0 if waits else model.probability(dict(zip(model.names, values, strict=True)))
            for values, waits in zip(
                data.features[rows][:, columns].tolist(), data.waits[rows], strict=True
            )
        ]
    )


def folds(data: Examples) -> Iterator[Bools]:
    """Return the rows of each fold; a question is in one fold with all its words."""
    order = np.random.default_rng(SEED).permutation(int(data.questions.max()) + 1)
    for fold in range(NUM_FOLDS):
        yield order[data.questions] % NUM_FOLDS == fold


def out_of_fold(data: Examples, fitted: Bools | None = None) -> Floats:
    """Return for each row the probability of a model that was fitted on other questions.

    Args:
        data: Each row gets a probability.
        fitted: The rows to fit on; by default all.
    """
    probabilities = np.zeros(len(data.labels))
    for held_out in folds(data):
        rows = ~held_out if fitted is None else ~held_out & fitted
        probabilities[held_out] = predict(fit(data, rows), data, held_out)
    return probabilities


def evaluate(data: Examples, names: Sequence[str] = ()) -> tuple[float, float]:
    """Return the means of F1 and AUC over held-out questions."""
    f1, auc = [], []
    for held_out in folds(data):
        model = fit(data, ~held_out, names)
        probabilities, labels = predict(model, data, held_out), data.labels[held_out]
        f1.append(f1_score(labels, probabilities >= model.threshold))
        auc.append(roc_auc_score(labels, probabilities))
    return float(np.mean(f1)), float(np.mean(auc))


def ship(model: Logistic, file: Path) -> None:
    """Write the numbers of a model."""
    # The last digits differ from one processor to the next.
    shortest = json.loads(json.dumps(model.to_json()), parse_float=lambda x: round(float(x), 6))
    file.write_text(json.dumps(shortest, indent=2) + "\n", encoding="utf-8")
