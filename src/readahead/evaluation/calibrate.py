"""Fit the probability of being right to a user's own labelled questions, and say what it buys."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, Self

import numpy as np

from readahead.config import Config
from readahead.drafted import DraftedRun, Failed
from readahead.engine import Engine
from readahead.errors import InputError
from readahead.evaluation.answers import FailedQuestion
from readahead.evaluation.datasets import Question
from readahead.evaluation.metrics import contains
from readahead.lm.base import never
from readahead.speculation.answers.breaker import Breaker
from readahead.speculation.answers.calibration import (
    CALIBRATION_FILE,
    Calibration,
    fit_isotonic,
    fit_platt,
)
from readahead.speculation.answers.risk import (
    Point,
    area_under,
    brier_score,
    calibration_error,
    risk_coverage,
)
from readahead.trace import Trace
from readahead.types import Answer

Kind = Literal["platt", "isotonic"]
FITS: Mapping[str, Callable[[Sequence[float], Sequence[bool]], Calibration]] = {
    "platt": fit_platt,
    "isotonic": fit_isotonic,
}
MIN_QUESTIONS = 10
MIN_ISOTONIC = 200  # questions; below them a curve of two numbers is all that they justify
NUM_FOLDS = 5


@dataclass(frozen=True, slots=True)
class Labelled:
    """The most probable answer to a question.

    Attributes:
        probability: Before calibration.
        is_right: Whether one of the right answers stands in it.
    """

    question: str
    answer: str
    probability: float
    is_right: bool


@dataclass(frozen=True, slots=True)
class Trust:
    """How far to trust probabilities; 0 is best for both."""

    calibration_error: float
    brier: float

    @classmethod
    def of(cls, probabilities: Sequence[float], right: Sequence[bool]) -> Self:
        """Return both figures for answers of which some are right."""
        return cls(calibration_error(probabilities, right), brier_score(probabilities, right))


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """What calibrating brings; all figures but ``before`` are cross-validated.

    Attributes:
        num_questions: That were asked.
        accuracy: The share of right answers among ``labelled``.
        before: Of the probabilities as they come.
        after: Of calibrated ones, each told by a map that was fitted without its question.
        area: The mean risk over all coverages.
        curve: What each threshold on calibrated probabilities buys, the strictest first; coverage
            is of the questions that got an answer.
        calibration: The map, fitted to all of ``labelled``.
        labelled: The questions for which a draft gave an answer.
        failed: Questions that could not be asked.
    """

    kind: str
    num_questions: int
    accuracy: float
    before: Trust
    after: Trust
    area: float
    curve: tuple[Point, ...]
    calibration: Calibration
    labelled: tuple[Labelled, ...]
    failed: tuple[FailedQuestion, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {**asdict(self), "calibration": self.calibration.to_json()}


def calibrate(
    questions: Sequence[Question],
    ask: Callable[[str], Answer],
    *,
    kind: Kind | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> CalibrationReport:
    """Ask every question, and fit the probabilities of the best answers to what is right.

    A question that cannot be asked is listed in ``failed``, and stops nothing. To one without a
    right answer every answer is wrong.

    Args:
        questions: With their right answers.
        ask: Returns an answer with its audit, uncalibrated.
        kind: Of the map; None: by the number of questions.
        seed: Of the folds.
        progress: Called with the questions done and the questions in all.

    Raises:
        InputError: There are too few questions, or all answers are right, or all are wrong.
    """
    check_enough(len(questions), "questions were given")
    labelled: list[Labelled] = []
    failed: list[FailedQuestion] = []
    for number, question in enumerate(questions, start=1):
        try:
            labelled += _labelled(question, ask(question.text))
        except (InputError, Failed) as failure:
            failed.append(FailedQuestion(question.text, str(failure)))
        if progress is not None:
            progress(number, len(questions))
    return report(len(questions), labelled, failed, kind=kind, seed=seed)


def report(
    num_questions: int,
    labelled: Sequence[Labelled],
    failed: Sequence[FailedQuestion] = (),
    *,
    kind: Kind | None = None,
    seed: int = 0,
) -> CalibrationReport:
    """Return the map for these answers, and what it brings; see ``calibrate``."""
    check_enough(len(labelled), "questions got an answer")
    scores = [one.probability for one in labelled]
    right = [one.is_right for one in labelled]
    if len(set(right)) == 1:
        raise InputError(
            f"All {len(right)} answers are {'right' if right[0] else 'wrong'}: nothing tells a "
            "right answer from a wrong one.",
            remedy="Label other questions.",
        )
    chosen = kind or ("isotonic" if len(labelled) >= MIN_ISOTONIC else "platt")
    probabilities = cross_validated(scores, right, FITS[chosen], seed=seed)
    curve = risk_coverage(probabilities, right)
    return CalibrationReport(
        kind=chosen,
        num_questions=num_questions,
        accuracy=fmean(right),
        before=Trust.of(scores, right),
        after=Trust.of(probabilities, right),
        area=area_under(curve),
        curve=tuple(curve),
        calibration=FITS[chosen](scores, right),
        labelled=tuple(labelled),
        failed=tuple(failed),
    )


def check_enough(num_questions: int, what: str) -> None:
    """Raise InputError if there are too few questions to calibrate on."""
    if num_questions < MIN_QUESTIONS:
        raise InputError(
            f"Only {num_questions} {what}; calibrating takes {MIN_QUESTIONS}.",
            remedy="Label more questions.",
        )


def _labelled(question: Question, answer: Answer) -> list[Labelled]:
    """Return the most probable answer, if there is one."""
    found: Any = answer.audit.get("candidates") or ()
    return [
        Labelled(
            question=question.text,
            answer=best["answer"],
            probability=best["probability"],
            is_right=contains(best["answer"], question.answers) > 0,
        )
        for best in found[:1]
    ]


def cross_validated(
    scores: Sequence[float],
    right: Sequence[bool],
    fit: Callable[[Sequence[float], Sequence[bool]], Calibration],
    *,
    seed: int = 0,
) -> list[float]:
    """Return calibrated probabilities, each by a map that was fitted to the other folds."""
    order = np.random.default_rng(seed).permutation(len(scores)).tolist()
    probabilities = [0.0] * len(scores)
    for fold in range(NUM_FOLDS):
        held = order[fold::NUM_FOLDS]
        others = sorted(set(order) - set(held))
        fitted = fit([scores[i] for i in others], [right[i] for i in others])
        for i in held:
            probabilities[i] = fitted.probability(scores[i])
    return probabilities


def drafts_alone(engine: Engine) -> Callable[[str], Answer]:
    """Return what asks the drafts of an engine: uncalibrated, and never plainly.

    What it returns raises Failed where drafting fails, and keeps no trace.
    """
    speculator = engine.new_speculator()

    def ask(question: str) -> Answer:
        trace = Trace("calibrate", question=question)
        run = DraftedRun(engine.knowledge, speculator, Breaker(), trace, question, engine.turns)
        with engine.turns.answer():
            *_, answer = run.events(None, never)
        assert isinstance(answer, Answer)
        return answer

    return ask


def path_in(config: Config) -> Path:
    """Return where an engine looks for the map of a knowledge base."""
    return config.kb / CALIBRATION_FILE


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write a file as a whole or not at all, also if the machine stops meanwhile."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            json.dump(record, file)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
