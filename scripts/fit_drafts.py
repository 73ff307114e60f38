"""Fit how probable it is that an answer of the drafts is right, and from where on to answer.

Reads what ``record_drafts.py`` recorded: nothing is written anew. Two models are fitted: for the
preset ``fast`` from the drafter's drafts and their evidence, for ``accurate`` from the target's and
its scores. Figures are means over folds of whole questions; what is shipped is fitted on
all. With ``--ship`` the numbers are written beside the modules that read them.

    python scripts/fit_drafts.py RECORDED.jsonl [--ship]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import readahead.speculation.answers as answers
from readahead.evaluation.metrics import exact_match
from readahead.evaluation.ramdocs import Case, Score, score
from readahead.evidence.claims import Checker, Claim
from readahead.logistic import Logistic
from readahead.speculation.answers.choose import Choice, Rated, choose, signals
from readahead.speculation.answers.pool import Candidate, pool
from readahead.speculation.answers.risk import risk_coverage, threshold_for
from readahead.speculation.answers.verify import Judged
from readahead.types import Draft, Hit, Passage

NUM_FOLDS = 5
FOLDER = Path(answers.__file__).parent
# Not "rank": the documents of RAMDocs are in no order.
EVIDENCE = ("held", "held_share", "agreeing", "own", "logprob", "coverage", "length", "claim")
VERIFIER = ("consistency", "consistency_lead", "support")
# Whose drafts are chosen from, behind what the verifier judges, and by which signals.
VARIANTS: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "evidence": (("drafter",), "", EVIDENCE),
    "verified": (("target",), "closed", (*EVIDENCE, *VERIFIER)),
}
GRID = [round(0.05 * i, 2) for i in range(1, 20)]
STRICT_ACCURACY, LENIENT_ACCURACY = 0.8, 0.6


@dataclass(frozen=True, slots=True)
class Example:
    """One question with its candidates and what is known of each."""

    case: Case
    candidates: tuple[Candidate, ...]
    claims: tuple[Claim, ...]
    told: tuple[dict[str, float], ...]
    right: tuple[bool, ...]


def main() -> None:
    """Fit, print, and ship if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recorded", type=Path)
    parser.add_argument("--ship", action="store_true")
    args = parser.parse_args()
    lines = args.recorded.read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    shipped: dict[str, Any] = {}
    for name, (authors, judge, names) in VARIANTS.items():
        examples = [example(record, authors, judge) for record in records]
        print(f"{name}: {len(examples)} questions, {sum(len(e.right) for e in examples)} answers")
        report(examples, names)
        for left_out in names:
            report(examples, tuple(n for n in names if n != left_out), f"without {left_out}")
        model = fit(examples, names)
        thresholds = settle(examples, names)
        print(f"  thresholds {thresholds}")
        shipped[name] = (model, thresholds)
    if args.ship:
        for name, (model, _) in shipped.items():
            text = json.dumps(rounded(model.to_json()), indent=1)
            (FOLDER / f"{name}.json").write_text(text + "\n", "utf-8")
        text = json.dumps({name: thresholds for name, (_, thresholds) in shipped.items()}, indent=1)
        (FOLDER / "thresholds.json").write_text(text + "\n", "utf-8")


def example(record: dict[str, Any], authors: Sequence[str], judge: str) -> Example:
    """Return what choosing would have known of a question."""
    hits = [
        Hit(Passage(str(place), text, 0, len(text), id=str(place)), 1.0 / (1 + place))
        for place, text in enumerate(record["documents"])
    ]
    drafts = [draft(written, author) for author in authors for written in record["drafts"][author]]
    question = record["question"]
    candidates = pool(question, drafts, [hit.passage for hit in hits])
    judged = [judgement(record, one, judge) for one in candidates] if judge else None
    checker = Checker([hit.passage for hit in hits])
    claims = [checker.check(one.answer, question=question) for one in candidates]
    told = signals(question, candidates, drafts, hits, claims, judged)
    golds = tuple((gold,) for gold in record["golds"])
    wrongs = tuple(w for w in record["wrongs"] if not any(exact_match(w, g) for g in golds))
    case = Case(question, golds, wrongs, tuple(hits))
    return Example(
        case,
        tuple(candidates),
        tuple(claims),
        tuple(told),
        tuple(score(case, one.answer).clean > 0 for one in candidates),
    )


def draft(written: dict[str, Any], author: str) -> Draft:
    """Return a recorded draft."""
    known = {field.name for field in fields(Draft)}
    kept = {name: value for name, value in written.items() if name in known}
    by = "drafter" if author == "drafter" else "target"
    return Draft(**{**kept, "places": tuple(kept["places"]), "author": by})


def judgement(record: dict[str, Any], candidate: Candidate, judge: str) -> Judged:
    """Return what the verifier thought of the candidate's wording."""
    return Judged(**record["judged"][candidate.answer][judge])


def fit(examples: Sequence[Example], names: Sequence[str]) -> Logistic:
    """Return the model fitted on all candidates of all questions."""
    rows = np.array([[told[name] for name in names] for e in examples for told in e.told])
    labels = np.array([right for e in examples for right in e.right])
    means, scales = rows.mean(0), rows.std(0) + 1e-9
    # Every question counts the same, however many answers it has.
    weights = np.array([1 / len(e.right) for e in examples for _ in e.right])
    fitted = LogisticRegression(C=0.1, max_iter=1000).fit(
        (rows - means) / scales, labels, sample_weight=weights * len(weights) / weights.sum()
    )
    return Logistic(
        tuple(names),
        tuple(means.tolist()),
        tuple(scales.tolist()),
        tuple(fitted.coef_[0].tolist()),
        float(fitted.intercept_[0]),
    )


def held_out(
    examples: Sequence[Example], names: Sequence[str]
) -> Iterator[tuple[Example, Logistic]]:
    """Yield each question with a model that was fitted on the other folds."""
    for fold in range(NUM_FOLDS):
        others = [e for i, e in enumerate(examples) if i % NUM_FOLDS != fold and e.right]
        model = fit(others, names)
        for e in examples[fold::NUM_FOLDS]:
            yield e, model


def rated(e: Example, model: Logistic) -> list[Rated]:
    """Return the candidates with their probabilities, the most probable first."""
    found = [
        Rated(candidate, model.probability(told), told, claim)
        for candidate, told, claim in zip(e.candidates, e.told, e.claims, strict=True)
    ]
    return sorted(found, key=lambda one: (-one.probability, one.candidate.answer))


def answered(choice: Choice, case: Case) -> Score:
    """Return how the answer of a choice scores."""
    text = "; ".join(one.candidate.answer for one in choice.selected)
    return score(case, text, abstained=not choice.selected)


def report(examples: Sequence[Example], names: Sequence[str], title: str = "all") -> None:
    """Print how choosing fares on questions that were not fitted on, for a few thresholds."""
    pairs = [(e, rated(e, model)) for e, model in held_out(examples, names)]
    line = []
    for also in (1.1, 0.6, 0.5, 0.4):
        scores = [answered(choose(r, threshold=0.0, also=also), e.case) for e, r in pairs]
        n = len(scores)
        clean, strict, wrong = (
            sum(getattr(s, name) for s in scores) / n for name in ("clean", "strict", "names_wrong")
        )
        line.append(f"also {also}: clean {clean:.3f} strict {strict:.3f} wrong {wrong:.3f}")
    oracle = sum(any(e.right) for e in examples) / len(examples)
    print(f"  {title:<26} oracle {oracle:.3f} | " + " | ".join(line))


def settle(examples: Sequence[Example], names: Sequence[str]) -> dict[str, float]:
    """Return the thresholds of ``strict``, ``lenient`` and ``also`` by held-out probabilities."""
    pairs = [(e, rated(e, model)) for e, model in held_out(examples, names)]
    best = [
        (r[0].probability, score(e.case, r[0].candidate.answer).clean > 0) for e, r in pairs if r
    ]
    points = risk_coverage([p for p, _ in best], [right for _, right in best])
    for point in points[:: max(1, len(points) // 8)]:
        print(
            f"    coverage {point.coverage:.2f} threshold {point.threshold:.2f} "
            f"accuracy {point.accuracy:.2f}"
        )
    also = max(
        GRID,
        key=lambda bound: sum(
            (s := answered(choose(r, threshold=0.0, also=bound), e.case)).clean + 0.5 * s.strict
            for e, r in pairs
        ),
    )
    return {
        "strict": threshold_for(points, STRICT_ACCURACY) or 0.9,
        "lenient": threshold_for(points, LENIENT_ACCURACY) or 0.0,
        "also": also,
    }


def rounded(value: Any) -> Any:
    """Return the JSON value with four significant digits."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return value


if __name__ == "__main__":
    main()
