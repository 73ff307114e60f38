"""Judge whether the sufficiency of the passages helps drafted answers to abstain; fits nothing new.

Two experiments, both without running any language model:

- Questions with recorded drafts (``record_drafts.py``), each over all its documents, and once more
  over those that hold no right answer, with the drafts of these alone. The probability of the best
  answer is told by a model fitted on the other folds. Is an answer that is wrong known better with
  the sufficiency beside the probability?
- Questions with what was retrieved (``record_answers.py``), with the right passage and without it:
  from which bound on does a judgement "the passages lack the answer" cost how many questions whose
  passage is there? Only questions that the sufficiency was not fitted on.

Prints both, and one JSON object as the last line.

    python scripts/judge_abstention.py RECORDED.jsonl FOLDER [--embedder NAME] [--first N]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from fit_drafts import EVIDENCE, NUM_FOLDS, Example, example, fit, rated
from readahead.config import load_config
from readahead.evaluation.metrics import contains
from readahead.knowledge import load_embedder
from readahead.retrieval.base import Embedder
from readahead.speculation.answers.bars import thresholds
from readahead.speculation.retrieval.sufficiency import Sufficiency
from readahead.types import Hit
from record_answers import K, Retrieved, read_retrieved
from report import finish, options

BOUNDS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)


@dataclass(frozen=True, slots=True)
class Best:
    """The best answer to a question, and what is known of it.

    Attributes:
        probability: That it is right; 0 where no draft gives one.
        lacks: That the passages do not hold the answer.
        is_right: Whether it is.
        is_whole: Whether the documents that hold a right answer are there.
        fold: In which it was judged.
    """

    probability: float
    lacks: float
    is_right: bool
    is_whole: bool
    fold: int


def main() -> None:
    """Print both experiments."""
    parser = options(__doc__)
    parser.add_argument("recorded", type=Path, help="of record_drafts.py")
    parser.add_argument("folder", type=Path, help="of record_answers.py")
    parser.add_argument("--embedder", default="all-minilm-l6-v2")
    parser.add_argument("--first", type=int, default=1000, help="these were fitted on")
    given = parser.parse_args()
    embedder = load_embedder(load_config({"models.embedder": given.embedder}).models)
    records = [json.loads(line) for line in given.recorded.read_text("utf-8").splitlines()]
    answers = bests(records, embedder)
    found = [one for one in read_retrieved(given.folder)[given.first :] if is_usable(one)]
    metrics = beside_probability(answers) | alone(found)
    finish(
        "abstention",
        metrics,
        models={"embedder": given.embedder},
        workload="recorded drafts with and without the right documents; retrieved passages, too",
        n=len(records),
        out=given.out,
    )


def bests(records: Sequence[dict[str, Any]], embedder: Embedder) -> list[Best]:
    """Return the best answer to each question, with and without the documents that are right."""
    wholes = [example(record, ("drafter",), "") for record in records]
    found = []
    for number, (record, whole) in enumerate(zip(records, wholes, strict=True)):
        fold = number % NUM_FOLDS
        others = [e for i, e in enumerate(wholes) if i % NUM_FOLDS != fold and e.right]
        model = fit(others, EVIDENCE)
        for is_whole in (True, False):
            one = whole if is_whole else example(without_right(record), ("drafter",), "")
            if not one.case.hits:
                continue
            ratings = rated(one, model)
            best = ratings[0] if ratings else None
            judgement = Sufficiency(one.case.question, similar(one, embedder)).judge()
            found.append(
                Best(
                    best.probability if best else 0.0,
                    judgement.probability,
                    best is not None and one.right[one.candidates.index(best.candidate)],
                    is_whole,
                    fold,
                )
            )
    return found


def without_right(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record without the documents that hold a right answer, and without their drafts."""
    golds = [(gold,) for gold in record["golds"]]
    kept = [
        place
        for place, text in enumerate(record["documents"])
        if record["types"][place] != "correct" and not any(contains(text, gold) for gold in golds)
    ]
    moved = {place: number for number, place in enumerate(kept)}
    drafts = [
        {**draft, "places": [moved[place] for place in draft["places"]]}
        for draft in record["drafts"]["drafter"]
        if set(draft["places"]) <= moved.keys()
    ]
    documents = [record["documents"][place] for place in kept]
    return {**record, "documents": documents, "drafts": {"drafter": drafts}}


def similar(one: Example, embedder: Embedder) -> list[Hit]:
    """Return the documents as a search by meaning would: with similarities, the best first."""
    hits = one.case.hits
    vectors = embedder.embed_passages([hit.passage.text for hit in hits])
    alike = vectors @ embedder.embed_query(one.case.question)[0]
    told = [replace(hit, similarity=float(value)) for hit, value in zip(hits, alike, strict=True)]
    return sorted(told, key=lambda hit: -(hit.similarity or 0.0))


def beside_probability(answers: Sequence[Best]) -> dict[str, float]:
    """Print how well each tells wrong answers, and what a bound would take away."""
    wrong = np.array([not one.is_right for one in answers])
    lacking = np.array([not one.is_whole for one in answers])
    doubt = np.array([1 - one.probability for one in answers])
    lacks = np.array([one.lacks for one in answers])
    both = together(answers)
    metrics: dict[str, float] = {"num_answers": len(answers), "num_wrong": int(wrong.sum())}
    print(f"{len(answers)} answers, {wrong.sum()} of them wrong, {lacking.sum()} lack documents")
    print(f"{'AUC':<24} {'wrong':>8} {'lacks':>8}")
    for name, values in (("probability", doubt), ("sufficiency", lacks), ("both", both)):
        of_wrong = float(roc_auc_score(wrong, values))
        of_lacking = float(roc_auc_score(lacking, values))
        metrics |= {f"wrong_auc.{name}": of_wrong, f"lacks_auc.{name}": of_lacking}
        print(f"{name:<24} {of_wrong:8.3f} {of_lacking:8.3f}")
    return metrics | raised(answers)


def raised(answers: Sequence[Best]) -> dict[str, float]:
    """Print what a bound on the sufficiency takes from the answers that ``lenient`` gives.

    ``all``: nothing is answered from the bound on; ``weak``: what does not reach ``strict`` is not.
    """
    named = thresholds("evidence")
    given = [one for one in answers if one.probability >= named["lenient"]]
    num_right = sum(one.is_right for one in given)
    print(f"\nanswered: {num_right} right, {len(given) - num_right} wrong; from a bound on lost")
    print(f"{'bound':<24} {'all: right':>12} {'wrong':>6} {'weak: right':>12} {'wrong':>6}")
    metrics: dict[str, float] = {"right": num_right, "wrong": len(given) - num_right}
    for bound in BOUNDS:
        row = []
        for name, least in (("all", 1.1), ("weak", named["strict"])):
            taken = [one for one in given if one.lacks >= bound and one.probability < least]
            lost = sum(one.is_right for one in taken)
            row += [lost, len(taken) - lost]
            metrics |= {f"lost_right.{name}.{bound}": lost}
            metrics |= {f"lost_wrong.{name}.{bound}": len(taken) - lost}
        print(f"{bound:<24} {row[0]:12d} {row[1]:6d} {row[2]:12d} {row[3]:6d}")
    return metrics


def together(answers: Sequence[Best]) -> NDArray[np.float64]:
    """Return the probability of being wrong by both, each by a model of the other folds."""
    table = np.array([[logit(one.probability), logit(one.lacks)] for one in answers])
    wrong = np.array([not one.is_right for one in answers])
    folds = np.array([one.fold for one in answers])
    values = np.zeros(len(answers))
    for fold in range(NUM_FOLDS):
        model = LogisticRegression().fit(table[folds != fold], wrong[folds != fold])
        values[folds == fold] = model.predict_proba(table[folds == fold])[:, 1]
    return values


def logit(probability: float) -> float:
    """Return the log-odds, within ±6."""
    p = min(max(probability, 1e-9), 1 - 1e-9)
    return float(np.clip(np.log(p / (1 - p)), -6, 6))


def is_usable(found: Retrieved) -> bool:
    """Return whether the right passage was found, and its answer is in no other passage."""
    others = [hit for rank, hit in enumerate(found.hits) if rank != found.gold]
    return found.gold is not None and not any(
        contains(hit.passage.text, found.question.answers) for hit in others
    )


def alone(found: Sequence[Retrieved]) -> dict[str, float]:
    """Print how often a bound fires with the right passage and without it."""
    metrics: dict[str, float] = {"num_questions": len(found)}
    for num_judged in (K, 10):
        lacks = {
            present: np.array([judged(one, present, num_judged) for one in found])
            for present in (True, False)
        }
        labels = np.repeat([0, 1], len(found))
        area = float(roc_auc_score(labels, np.concatenate([lacks[True], lacks[False]])))
        metrics[f"auc.{num_judged}"] = area
        print(f"\n{len(found)} questions, {num_judged} passages judged: AUC {area:.3f}")
        print(f"{'bound':<24} {'there':>8} {'taken out':>10}")
        for bound in BOUNDS:
            there, out = (float((lacks[present] >= bound).mean()) for present in (True, False))
            metrics |= {f"there.{num_judged}.{bound}": there, f"out.{num_judged}.{bound}": out}
            print(f"{bound:<24} {there:8.3f} {out:10.3f}")
    return metrics


def judged(found: Retrieved, present: bool, num_judged: int) -> float:
    """Return how likely the best passages lack the answer, with the right one or without it."""
    hits = [hit for rank, hit in enumerate(found.hits) if present or rank != found.gold]
    return Sufficiency(found.question.text, hits[:num_judged]).judge().probability


if __name__ == "__main__":
    main()
