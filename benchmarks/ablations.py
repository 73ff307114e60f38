"""What each part of choosing among drafts adds, told from drafts that are recorded once.

Recorded are, of each question: drafts from several choices of passages, the target's own drafts of
single passages, and what the verifier thinks of every different answer. Each variant then chooses
among some of them with a model that is told some of the signals; no model writes anything again.
There is one round: what is refined in a second one does not show here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Self

from readahead.evaluation.contest import Contest, vectors_of
from readahead.evaluation.ramdocs import Case, score
from readahead.lm.base import TextModel
from readahead.logistic import Logistic
from readahead.retrieval.base import Embedder
from readahead.speculation.answers.bars import Bars
from readahead.speculation.answers.choose import Choice, choose, fitted, rate
from readahead.speculation.answers.drafts import Drafter
from readahead.speculation.answers.pool import pool
from readahead.speculation.answers.subsets import STRATEGIES, Subset, choose_subsets
from readahead.speculation.answers.verify import Judged, Statement, Verifier
from readahead.types import Draft, DraftAuthor

BATCHES = {
    "single.m1": ("single", 1),
    "single.m3": ("single", 3),
    "single.m5": ("single", 5),
    "single.m10": ("single", 10),
    "random.m5": ("random", 5),
    "perspectives.m5": ("perspectives", 5),
}
MOST = "single.m10"
MODELS = {"fast": "evidence", "accurate": "verified"}  # as shipped, by preset
WITHOUT = {
    "consistency": frozenset({"consistency", "consistency_lead"}),
    "support": frozenset({"support"}),
    "evidence": frozenset(
        {"held", "held_share", "own", "coverage", "rank", "claim", "conflict"},
    ),
}


@dataclass(frozen=True, slots=True)
class Batch:
    """Drafts that were written together."""

    drafts: tuple[Draft, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Recorded:
    """One question, and all that may be chosen from.

    Attributes:
        batches: By the names of ``BATCHES``; ``target`` are the target's own.
        judged: What the verifier thinks of each answer.
    """

    case: Case
    batches: Mapping[str, Batch]
    judged: Mapping[str, Judged]

    def to_json(self) -> dict[str, object]:
        """Return the question, its drafts and what is thought of them as JSON values."""
        return {
            "question": self.case.question,
            "batches": {name: asdict(batch) for name, batch in self.batches.items()},
            "judged": {answer: asdict(judged) for answer, judged in self.judged.items()},
        }

    @classmethod
    def from_json(cls, case: Case, record: Mapping[str, Any]) -> Self:
        """Return what ``to_json`` described."""
        batches = {
            name: Batch(
                tuple(Draft(**draft | {"places": tuple(draft["places"])}) for draft in b["drafts"]),
                b["seconds"],
            )
            for name, b in record["batches"].items()
        }
        judged = {answer: Judged(**one) for answer, one in record["judged"].items()}
        return cls(case, batches, judged)


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to choose.

    Attributes:
        batch: The drafts to choose from.
        preset: ``fast``, or ``accurate``: with the target's drafts and the verifier.
        model: From signals to probabilities.
        wrong: From signals to those of being wrong.
    """

    batch: str
    preset: str
    model: Logistic
    wrong: Logistic | None = None


def record(case: Case, contest: Contest, embedder: Embedder) -> Recorded:
    """Write and judge the drafts of one question.

    Raises:
        ContextOverflow: The question does not fit.
    """
    config = contest.config.drafts
    passages = [hit.passage for hit in case.hits]

    def write(
        model: TextModel, subsets: Sequence[Subset], author: DraftAuthor = "drafter"
    ) -> Batch:
        drafter = Drafter(model, config.with_rationale, config.max_new_tokens, author)
        drafts, cost = contest.measured(lambda: drafter.draft(case.question, passages, subsets))
        return Batch(tuple(drafts), cost.seconds)

    by_name = _subsets(case, contest, embedder)
    written = {
        subsets: write(contest.drafter, subsets) for subsets in dict.fromkeys(by_name.values())
    }
    batches = {name: written[subsets] for name, subsets in by_name.items()}
    batches["target"] = write(contest.target, by_name[MOST], "target")
    sound = [d.answer for batch in batches.values() for d in batch.drafts if not d.fault]
    answers = list(dict.fromkeys(sound))
    shown = passages if config.with_passages else ()
    judged = Verifier(contest.target).judge(case.question, [Statement(a) for a in answers], shown)
    return Recorded(case, batches, dict(zip(answers, judged, strict=True)))


def variants(models: Mapping[str, Logistic]) -> dict[str, Variant]:
    """Return what is compared, by name.

    Args:
        models: Replace those that are shipped: ``fast``, ``accurate``, ``accurate_wrong``, and
            those that were fitted without some signals, such as ``without_evidence``. Where one of
            the latter lacks, that of ``accurate`` is told nothing of these signals: its other
            weights stay.
    """
    shipped = {preset: fitted(name) for preset, name in MODELS.items()}
    models = {**shipped, "accurate_wrong": fitted("verified_wrong"), **models}
    found = {
        f"{preset}.{batch}": Variant(batch, preset, models[preset], models.get(f"{preset}_wrong"))
        for batch, (strategy, _) in BATCHES.items()
        for preset in MODELS
        if preset == "fast" or strategy == "single"  # of which the target's drafts are recorded
    }
    for what, names in WITHOUT.items():
        name = f"without_{what}"
        model = models.get(name) or without(models["accurate"], names)
        wrong = models.get(f"{name}_wrong") or without(models["accurate_wrong"], names)
        found[name] = Variant(MOST, "accurate", model, wrong)
    return found


def without(model: Logistic, names: frozenset[str]) -> Logistic:
    """Return the model that knows nothing of some signals: they count as their means."""
    told = model.to_json()
    told["features"] = {n: f for n, f in told["features"].items() if n not in names}
    return Logistic.from_json(told)


def compare(
    recorded: Sequence[Recorded], contest: Contest, models: Mapping[str, Logistic]
) -> dict[str, float]:
    """Print one line for each variant; return its figures, by names such as ``clean.NAME``.

    ``top`` is the share of questions whose most probable answer is clean, however improbable;
    ``perplexity`` is that of the selection, where there is an answer at all; ``draft_s`` is what
    the drafts took, for ``accurate`` with all of the target's.
    """
    columns = ("strict", "clean", "names_wrong", "abstained", "top", "perplexity", "draft_s")
    print(f"\n{'':<26}", *(f"{column:>11}" for column in columns))
    metrics: dict[str, float] = {}
    for name, variant in variants(models).items():
        rows = [_figures(one, variant, contest) for one in recorded]
        means = {column: fmean(row[column] for row in rows) for column in columns}
        spread = [row["perplexity"] for row in rows if row["perplexity"]]
        means["perplexity"] = fmean(spread) if spread else 0.0
        print(f"{name:<26}", *(f"{value:>11.3f}" for value in means.values()))
        metrics |= {f"{column}.{name}": value for column, value in means.items()}
    return metrics


def _subsets(case: Case, contest: Contest, embedder: Embedder) -> dict[str, tuple[Subset, ...]]:
    """Return the passages of each draft of each batch."""
    config = contest.config.drafts
    vectors, query = vectors_of(case, embedder)
    return {
        name: tuple(
            choose_subsets(
                STRATEGIES[strategy],
                case.hits,
                vectors,
                query,
                m=m,
                k=config.passages_per_draft,
                seed=config.seed,
            )
        )
        for name, (strategy, m) in BATCHES.items()
    }


def _figures(recorded: Recorded, variant: Variant, contest: Contest) -> dict[str, float]:
    """Return how right one variant is on one question."""
    case, choice = recorded.case, _choice(recorded, variant, contest)
    said = "; ".join(one.candidate.answer for one in choice.selected)
    found = score(case, said, abstained=not said)
    batches = [recorded.batches[variant.batch]]
    if variant.preset == "accurate":
        batches.append(recorded.batches["target"])
    rated = choice.rated
    return {
        "strict": found.strict,
        "clean": found.clean,
        "names_wrong": found.names_wrong,
        "abstained": found.abstained,
        "top": bool(rated) and score(case, rated[0].candidate.answer).clean,
        "perplexity": choice.perplexity,
        "draft_s": sum(batch.seconds for batch in batches),
    }


def _choice(recorded: Recorded, variant: Variant, contest: Contest) -> Choice:
    """Return what a variant chooses for one question."""
    case, config = recorded.case, contest.config.drafts
    drafts = recorded.batches[variant.batch].drafts
    is_judged = variant.preset == "accurate"
    if is_judged:
        drafts = (*drafts, *recorded.batches["target"].drafts[: len(drafts)])
    candidates = pool(case.question, drafts, [hit.passage for hit in case.hits])
    judged = [recorded.judged[one.answer] for one in candidates] if is_judged else None
    rated = rate(
        case.question,
        candidates,
        drafts,
        case.hits,
        judged,
        model=variant.model,
        wrong=variant.wrong,
    )
    bars = Bars(config.model_copy(update={"preset": variant.preset}))
    return choose(rated, threshold=bars.threshold(), also=bars.also, harm=bars.harm)
