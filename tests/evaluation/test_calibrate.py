import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.errors import ConfigError, InputError
from readahead.evaluation import curve
from readahead.evaluation.calibrate import (
    Labelled,
    calibrate,
    cross_validated,
    drafts_alone,
    path_in,
    report,
    write_json,
)
from readahead.evaluation.datasets import Question
from readahead.lm.model import TransformersModel
from readahead.speculation.answers.calibration import (
    Calibration,
    Platt,
    fit_platt,
    read_calibration,
)
from readahead.speculation.answers.risk import risk_coverage
from readahead.speculation.answers.speculate import Speculator
from readahead.types import Answer
from tests.speculation.answers.scripted import Scripted
from tests.test_drafted import QUESTION, first_year, opened


def told(answer: str, probability: float) -> Answer:
    audit = {"candidates": [{"answer": answer, "probability": probability}]}
    return Answer(answer, False, probability, "drafts", audit=audit)


def overconfident(n: int, seed: int = 0) -> list[Labelled]:
    """Return answers of which p² are right where p is told."""
    chance = np.random.default_rng(seed)
    told = chance.random(n)
    return [Labelled("q", "a", float(p), bool(chance.random() < p * p)) for p in told]


def test_the_best_answer_of_each_question_is_labelled() -> None:
    questions = [Question(f"q{i}", ("Anna Moll",)) for i in range(10)]
    questions += [Question("none", ()), Question("silent", ("x",)), Question("long", ("x",))]

    def ask(question: str) -> Answer:
        if question == "long":
            raise InputError("The question is too long.")
        if question == "silent":
            return Answer("", True, 0.0, "drafts", audit={"candidates": []})
        is_right = question in ("q1", "q2", "q5")
        return told("the keeper Anna Moll" if is_right else "Bo", 0.9 if is_right else 0.2)

    steps: list[int] = []
    found = calibrate(questions, ask, progress=lambda done, total: steps.append(done))
    assert steps == list(range(1, 14))
    assert (found.num_questions, len(found.labelled), found.kind) == (13, 11, "platt")
    right = [one.question for one in found.labelled if one.is_right]
    assert right == ["q1", "q2", "q5"]
    assert found.accuracy == pytest.approx(3 / 11)
    assert [failure.question for failure in found.failed] == ["long"]
    assert found.curve[-1].coverage == 1.0
    assert json.loads(json.dumps(found.to_json()))["calibration"]["kind"] == "platt"


def test_calibrating_mends_what_was_overconfident() -> None:
    found = report(300, overconfident(300), kind="platt")
    assert found.before.calibration_error > 0.1 > found.after.calibration_error
    assert found.after.brier < found.before.brier
    assert found.calibration.probability(0.5) < 0.4


def test_with_many_questions_the_map_is_isotonic() -> None:
    assert report(200, overconfident(200)).kind == "isotonic"
    assert report(199, overconfident(199)).kind == "platt"
    assert report(30, overconfident(30), kind="isotonic").kind == "isotonic"


def test_no_question_is_told_by_a_map_that_knows_it() -> None:
    labelled = overconfident(23)
    scores = [one.probability for one in labelled]
    right = [one.is_right for one in labelled]
    asked: list[set[float]] = []

    def fit(some: list[float], rights: list[bool]) -> Calibration:
        known = set(some)
        asked.append(known)

        class Spy(Platt):
            def probability(self, score: float) -> float:
                assert score not in known
                return score

        return Spy(1.0, 0.0)

    assert cross_validated(scores, right, fit) == scores  # type: ignore[arg-type]
    assert [len(known) for known in asked] == [18, 18, 18, 19, 19]
    first = cross_validated(scores, right, fit_platt, seed=1)
    assert first == cross_validated(scores, right, fit_platt, seed=1)
    assert first != cross_validated(scores, right, fit_platt, seed=2)


def test_what_cannot_be_calibrated_is_told() -> None:
    def ask(question: str) -> Answer:
        return told("Bo", 0.5)

    with pytest.raises(InputError, match=r"Only 9 questions were given; calibrating takes 10\."):
        calibrate([Question("q", ("Bo",))] * 9, ask)
    with pytest.raises(InputError, match="All 10 answers are right"):
        calibrate([Question("q", ("Bo",))] * 10, ask)
    with pytest.raises(InputError, match="All 10 answers are wrong"):
        calibrate([Question("q", ("Al",))] * 10, ask)
    with pytest.raises(InputError, match="Only 0 questions got an answer"):
        calibrate([Question("q", ("Al",))] * 10, lambda q: Answer("", True, 0.0, "drafts"))


def test_drafts_are_asked_alone_and_uncalibrated(tmp_path: Path, model: TransformersModel) -> None:
    engine = opened(tmp_path, model)
    write_json(path_in(engine.config), Platt(0.0, 9.0).to_json())
    assert engine.ask(QUESTION, method="drafts").audit["candidates"] is not None
    engine.new_speculator = lambda calibration=None: Speculator(  # type: ignore[method-assign]
        Scripted(first_year), Scripted(first_year), engine.config.drafts, calibration=calibration
    )
    num_traces = len(engine.knowledge.store.traces())
    answer = drafts_alone(engine)(QUESTION)
    del engine.speculator  # so that it is made anew, with the calibration
    calibrated = engine.ask(QUESTION, method="drafts")
    assert answer.confidence < calibrated.confidence == pytest.approx(1 / (1 + np.exp(-9)))
    assert len(engine.knowledge.store.traces()) == num_traces + 1


def test_a_calibration_of_another_preset_counts_for_nothing(tmp_path: Path) -> None:
    write_json(tmp_path / "calibration.json", {**Platt(2.0, 1.0).to_json(), "preset": "fast"})
    assert read_calibration(tmp_path, "fast") == read_calibration(tmp_path) == Platt(2.0, 1.0)
    assert read_calibration(tmp_path, "accurate") is None


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": {1}})
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1))
def test_the_rows_cover_each_tenth_once(pairs: list[tuple[float, bool]]) -> None:
    points = risk_coverage([p for p, _ in pairs], [right for _, right in pairs])
    rows = curve.rows(points)
    assert rows[-1] == points[-1]
    assert len(rows) <= curve.NUM_ROWS
    coverages = [row.coverage for row in rows]
    assert coverages == sorted(set(coverages))


def test_the_curve_is_drawn(tmp_path: Path) -> None:
    curve.plot(risk_coverage([0.9, 0.2], [True, False]), tmp_path / "curve.svg")
    assert "<svg" in (tmp_path / "curve.svg").read_text(encoding="utf-8")


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"readahead\[dev\]"):
        curve.check_plotting()


def test_nothing_is_drawn_that_nobody_asked_for() -> None:
    code = "import readahead.cli, sys; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
