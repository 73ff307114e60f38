"""Fit the evidence checker on labelled claims, and judge it by folds.

No claim is judged by a model that has seen it, nor, where the file names what claims are about (as
WiCE does in ``meta``), another claim about the same. Prints balanced accuracy as mean and standard
deviation over shuffles, with each feature taken out, and with the similarity of sentence vectors
or the yes or no of a language model as one more; writes the model and prints one JSON object as the
last line.

    python scripts/fit_evidence.py --claims FILE [--embedder FOLDER] [--verifier NAME]
        [--minutes N] [--model FILE] [--page FILE]
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import readahead.evidence as package
from figures import renew
from readahead.config import Dtype
from readahead.evaluation.evidence import SUPPORTED, LabelledClaim, read_claims
from readahead.evidence.attribution import Similarity
from readahead.evidence.claims import Checker, Judge
from readahead.evidence.features import FEATURES
from readahead.lm.base import TextModel
from readahead.lm.model import load_named
from readahead.lm.prompt import Prompt
from readahead.logistic import Logistic
from report import SEED, finish, options
from typing_fit import ship

SYSTEM = "You are a careful fact checker."
ASKED = "Does the passage support all of the claim? Answer Yes or No."
MAX_SENTENCE_CHARS = 400
NUM_FOLDS = 10
NUM_SHUFFLES = 10
STRENGTH = 0.3  # of the regularisation: smaller holds the weights closer to 0
# What no claim of the fitted file has gets its weight by hand: the log-odds of a judge count whole.
JUDGE = ("judge", 0.0, 1.0, 1.0)

Rows = list[dict[str, float]]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Judged:
    """How good verdicts are on claims that were not seen; means over shuffles."""

    balanced_accuracy: float
    deviation: float
    auc: float


def main() -> None:
    """Fit, judge, write."""
    parser = options(__doc__)
    parser.add_argument("--claims", type=Path, required=True, help="as for eval evidence")
    parser.add_argument("--embedder", type=Path, help="a sentence-transformers model")
    parser.add_argument("--verifier", help="a model whose yes or no is asked")
    parser.add_argument("--dtype", default="auto", help="of the verifier")
    parser.add_argument("--minutes", type=float, help="after which no more claims are measured")
    parser.add_argument("--model", type=Path, help="where to write the model")
    parser.add_argument("--page", type=Path, help="a page whose table of figures is renewed")
    given = parser.parse_args()
    claims = read_claims(given.claims)
    similarity = cosines(given.embedder) if given.embedder else None
    verifier = YesOrNo.load(given.verifier, given.dtype) if given.verifier else None
    if given.minutes:
        random.Random(SEED).shuffle(claims)
    rows = measured_within(given.minutes, claims, similarity, verifier)
    claims = claims[: len(rows)]
    labels = np.array([claim.label == SUPPORTED for claim in claims])
    groups = [claim.group or claim.text for claim in claims]
    judge = partial(judged, rows=rows, labels=labels, groups=groups)
    results = {"all": judge(FEATURES)}
    results |= {f"without {n}": judge([m for m in FEATURES if m != n]) for n in FEATURES}
    more = [name for name in ("similarity", "judge") if any(name in row for row in rows)]
    results |= {f"with {name}": judge([*FEATURES, name]) for name in more}
    results |= {f"{name} alone": judge([name]) for name in more}
    lines = table(results)
    print("\n".join(lines))
    place = given.model or Path(next(iter(package.__path__))) / "claims.json"
    model = fitted(rows, labels, [*FEATURES, *more])
    ship(model if "judge" in more else with_judge(model), place)
    if given.page:
        renew(given.page, "\n".join(lines) + "\n", "scripts/fit_evidence.py")
    finish(
        "evidence",
        {
            f"{kind}.{name.replace(' ', '_')}": getattr(result, kind)
            for name, result in results.items()
            for kind in ("balanced_accuracy", "deviation", "auc")
        },
        models={"embedder": given.embedder.name}
        if given.embedder
        else {} | ({"verifier": given.verifier} if given.verifier else {}),
        workload=f"{NUM_FOLDS} folds, {NUM_SHUFFLES} shuffles; supported against the rest",
        n=len(claims),
        out=given.out,
    )


def measured_within(
    minutes: float | None,
    claims: Sequence[LabelledClaim],
    similarity: Similarity | None,
    judge: Judge | None,
) -> Rows:
    """Return the features of the claims, in order; of as many as the time allows."""
    rows: Rows = []
    begun = time.monotonic()
    for claim in claims:
        if minutes and time.monotonic() - begun > 60 * minutes:
            break
        rows.append(measured(claim, similarity, judge))
    return rows


def measured(
    claim: LabelledClaim, similarity: Similarity | None = None, judge: Judge | None = None
) -> dict[str, float]:
    """Return the features of a claim."""
    nothing = Logistic((), (), (), (), 0.0)
    checker = Checker([claim.passage()], model=nothing, similarity=similarity, judge=judge)
    return checker.check(claim.text).features


@dataclass(frozen=True, slots=True)
class YesOrNo:
    """A language model as a judge: p(Yes) / (p(Yes) + p(No)) behind sentences and claim."""

    model: TextModel

    @classmethod
    def load(cls, name: str, dtype: Dtype) -> YesOrNo:
        """Load a model that was pulled."""
        return cls(load_named(name, "auto", dtype))

    def __call__(self, claim: str, texts: Sequence[str]) -> float:
        """Return the probability of Yes."""
        tokenizer = self.model.tokenizer
        shown = " ".join(text[:MAX_SENTENCE_CHARS] for text in texts)
        head, tail = tokenizer.frame(SYSTEM)
        asked = f"Passage: {shown}\n\nClaim: {claim}\n\n{ASKED}"
        control, text = tokenizer.encode_control, tokenizer.encode(asked)
        prompt = Prompt(head + asked + tail, (*control(head), *text, *control(tail)))
        options = [tokenizer.encode(word)[0] for word in ("Yes", "No")]
        (scored,) = self.model.score([prompt], [[]], options=options)
        yes, no = scored.options
        return 1 / (1 + math.exp(no - yes))


def cosines(folder: Path) -> Similarity:
    """Return the similarity of a text and others under an embedder."""
    from readahead.retrieval.embed import SentenceTransformerEmbedder

    embedder = SentenceTransformerEmbedder(folder)

    def similarity(query: str, texts: Sequence[str]) -> list[float]:
        vectors = embedder.embed_passages([query, *texts])
        return [float(value) for value in vectors[1:] @ vectors[0]]

    return similarity


def judged(names: Sequence[str], *, rows: Rows, labels: Bools, groups: Sequence[str]) -> Judged:
    """Return how good the verdicts of models with these features are on other claims."""
    accuracies, areas = [], []
    for seed in range(NUM_SHUFFLES):
        folds = StratifiedGroupKFold(NUM_FOLDS, shuffle=True, random_state=seed)
        scores, verdicts = np.zeros(len(rows)), np.zeros(len(rows), dtype=bool)
        for seen, unseen in folds.split(rows, labels, groups):
            model = fitted([rows[i] for i in seen], labels[seen], names)
            for i in unseen:
                scores[i] = model.probability(rows[i])
                verdicts[i] = scores[i] >= model.threshold
        accuracies.append(balanced_accuracy_score(labels, verdicts))
        areas.append(roc_auc_score(labels, scores))
    return Judged(float(np.mean(accuracies)), float(np.std(accuracies)), float(np.mean(areas)))


def fitted(rows: Rows, labels: Bools, names: Sequence[str]) -> Logistic:
    """Return the model of these claims.

    The threshold is the share of supported claims: where probabilities are right, that is where
    balanced accuracy is best, and nothing is fitted for it.
    """
    values = np.array([[row.get(name, np.nan) for name in names] for row in rows])
    means, scales = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    scales[scales == 0] = 1.0
    regression = LogisticRegression(C=STRENGTH, max_iter=1000)
    regression.fit(np.nan_to_num((values - means) / scales), labels)
    return Logistic(
        tuple(names),
        tuple(means.tolist()),
        tuple(scales.tolist()),
        tuple(regression.coef_[0].tolist()),
        float(regression.intercept_[0]),
        round(float(labels.mean()), 3),
    )


def with_judge(model: Logistic) -> Logistic:
    """Return the model with the weight of a judge, if it has none."""
    name, mean, scale, weight = JUDGE
    return Logistic(
        (*model.names, name),
        (*model.means, mean),
        (*model.scales, scale),
        (*model.weights, weight),
        model.bias,
        model.threshold,
    )


def table(results: dict[str, Judged]) -> list[str]:
    """Return the results as a table."""
    lines = ["| features | balanced accuracy | ± | AUC |", "|---|---|---|---|"]
    return lines + [
        f"| {name} | {one.balanced_accuracy:.3f} | {one.deviation:.3f} | {one.auc:.3f} |"
        for name, one in results.items()
    ]


if __name__ == "__main__":
    main()
