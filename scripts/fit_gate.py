"""Fit the gate that decides, while a question is typed, whether to read its passages ahead.

Every question is typed word by word over a temporary knowledge base made from ``--passages``. An
example is what was typed of it at the end of a word, short of the whole; it is positive if the best
passage is already that of the whole question. What the gate's cheap checks make wait counts as
answered no. Reported are means over five folds of whole questions: the model is fitted, and its
threshold chosen, on the other four. What is shipped is fitted on all.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, precision_recall_curve, roc_auc_score

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from readahead.config import ModelsConfig, PrefetchConfig
from readahead.speculation.retrieval import gate
from readahead.speculation.retrieval.logistic import Logistic
from report import SEED, finish, options
from typing_runs import Recording, load, record

SIGNALS = (
    "words",
    "rarest",
    "information",
    "told",
    "told_margin",
    "score",
    "margin",
    "similarity",
    "similarity_margin",
    "overlap",
    "run",
)
FEW = ("score", "margin", "words")
NUM_FOLDS = 5
LONG_AGO_S = 60.0
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Examples:
    """One row for each word of each question but its last.

    Attributes:
        features: (n, signals); NaN where a signal is missing.
        labels: Whether the best passage is final.
        waits: Whether the cheap checks say no.
        questions: The number of the question.
    """

    features: Floats
    labels: Bools
    waits: Bools
    questions: NDArray[np.int64]


def examples(recording: Recording, config: PrefetchConfig | None = None) -> Examples:
    """Type the recorded questions at the gate; what has to wait is not retrieved for."""
    unfitted = Logistic((), (), (), (), 0.0)
    rows: list[tuple[list[float], bool, bool, int]] = []
    typing = gate.TypingGate(
        config or PrefetchConfig(), lambda word: recording.rarity.get(word, 0.0), unfitted
    )
    for number, steps in enumerate(recording.questions):
        typing.reset()
        final = [hit.passage.id for hit in steps[-1].hits[:1]]
        for step in steps[:-1]:
            reason = typing.wait(step.text, since_first_s=LONG_AGO_S, since_last_s=LONG_AGO_S)
            signals = {} if reason else typing.measure(step.text, step.hits)
            values = [signals.get(name, math.nan) for name in SIGNALS]
            is_final = [hit.passage.id for hit in step.hits[:1]] == final
            rows.append((values, is_final, bool(reason) or not step.hits, number))
    features, labels, waits, numbers = zip(*rows, strict=True)
    return Examples(np.array(features), np.array(labels), np.array(waits), np.array(numbers))


def fit(data: Examples, rows: Bools, names: Sequence[str] = SIGNALS) -> Logistic:
    """Return the model of these rows, with the threshold of the best F1 on them."""
    columns = [SIGNALS.index(name) for name in names]
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
    """Return the gate's probabilities; 0 for what waits."""
    columns = [SIGNALS.index(name) for name in model.names]
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


def out_of_fold(data: Examples) -> Floats:
    """Return for each row the probability of a model that was fitted on other questions."""
    probabilities = np.zeros(len(data.labels))
    for held_out in folds(data):
        probabilities[held_out] = predict(fit(data, ~held_out), data, held_out)
    return probabilities


def evaluate(data: Examples, names: Sequence[str] = SIGNALS) -> tuple[float, float]:
    """Return the means of F1 and AUC over held-out questions."""
    f1, auc = [], []
    for held_out in folds(data):
        model = fit(data, ~held_out, names)
        probabilities, labels = predict(model, data, held_out), data.labels[held_out]
        f1.append(f1_score(labels, probabilities >= model.threshold))
        auc.append(roc_auc_score(labels, probabilities))
    return float(np.mean(f1)), float(np.mean(auc))


def report(recording: Recording) -> dict[str, float]:
    """Print what the gate is worth, and without each of its parts; return the metrics."""
    data = examples(recording)
    base_rate = float(data.labels.mean())
    f1, auc = evaluate(data)
    metrics = {"f1": f1, "auc": auc, "base_rate": base_rate}
    print(f"{len(data.labels)} examples, base rate {base_rate:.3f}, F1 of always yes ", end="")
    print(f"{2 * base_rate / (1 + base_rate):.3f}, {data.waits.mean():.2f} of them wait")
    print(f"{'':34}{'F1':>8}{'AUC':>8}\n{'the gate':34}{f1:8.3f}{auc:8.3f}")
    for name in SIGNALS:
        f1, auc = evaluate(data, [other for other in SIGNALS if other != name])
        metrics[f"f1_without_{name}"] = f1
        print(f"  without {name:24}{f1:8.3f}{auc:8.3f}")
    f1, auc = evaluate(examples(recording, PrefetchConfig(min_tokens=1)))
    metrics["f1_without_min_tokens"] = f1
    print(f"  {'without min_tokens':32}{f1:8.3f}{auc:8.3f}")
    f1, auc = evaluate(data, FEW)
    metrics |= {"f1_score_margin_words": f1, "auc_score_margin_words": auc}
    print(f"{'score, margin and length alone':34}{f1:8.3f}{auc:8.3f}")
    return metrics


def main() -> None:
    """Record, fit, report, and write the numbers that are shipped."""
    parser = options(__doc__)
    parser.add_argument("--questions", type=Path, required=True, help="JSON Lines with question")
    parser.add_argument("--passages", type=Path, required=True, help="JSON Lines with text, title")
    parser.add_argument("--n", type=int, help="only the first n questions")
    parser.add_argument("--recording", type=Path, default=Path("typed.json"), help="read if there")
    shipped = Path(gate.__file__).with_name(f"{gate.MODEL}.json")
    parser.add_argument("--numbers", type=Path, default=shipped, help="where the model goes")
    given = parser.parse_args()
    if not given.recording.exists():
        record(given.questions, given.passages, given.n, given.recording)
    recording = load(given.recording)
    metrics = report(recording)
    data = examples(recording)
    model = fit(data, np.ones(len(data.labels), dtype=np.bool_))
    # The last digits differ from one processor to the next.
    shortest = json.loads(json.dumps(model.to_json()), parse_float=lambda x: round(float(x), 6))
    given.numbers.write_text(json.dumps(shortest, indent=2) + "\n", encoding="utf-8")
    finish(
        "gate",
        metrics | {"threshold": model.threshold},
        models={"embedder": ModelsConfig().embedder},
        workload=f"{given.questions.name} typed over {given.passages.name}, {NUM_FOLDS} folds",
        n=len(recording.questions),
        out=given.out,
    )


if __name__ == "__main__":
    main()
