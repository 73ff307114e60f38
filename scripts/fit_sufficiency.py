"""Fit the gate that tells whether the passages shown hold the answer; judge every signal.

Reads what ``record_answers.py`` recorded. No question is both in the part that is fitted and in the
part that is judged. Prints, for each signal and target, the AUC for "the passages do not hold the
answer" before the first token and at the end of the answer, and for "the answer is wrong"; then the
same for all signals together, with the F1 at a threshold chosen on the fitted part. Writes the
model and prints one JSON object as the last line.

    python scripts/fit_sufficiency.py FOLDER [--targets NAME …] [--model FILE] [--page FILE]
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.model_selection import GroupKFold

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import readahead.speculation.retrieval as package
from readahead.logistic import Logistic
from readahead.speculation.retrieval.sufficiency import Sufficiency
from readahead.text import sentences
from readahead.types import Hit
from record_answers import SOURCE, Answered, K, Retrieved, is_usable, read_answers, read_retrieved
from report import SEED, finish, options

RETRIEVAL = ("similarity", "similarity_mean", "margin", "coverage", "coverage_best")
STATE = (
    "entropy",
    "entropy_peak",
    "entropy_slope",
    "top_probability",
    "attention_entropy",
    "value_sparsity",
    "key_change",
    "refusal",
    "unsupported",
)
FOLDS = 5
STRENGTH = 0.3  # of the regularisation: smaller holds the weights closer to 0
MARK_BEGIN, MARK_END = "<!-- figures -->", "<!-- end of figures -->"
NOTHING = Logistic((), (), (), (), 0.0)


@dataclass(frozen=True, slots=True)
class Row:
    """The signals of one moment, and what was the case.

    Attributes:
        moment: ``before`` without any state, ``start`` with the first token's, ``end`` with all.
        lacks: The passages do not hold the answer.
        wrong: The answer given does not contain a right one; None where none was given.
    """

    question: str
    moment: str
    signals: dict[str, float]
    lacks: bool
    wrong: bool | None = None


def main() -> None:
    """Judge every signal, fit the gate, and write it."""
    parser = options(__doc__)
    parser.add_argument("folder", type=Path, help="of record_answers.py")
    parser.add_argument("--targets", nargs="+", default=["smollm2-135m", "qwen2.5-coder-0.5b"])
    parser.add_argument("--model", type=Path, help="where to write the model")
    parser.add_argument("--page", type=Path, help="a page whose table of figures is renewed")
    parser.add_argument("--first", type=int, default=1000, help="the others are for benchmarks")
    given = parser.parse_args()
    usable = [(i, one) for i, one in enumerate(read_retrieved(given.folder)) if is_usable(one)]
    found = {one.question.text: one for i, one in usable if i < given.first}
    others = [one for i, one in usable if i >= given.first]
    rows = [row for one in found.values() for row in retrieval_rows(one)]
    metrics: dict[str, float] = {"num_questions": len(found)}
    for target in given.targets:
        answers = [a for a in read_answers(given.folder, target) if a.question in found]
        own = [row for a in answers for row in answer_rows(found[a.question], a, layer_of(a))]
        metrics |= describe(target, own, layers_of(found, answers))
        rows += own
    metrics |= together(rows) | similarity_threshold(list(found.values()))
    model = fitted(rows, RETRIEVAL + STATE)
    if others:
        metrics |= held_out(model, others)
    place = given.model or Path(next(iter(package.__path__))) / "sufficiency.json"
    place.write_text(json.dumps(rounded(model.to_json()), indent=2) + "\n", encoding="utf-8")
    print(f"threshold {model.threshold:.2f}, written to {place.name}")
    if given.page:
        write_table(given.page, metrics, given.targets)
    finish(
        "sufficiency",
        metrics,
        models={f"target_{i}": target for i, target in enumerate(given.targets)},
        workload="questions with the right passage shown or taken out",
        n=len(found),
        out=given.out,
    )


def retrieval_rows(found: Retrieved) -> list[Row]:
    """Return the rows of a question that no model was asked."""
    question = found.question.text
    return [
        Row(question, "before", judged(question, found.shown(present), "", []), not present)
        for present in (True, False)
    ]


def answer_rows(found: Retrieved, answered: Answered, layer: int) -> list[Row]:
    """Return the rows of an answer: before its first token, and at its end."""
    hits, tokens = found.shown(answered.present), answered.tokens[layer]
    source = {name: float(np.mean(values)) for name, values in answered.source.items()}
    first = {name: values[0] for name, values in answered.source.items()}
    spans = sentences(answered.text)
    said = answered.text[slice(*spans[0])] if spans else ""
    lacks, wrong = not answered.present, not answered.contains
    start = judged(answered.question, hits, "", tokens[:1]) | first
    end = judged(answered.question, hits, said, tokens) | source
    return [
        Row(answered.question, "start", start, lacks, wrong),
        Row(answered.question, "end", end, lacks, wrong),
    ]


def judged(
    question: str, hits: Sequence[object], text: str, tokens: Sequence[object]
) -> dict[str, float]:
    """Return the signals as the gate sees them."""
    return Sufficiency(question, hits, NOTHING).judge(text, tokens).signals  # type: ignore[arg-type]


def layer_of(answered: Answered) -> int:
    """Return the layer that is watched: the one in the middle, of those recorded."""
    return sorted(answered.tokens)[1]


def layers_of(found: dict[str, Retrieved], answers: Sequence[Answered]) -> dict[int, list[Row]]:
    """Return the rows of each layer that was recorded."""
    return {
        layer: [row for a in answers for row in answer_rows(found[a.question], a, layer)]
        for layer in sorted(answers[0].tokens)
    }


def describe(target: str, rows: Sequence[Row], layers: dict[int, list[Row]]) -> dict[str, float]:
    """Print what each signal of one target is worth; return it."""
    metrics: dict[str, float] = {}
    answers = len(rows) // 2
    wrong = np.mean([bool(row.wrong) for row in rows])
    print(f"\n{target}: {answers} answers, {wrong:.0%} wrong")
    print(f"{'signal':<20} {'lacks, start':>12} {'lacks, end':>12} {'wrong, end':>12}")
    for name in (*RETRIEVAL, *STATE, *SOURCE):
        values = [
            auc([r for r in rows if r.moment == "start"], name, "lacks"),
            auc([r for r in rows if r.moment == "end"], name, "lacks"),
            auc([r for r in rows if r.moment == "end"], name, "wrong"),
        ]
        print(f"{name:<20}", *(f"{value:12.2f}" for value in values))
        for kind, value in zip(("lacks_start", "lacks_end", "wrong_end"), values, strict=True):
            metrics[f"{kind}.{name}.{target}"] = value
    for layer, own in layers.items():
        for name in ("attention_entropy", "value_sparsity", "key_change"):
            metrics[f"lacks_end.{name}.layer{layer}.{target}"] = auc(
                [r for r in own if r.moment == "end"], name, "lacks"
            )
    end = [row for row in rows if row.moment == "end"]
    for label in ("lacks", "wrong"):
        area, f1 = cross_validated(end, end, RETRIEVAL + STATE, label)
        metrics |= {f"{label}_auc.{target}": area, f"{label}_f1.{target}": f1}
        print(f"all together, {label}: AUC {area:.2f}, F1 {f1:.2f}")
    area, _ = cross_validated(end, end, STATE, "lacks")
    metrics[f"lacks_auc.state.{target}"] = area
    print(f"state alone, lacks: AUC {area:.2f}")
    return metrics


def together(rows: Sequence[Row]) -> dict[str, float]:
    """Print how well the gate that is shipped does at each of its moments, and without signals."""
    print(f"\n{'one gate for all':<20} {'AUC':>6} {'F1':>6}")
    metrics: dict[str, float] = {}
    for moment in ("before", "start", "end"):
        judged_rows = [row for row in rows if row.moment == moment]
        area, f1 = cross_validated(rows, judged_rows, RETRIEVAL + STATE, "lacks")
        metrics |= {f"auc.{moment}": area, f"f1.{moment}": f1}
        print(f"{moment:<20} {area:6.3f} {f1:6.3f}")
    end = [row for row in rows if row.moment == "end"]
    for left_out in RETRIEVAL + STATE:
        names = tuple(name for name in RETRIEVAL + STATE if name != left_out)
        _, f1 = cross_validated(rows, end, names, "lacks")
        metrics[f"f1_without.{left_out}"] = f1
        print(f"without {left_out:<20} {f1:6.3f}")
    return metrics


def held_out(model: Logistic, found: Sequence[Retrieved]) -> dict[str, float]:
    """Print how the model does on questions that it has not seen, with and without vectors."""
    metrics: dict[str, float] = {}
    labels = np.array([lacks for _ in found for lacks in (False, True)])
    print(f"\n{'held out':<20} {'AUC':>6} {'F1':>6} {'fires, shown':>13} {'fires, lacking':>15}")
    for name in ("hybrid", "lexical"):
        values = np.array(
            [
                Sufficiency(one.question.text, seen(one, present, name), model).judge().probability
                for one in found
                for present in (True, False)
            ]
        )
        fires = values >= model.threshold
        own = {
            "auc": float(roc_auc_score(labels, values)),
            "f1": float(f1_score(labels, fires)),
            "fires_shown": float(fires[~labels].mean()),
            "fires_lacking": float(fires[labels].mean()),
        }
        metrics |= {f"{key}.held_out.{name}": value for key, value in own.items()}
        print(
            f"{name:<20} {own['auc']:6.3f} {own['f1']:6.3f} {own['fires_shown']:13.3f} "
            f"{own['fires_lacking']:15.3f}"
        )
    return metrics


def seen(found: Retrieved, present: bool, name: str) -> list[Hit]:
    """Return the hits shown, without their similarities in a lexical search."""
    hits = found.shown(present)
    return hits if name == "hybrid" else [replace(hit, similarity=None) for hit in hits]


def similarity_threshold(found: Sequence[Retrieved]) -> dict[str, float]:
    """Print from which similarity on a passage found deeper is best taken for the right one."""
    pairs = [
        (hit.similarity or 0.0, rank == one.gold)
        for one in found
        for rank, hit in enumerate(one.hits[: K + 3])
        if rank == one.gold or rank >= K
    ]
    values, right = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    best = best_threshold(right, values, np.linspace(0, 1, 101))
    sources = 0.6
    metrics = {
        "min_similarity": best,
        "min_similarity_recall": float((values[right] >= best).mean()),
        "min_similarity_false": float((values[~right] >= best).mean()),
        "source_similarity_recall": float((values[right] >= sources).mean()),
        "source_similarity_false": float((values[~right] >= sources).mean()),
    }
    print("\nconsistency check:", {name: round(value, 2) for name, value in metrics.items()})
    return metrics


def auc(rows: Sequence[Row], name: str, label: str) -> float:
    """Return the AUC of one signal, 0.5 where it never differs; below, it points the other way."""
    known = [row for row in rows if math.isfinite(row.signals.get(name, math.nan))]
    labels = [bool(getattr(row, label)) for row in known]
    if len(set(labels)) < 2:
        return 0.5
    return float(roc_auc_score(labels, [row.signals[name] for row in known]))


def cross_validated(
    rows: Sequence[Row], judged_rows: Sequence[Row], names: Sequence[str], label: str
) -> tuple[float, float]:
    """Return AUC and F1 over ``judged_rows``, each by a model that has not seen its question."""
    questions = sorted({row.question for row in rows})
    folds = GroupKFold(FOLDS, shuffle=True, random_state=SEED)
    probabilities: list[float] = []
    hits: list[bool] = []
    labels: list[bool] = []
    for train, test in folds.split(questions, groups=questions):
        seen, unseen = {questions[i] for i in train}, {questions[i] for i in test}
        model = fitted([row for row in rows if row.question in seen], names, label)
        for row in judged_rows:
            if row.question in unseen:
                probabilities.append(model.probability(row.signals))
                hits.append(probabilities[-1] >= model.threshold)
                labels.append(bool(getattr(row, label)))
    return float(roc_auc_score(labels, probabilities)), float(f1_score(labels, hits))


def fitted(rows: Sequence[Row], names: Sequence[str], label: str = "lacks") -> Logistic:
    """Return the model of ``rows``; a signal that a row has not counts as the mean, as in use."""
    table = np.array([[row.signals.get(name, math.nan) for name in names] for row in rows])
    means, scales = np.nanmean(table, axis=0), np.nanstd(table, axis=0)
    scales = np.where(scales > 0, scales, 1.0)
    scaled = np.nan_to_num((table - means) / scales)
    labels = np.array([bool(getattr(row, label)) for row in rows])
    regression = LogisticRegression(C=STRENGTH, max_iter=1000).fit(scaled, labels)
    threshold = best_threshold(
        labels, regression.predict_proba(scaled)[:, 1], np.linspace(0.2, 0.8, 61)
    )
    return Logistic(
        tuple(names),
        tuple(means.tolist()),
        tuple(scales.tolist()),
        tuple(regression.coef_[0].tolist()),
        float(regression.intercept_[0]),
        threshold,
    )


def best_threshold(
    labels: NDArray[np.bool_], values: NDArray[np.float64], tried: NDArray[np.float64]
) -> float:
    """Return which of ``tried`` has the highest F1."""
    scores = [f1_score(labels, values >= threshold, zero_division=0) for threshold in tried]
    return round(float(tried[int(np.argmax(scores))]), 3)


def write_table(page: Path, metrics: dict[str, float], targets: Sequence[str]) -> None:
    """Renew what stands between the two marks of ``page``."""
    kinds = ("lacks_start", "lacks_end", "wrong_end")
    titles = ("lacks, first token", "lacks, end", "wrong, end")
    lines = [
        f"| signal | {' | '.join(f'{target}: {t}' for target in targets for t in titles)} |",
        f"|---|{'---|' * len(targets) * len(titles)}",
    ]
    for name in (*RETRIEVAL, *STATE, *SOURCE):
        values = [metrics[f"{kind}.{name}.{target}"] for target in targets for kind in kinds]
        lines.append(f"| `{name}` | {' | '.join(f'{value:.2f}' for value in values)} |")
    for label, key in (("state signals together", "state"), ("all together", "")):
        cells = []
        for target in targets:
            area = metrics[f"lacks_auc.{key + '.' if key else ''}{target}"]
            wrong = "" if key else f"{metrics[f'wrong_auc.{target}']:.2f}"
            cells += ["", f"{area:.2f}", wrong]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    text = page.read_text(encoding="utf-8")
    head, _, rest = text.partition(MARK_BEGIN)
    _, _, tail = rest.partition(MARK_END)
    table = "\n".join(lines)
    page.write_text(f"{head}{MARK_BEGIN}\n{table}\n{MARK_END}{tail}", encoding="utf-8")


def rounded(record: object) -> object:
    """Return a JSON value with numbers of five digits, so that a refit changes what it changes."""
    if isinstance(record, dict):
        return {name: rounded(value) for name, value in record.items()}
    return float(f"{record:.5g}") if isinstance(record, float) else record


if __name__ == "__main__":
    main()
