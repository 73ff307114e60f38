"""Fit the gate that decides, while a question is typed, whether to read its passages ahead.

Every question is typed word by word over a temporary knowledge base made from ``--passages``. An
example is what was typed of it at the end of a word, short of the whole; it is positive if the best
passage is already that of the whole question. What the gate's cheap checks make wait counts as
answered no. The passages themselves are examples of ``fit_staying.py``. Reported are means over
five folds of whole questions: the model is fitted, and its threshold chosen, on the other four.
What is shipped is fitted on all.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import fit_staying
from readahead.config import ModelsConfig, PrefetchConfig
from readahead.logistic import Logistic
from readahead.speculation.retrieval import gate, staying
from report import finish, options
from typing_fit import NUM_FOLDS, Examples, evaluate, fit, ship
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
LONG_AGO_S = 60.0


def examples(recording: Recording, config: PrefetchConfig | None = None) -> Examples:
    """Type the recorded questions at the gate: a row for each word of each but its last."""
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
    features, labels, waits, numbers = map(np.array, zip(*rows, strict=True))
    return Examples(SIGNALS, features, labels, waits, numbers)


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
    folder = Path(gate.__file__).parent
    parser.add_argument("--numbers", type=Path, default=folder, help="where the models go")
    given = parser.parse_args()
    if not given.recording.exists():
        record(given.questions, given.passages, given.n, given.recording)
    recording = load(given.recording)
    metrics = report(recording)
    data = examples(recording)
    model = fit(data, np.ones(len(data.labels), dtype=np.bool_))
    ship(model, given.numbers / f"{gate.MODEL}.json")
    passages = fit_staying.examples(recording)
    metrics |= fit_staying.report(passages)
    ship(fit(passages.data, passages.is_typed), given.numbers / f"{staying.MODEL}.json")
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
