"""Fit how probable it is that an answer of the drafts is right, or wrong, and when to answer.

Reads what ``record_drafts.py`` recorded: nothing is written anew. Two variants are fitted: for the
preset ``fast`` from the drafter's drafts and their evidence, for ``accurate`` from both models'
drafts and the target's scores. For each it prints what a single answer brings and what several do,
by the probability of being right alone (``also``) and by the expected gain for several λ. Figures
are means over several cuts of the questions into folds; what is shipped is fitted on all. With
``--ship`` the numbers of one variant are written beside the modules that read them.

    python scripts/fit_drafts.py RECORDED.jsonl [--ship VARIANT]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import readahead.speculation.answers as answers
from readahead.evaluation.metrics import exact_match
from readahead.evaluation.ramdocs import Case, Score, score
from readahead.evidence.claims import Checker, Claim
from readahead.logistic import Logistic
from readahead.speculation.answers.choose import Choice, Rated, choose
from readahead.speculation.answers.pool import Candidate, pool
from readahead.speculation.answers.risk import risk_coverage, threshold_for
from readahead.speculation.answers.signals import signals
from readahead.speculation.answers.verify import Judged
from readahead.types import Draft, Hit, Passage

NUM_FOLDS, NUM_CUTS = 5, 6
FOLDER = Path(answers.__file__).parent
# Not "rank": the documents of RAMDocs are in no order.
EVIDENCE = ("held", "held_share", "agreeing", "own", "logprob", "coverage", "length", "claim")
VERIFIER = ("consistency", "consistency_lead", "support")
ALSO = (0.4, 0.5, 0.6, 0.7)
HARM = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0)  # λ
STRICT_ACCURACY, LENIENT_ACCURACY = 0.8, 0.6


@dataclass(frozen=True, slots=True)
class Variant:
    """Whose drafts are chosen from, and how.

    Attributes:
        authors: Of the drafts.
        judge: What the verifier was shown when it judged; "" where it was not asked.
        names: The signals.
        by_gain: Whether answers are chosen by expected gain, or by being right alone.
        regularization: Of the fit, inverse: more weights, or more doubt, want a smaller one.
    """

    authors: tuple[str, ...]
    judge: str
    names: tuple[str, ...]
    by_gain: bool
    regularization: float


VARIANTS = {
    "evidence": Variant(("drafter",), "", EVIDENCE, False, 0.1),
    "verified": Variant(("drafter", "target"), "closed", (*EVIDENCE, *VERIFIER), True, 0.03),
}


@dataclass(frozen=True, slots=True)
class Example:
    """One question with its candidates and what is known of each."""

    case: Case
    candidates: tuple[Candidate, ...]
    claims: tuple[Claim, ...]
    told: tuple[dict[str, float], ...]
    right: tuple[bool, ...]
    wrong: tuple[bool, ...]


Cut = list[tuple[Example, list[Rated]]]  # each question, rated by what the other folds told


def main() -> None:
    """Fit, print, and ship if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recorded", type=Path)
    parser.add_argument("--ship", choices=VARIANTS, help="write what was fitted for one variant")
    args = parser.parse_args()
    lines = args.recorded.read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    for name, variant in VARIANTS.items():
        examples = [example(record, variant.authors, variant.judge) for record in records]
        oracle = fmean(any(e.right) for e in examples)
        num_answers = sum(len(e.right) for e in examples)
        print(f"\n{name}: {len(examples)} questions, {num_answers} answers, oracle {oracle:.3f}")
        thresholds = settle(examples, variant)
        for left_out in variant.names:
            some = tuple(n for n in variant.names if n != left_out)
            tell(f"without {left_out}", cuts(examples, replace(variant, names=some)), **thresholds)
        print(f"  thresholds {rounded(thresholds)}")
        if args.ship == name:
            ship(name, variant, examples, thresholds)


def ship(
    name: str, variant: Variant, examples: Sequence[Example], thresholds: dict[str, float]
) -> None:
    """Write the models and the thresholds of a variant; those of others stay."""
    models = {name: fit(examples, variant.names, variant.regularization)}
    if variant.by_gain:
        models[f"{name}_wrong"] = fit(examples, variant.names, variant.regularization, "wrong")
    for file, model in models.items():
        write(FOLDER / f"{file}.json", rounded(model.to_json()))
    path = FOLDER / "thresholds.json"
    write(path, json.loads(path.read_text("utf-8")) | {name: rounded(thresholds)})


def write(path: Path, value: Any) -> None:
    """Write a JSON file."""
    path.write_text(json.dumps(value, indent=1) + "\n", "utf-8")


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
    scores = [score(case, one.answer) for one in candidates]
    return Example(
        case,
        tuple(candidates),
        tuple(claims),
        tuple(told),
        tuple(one.clean for one in scores),
        tuple(one.names_wrong for one in scores),
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


def fit(
    examples: Sequence[Example],
    names: Sequence[str],
    regularization: float = 0.1,
    label: str = "right",
) -> Logistic:
    """Return the model of being ``right`` or ``wrong``, fitted on all candidates."""
    rows = np.array([[told[name] for name in names] for e in examples for told in e.told])
    labels = np.array([is_so for e in examples for is_so in getattr(e, label)])
    means, scales = rows.mean(0), rows.std(0) + 1e-9
    # Every question counts the same, however many answers it has.
    weights = np.array([1 / len(e.right) for e in examples for _ in e.right])
    fitted = LogisticRegression(C=regularization, max_iter=1000).fit(
        (rows - means) / scales, labels, sample_weight=weights * len(weights) / weights.sum()
    )
    return Logistic(
        tuple(names),
        tuple(means.tolist()),
        tuple(scales.tolist()),
        tuple(fitted.coef_[0].tolist()),
        float(fitted.intercept_[0]),
    )


def cuts(examples: Sequence[Example], variant: Variant) -> list[Cut]:
    """Return all questions, each rated by models of the other folds, for several cuts into folds.

    The first cut is by position; the others are shuffled, each by its own seed.
    """
    whole = list(examples)
    orders = [whole] + [
        [whole[i] for i in np.random.default_rng(seed).permutation(len(whole))]
        for seed in range(1, NUM_CUTS)
    ]
    return [list(held_out(order, variant)) for order in orders]


def held_out(
    examples: Sequence[Example], variant: Variant
) -> Iterator[tuple[Example, list[Rated]]]:
    """Yield each question with its candidates, rated by models fitted on the other folds."""
    names, strength = variant.names, variant.regularization
    for fold in range(NUM_FOLDS):
        others = [e for i, e in enumerate(examples) if i % NUM_FOLDS != fold and e.right]
        model, wrong = fit(others, names, strength), fit(others, names, strength, "wrong")
        for e in examples[fold::NUM_FOLDS]:
            yield e, rated(e, model, wrong)


def rated(e: Example, model: Logistic, wrong: Logistic | None = None) -> list[Rated]:
    """Return the candidates with their probabilities, the most probable first."""
    found = [
        Rated(
            candidate,
            model.probability(told),
            told,
            claim,
            wrong=wrong.probability(told) if wrong else None,
        )
        for candidate, told, claim in zip(e.candidates, e.told, e.claims, strict=True)
    ]
    return sorted(found, key=lambda one: (-one.probability, one.candidate.answer))


def answered(choice: Choice, case: Case) -> Score:
    """Return how the answer of a choice scores."""
    text = "; ".join(one.candidate.answer for one in choice.selected)
    return score(case, text, abstained=not choice.selected)


def tell(title: str, found: Sequence[Cut], **chosen: float) -> float:
    """Print how a way to choose fares on questions that were not fitted on; return its worth.

    The worth is clean + strict / 2 − names_wrong.
    """
    bounds = {name: value for name, value in chosen.items() if name in ("also", "harm")}
    choices = [[(e.case, choose(r, threshold=0.0, **bounds)) for e, r in cut] for cut in found]
    scores = [[answered(choice, case) for case, choice in cut] for cut in choices]
    columns = ("clean", "strict", "names_wrong")
    figures = {c: [fmean(getattr(s, c) for s in cut) for cut in scores] for c in columns}
    said = "  ".join(
        f"{c} {fmean(values):.3f} ({min(values):.3f}–{max(values):.3f})"
        for c, values in figures.items()
    )
    given = fmean(len(choice.selected) for cut in choices for _, choice in cut)
    print(f"  {title:<26} {said}  answers {given:.2f}")
    clean, strict, wrong = (fmean(values) for values in figures.values())
    return clean + strict / 2 - wrong


def settle(examples: Sequence[Example], variant: Variant) -> dict[str, float]:
    """Return the thresholds, and ``also`` or ``harm``, by held-out probabilities."""
    found = cuts(examples, variant)
    tell("the most probable", found, also=1.1)
    worth = {
        "also": {bound: tell(f"also from {bound} on", found, also=bound) for bound in ALSO},
        "harm": {harm: tell(f"by gain, λ = {harm}", found, harm=harm) for harm in HARM},
    }["harm" if variant.by_gain else "also"]
    best = max(worth, key=lambda bound: worth[bound])
    kind = "harm" if variant.by_gain else "also"
    points = risk_coverage(*bests(found, **{kind: best}))
    for point in points[:: max(1, len(points) // 8)]:
        print(
            f"    coverage {point.coverage:.2f} threshold {point.threshold:.2f} "
            f"accuracy {point.accuracy:.2f}"
        )
    return {
        "strict": threshold_for(points, STRICT_ACCURACY) or 0.9,
        "lenient": threshold_for(points, LENIENT_ACCURACY) or 0.0,
        kind: best,
    }


def bests(found: Sequence[Cut], **bounds: float) -> tuple[list[float], list[bool]]:
    """Return the probability of each question's first answer, and whether that is right."""
    firsts = [
        (e.case, choose(r, threshold=0.0, **bounds).selected[0])
        for cut in found
        for e, r in cut
        if r
    ]
    right = [score(case, one.candidate.answer).clean for case, one in firsts]
    return [one.probability for _, one in firsts], right


def rounded(value: Any) -> Any:
    """Return the JSON value with four significant digits."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return value


if __name__ == "__main__":
    main()
