"""Compare answers chosen among drafts with plain ones, over the same passages.

Every system of ``contest`` answers every question, in turns, in one process. ``best_of_drafts``
knows the right answers, and joins those of the accurate run's drafts that are clean: what choosing
could reach.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import fmean, median
from typing import Any, Self

import numpy as np

from readahead.errors import InputError
from readahead.evaluation.answers import FailedQuestion
from readahead.evaluation.contest import PLAIN, PRESETS, SYSTEMS, Contest, Cost, Reply
from readahead.evaluation.ramdocs import Case, Score, score
from readahead.types import Hit, Passage

BEST_OF_DRAFTS = "best_of_drafts"
_LAMP = "The lamp was lit in 1846."
_FIRST = Case("When was it lit?", (), hits=(Hit(Passage("lamp", _LAMP, 0, len(_LAMP)), 1.0),))


@dataclass(frozen=True, slots=True)
class Figures:
    """How right one system is, how fast, and for how many tokens.

    Shares of the questions, and means over them. Tokens are those that went through a model.
    """

    strict: float
    clean: float
    contains_gold: float
    names_wrong: float
    abstained: float
    seconds_mean: float
    seconds_p50: float
    seconds_p95: float
    cpu_seconds: float
    target_tokens: float
    drafter_tokens: float


@dataclass(frozen=True, slots=True)
class Row:
    """One question, and what each system says."""

    case: Case
    replies: Mapping[str, Reply]

    def score(self, system: str) -> Score:
        """Return how right a system's reply is."""
        reply = self.replies[system]
        return score(self.case, reply.text, abstained=reply.abstained)

    def to_json(self) -> dict[str, object]:
        """Return the question as JSON values, what was said, and how right it is."""
        replies = {
            name: {"text": reply.text} | asdict(self.score(name)) | asdict(reply.cost)
            for name, reply in self.replies.items()
        }
        return {"question": self.case.question, "replies": replies}

    @classmethod
    def from_json(cls, case: Case, record: Mapping[str, Any]) -> Self:
        """Return what ``to_json`` described, without the drafts."""
        names = [one.name for one in fields(Cost)]
        replies = {
            system: Reply(
                reply["text"], reply["abstained"], Cost(**{name: reply[name] for name in names})
            )
            for system, reply in record["replies"].items()
        }
        return cls(case, replies)


@dataclass(frozen=True, slots=True)
class DraftsReport:
    """How systems compare over the questions that all of them could be asked.

    Attributes:
        systems: Their figures, by name.
        time_ratio: The seconds of a preset, all questions together, to those of ``plain``;
            ``cpu_ratio`` is that of the seconds that the processor was busy.
        failed: Questions that cannot be asked, for instance because they are too long.
    """

    num_questions: int
    systems: Mapping[str, Figures]
    time_ratio: Mapping[str, float]
    cpu_ratio: Mapping[str, float]
    rows: tuple[Row, ...] = ()
    failed: tuple[FailedQuestion, ...] = ()

    def metrics(self) -> dict[str, float]:
        """Return all figures, by names such as ``clean.fast``."""
        metrics = {
            f"{name}.{system}": float(value)
            for system, figures in self.systems.items()
            for name, value in asdict(figures).items()
        }
        times = {f"time_ratio.{name}": ratio for name, ratio in self.time_ratio.items()}
        return metrics | times | {f"cpu_ratio.{name}": r for name, r in self.cpu_ratio.items()}

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON values."""
        return {
            "num_questions": self.num_questions,
            "systems": {name: asdict(figures) for name, figures in self.systems.items()},
            "time_ratio": dict(self.time_ratio),
            "cpu_ratio": dict(self.cpu_ratio),
            "questions": [row.to_json() for row in self.rows],
            "failed": [asdict(failure) for failure in self.failed],
        }


def evaluate_drafts(
    cases: Sequence[Case],
    contest: Contest,
    systems: Sequence[str] = SYSTEMS,
    *,
    progress: Callable[[int, int], None] | None = None,
    on_row: Callable[[Row], None] | None = None,
) -> DraftsReport:
    """Ask every system every question; who comes first changes with each.

    A question that raises InputError is listed in ``failed``, and stops nothing.

    Args:
        cases: With their hits.
        contest: What asks.
        systems: Some of ``SYSTEMS``.
        progress: Called with the questions done and the questions in all.
        on_row: Called with each question that did not fail.
    """
    for system in systems:
        contest.ask(system, _FIRST)  # a first pass is slow
    rows: list[Row] = []
    failed: list[FailedQuestion] = []
    for number, case in enumerate(cases):
        try:
            row = _row(case, contest, _rotated(systems, number))
        except InputError as error:
            failed.append(FailedQuestion(case.question, str(error)))
        else:
            rows.append(row)
            if on_row is not None:
                on_row(row)
        if progress is not None:
            progress(number + 1, len(cases))
    return report(rows, failed)


def report(rows: Sequence[Row], failed: Sequence[FailedQuestion] = ()) -> DraftsReport:
    """Return how the systems of the rows compare."""
    systems = {name: _figures(name, rows) for name in (rows[0].replies if rows else ())}
    return DraftsReport(
        num_questions=len(rows),
        systems=systems,
        time_ratio=_to_plain({name: one.seconds_mean for name, one in systems.items()}),
        cpu_ratio=_to_plain({name: one.cpu_seconds for name, one in systems.items()}),
        rows=tuple(rows),
        failed=tuple(failed),
    )


def best_of_drafts(case: Case, reply: Reply) -> Reply:
    """Return what the best choice among the drafts of a reply would be: all clean ones, or none."""
    sound = dict.fromkeys(draft.answer for draft in reply.drafts if not draft.fault)
    clean = [answer for answer in sound if score(case, answer).clean]
    return Reply("; ".join(clean), not clean, reply.cost, reply.drafts)


def _to_plain(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return what the presets take of what ``plain`` takes; nothing where that was not asked."""
    plain_s = seconds.get(PLAIN, 0.0)
    return {name: seconds[name] / plain_s for name in PRESETS if name in seconds and plain_s}


def _row(case: Case, contest: Contest, order: Sequence[str]) -> Row:
    replies = {system: contest.ask(system, case) for system in order}
    replies = {system: replies[system] for system in SYSTEMS if system in replies}
    if reply := replies.get("accurate"):
        replies[BEST_OF_DRAFTS] = best_of_drafts(case, reply)
    return Row(case, replies)


def _rotated(systems: Sequence[str], by: int) -> list[str]:
    """Return the systems from another one on, around."""
    first = by % len(systems)
    return [*systems[first:], *systems[:first]]


def _figures(system: str, rows: Sequence[Row]) -> Figures:
    scores = [row.score(system) for row in rows]
    costs = [row.replies[system].cost for row in rows]
    seconds = [cost.seconds for cost in costs]
    return Figures(
        strict=fmean(score.strict for score in scores),
        clean=fmean(score.clean for score in scores),
        contains_gold=fmean(score.contains_gold for score in scores),
        names_wrong=fmean(score.names_wrong for score in scores),
        abstained=fmean(score.abstained for score in scores),
        seconds_mean=fmean(seconds),
        seconds_p50=median(seconds),
        seconds_p95=float(np.quantile(seconds, 0.95)),
        cpu_seconds=fmean(cost.cpu_seconds for cost in costs),
        target_tokens=fmean(cost.num_target_tokens for cost in costs),
        drafter_tokens=fmean(cost.num_drafter_tokens for cost in costs),
    )
