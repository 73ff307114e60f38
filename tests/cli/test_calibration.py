import json
import sys
from pathlib import Path

import pytest

from readahead.engine import Engine
from readahead.speculation.answers.calibration import Calibration
from readahead.speculation.answers.speculate import Speculator
from tests.cli.conftest import Cli
from tests.speculation.answers.scripted import Scripted


@pytest.fixture
def questions(place: Path) -> Path:
    """Return a file with 12 questions; the moon is right for 8 of them."""
    path = place / "questions.jsonl"
    lines = [
        json.dumps({"question": "What pulls the water?", "answers": [right]})
        for right in ["The moon"] * 8 + ["The sun"] * 4
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def moonstruck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all drafts say the moon: what the tiny Llama writes is noise, and no answer."""

    def scripted(engine: Engine, calibration: Calibration | None = None) -> Speculator:
        model = Scripted(lambda prompt: "The moon")
        return Speculator(model, model, engine.config.drafts, calibration=calibration)

    monkeypatch.setattr(Engine, "new_speculator", scripted)


def test_a_calibration_is_fitted_and_used(
    cli: Cli, kb: Path, questions: Path, target: Path, place: Path
) -> None:
    options = ("--questions", questions, "--target", target)
    outcome = cli("calibrate", *options, "--plot", "curve.svg")
    assert (outcome.status, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["coverage", "threshold", "accuracy"]
    assert "calibration_error" in outcome.out
    assert "12 questions, 12 got an answer, 0.667 of these are right; platt" in outcome.out
    assert lines[-1] == "written to .readahead/calibration.json"
    assert (place / "curve.svg").is_file()
    record = json.loads((kb / "calibration.json").read_text(encoding="utf-8"))
    assert record["preset"] == "fast"
    told = Calibration.from_json(record)
    again = cli("calibrate", *options, "--out", "other.json", "--kind", "isotonic", "--json")
    assert again.json["kind"] == json.loads(Path("other.json").read_text())["kind"] == "isotonic"
    raw = again.json["labelled"][0]["probability"]
    asked = cli("ask", "What pulls the water?", "--method", "drafts", "--target", target, "--json")
    assert asked.json["confidence"] == pytest.approx(told.probability(raw))


def test_too_few_questions_are_told_before_a_model_is_loaded(
    cli: Cli, kb: Path, questions: Path
) -> None:
    outcome = cli("calibrate", "--questions", questions, "--n", "9")
    assert outcome.status == 2
    assert outcome.error.startswith("Only 9 questions were given; calibrating takes 10.")


def test_answers_that_are_all_wrong_are_told(
    cli: Cli, kb: Path, questions: Path, target: Path
) -> None:
    text = questions.read_text(encoding="utf-8").replace("The moon", "The sun")
    questions.write_text(text, encoding="utf-8")
    outcome = cli("calibrate", "--questions", questions, "--target", target)
    assert outcome.status == 2
    assert "All 12 answers are wrong" in outcome.error
    assert not (kb / "calibration.json").exists()


@pytest.mark.parametrize("option", ["--out", "--plot"])
def test_a_folder_that_is_missing_is_told_first(
    cli: Cli, kb: Path, questions: Path, option: str
) -> None:
    outcome = cli("calibrate", "--questions", questions, option, "no/where.x")
    assert (outcome.status, outcome.error[:32]) == (2, "no/where.x cannot be written. Na")


def test_a_plot_without_matplotlib_names_the_extra(
    cli: Cli, kb: Path, questions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = cli("calibrate", "--questions", questions, "--plot", "curve.svg")
    assert outcome.status == 2
    assert "pip install 'readahead[dev]'" in outcome.error
