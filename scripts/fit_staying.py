"""Examples of passages found while a question is typed, and whether they are shown in the end.

An example is one of the first hits for what was typed of a question at the end of a word; it is
positive if it is among the first ``K`` for the whole question. What has to wait is not retrieved
for, and gives none. The fitting is done by ``fit_gate.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from readahead.config import PrefetchConfig
from readahead.logistic import Logistic
from readahead.speculation.retrieval.gate import TypingGate
from typing_fit import Bools, Examples, evaluate
from typing_runs import Recording

K = 3
LONG_AGO_S = 60.0
SIGNALS = (
    "words",
    "rarest",
    "information",
    "told",
    "rank",
    "is_first",
    "run",
    "score",
    "lead",
    "similarity",
    "similarity_lead",
    "behind",
)


@dataclass(frozen=True, slots=True)
class Judged:
    """Passages with their signals; the rows of a retrieval follow each other, best first.

    Attributes:
        steps: The number of the retrieval within its question, from 0 on.
        is_typed: Whether it was short of the whole question. The others can be predicted, too, but
            are no examples: while the question is typed nobody knows that it is whole.
    """

    data: Examples
    steps: NDArray[np.int64]
    is_typed: Bools


def examples(recording: Recording) -> Judged:
    """Type the recorded questions, and measure the passages that are found."""
    unfitted = Logistic((), (), (), (), 0.0)
    typing = TypingGate(PrefetchConfig(), lambda word: recording.rarity.get(word, 0.0), unfitted)
    rows: list[tuple[list[float], bool, int, int, bool]] = []
    for number, steps in enumerate(recording.questions):
        typing.reset()
        final = {hit.passage.id for hit in steps[-1].hits[:K]}
        for place, step in enumerate(steps):
            if typing.wait(step.text, since_first_s=LONG_AGO_S, since_last_s=LONG_AGO_S):
                continue
            said = typing.measure(step.text, step.hits)
            each = typing.measure_each(step.text, step.hits, K, said)
            for hit, signals in zip(step.hits, each, strict=False):
                values = [signals.get(name, math.nan) for name in SIGNALS]
                is_typed = place < len(steps) - 1
                rows.append((values, hit.passage.id in final, number, place, is_typed))
    features, labels, numbers, places, typed = map(np.array, zip(*rows, strict=True))
    waits = np.zeros(len(labels), dtype=np.bool_)
    return Judged(Examples(SIGNALS, features, labels, waits, numbers), places, typed)


def report(judged: Judged) -> dict[str, float]:
    """Print what the model is worth, and without each of its signals; return the metrics."""
    data, rows = judged.data, judged.is_typed
    typed = replace(
        data,
        features=data.features[rows],
        labels=data.labels[rows],
        waits=data.waits[rows],
        questions=data.questions[rows],
    )
    base_rate = float(typed.labels.mean())
    f1, auc = evaluate(typed)
    metrics = {"stays_f1": f1, "stays_auc": auc, "stays_base_rate": base_rate}
    print(f"{len(typed.labels)} passages, base rate {base_rate:.3f}")
    print(f"{'a passage stays':34}{f1:8.3f}{auc:8.3f}")
    for name in SIGNALS:
        f1, auc = evaluate(typed, [other for other in SIGNALS if other != name])
        metrics[f"stays_auc_without_{name}"] = auc
        print(f"  without {name:24}{f1:8.3f}{auc:8.3f}")
    return metrics
