"""The command eval rapid: what it prints, and what it refuses."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

INFINITE = {
    "id": 1,
    "context": "The lamp of Porto was lit in 1804. " * 9,
    "input": "When was the lamp lit?",
    "answer": ["1804"],
    "options": [],
}
DIALOGUE = {"task": "GR", "history": [{"user": "What is 1 + 1?", "bot": "It is 2."}]}
SMALL = ("--max-new-tokens", "6", "--draft-tokens", "2", "--lexical-only")


def write(name: str, *records: object) -> Path:
    path = Path(name)
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return path


def test_settings_are_compared(cli: Cli, target: Path) -> None:
    path = write("cases.jsonl", INFINITE, INFINITE)
    options = ("--questions", path, "--target", target, "--n", "1", *SMALL)
    settings = ("--settings", "plain,lookup rag-only augmented:5")
    outcome = cli("eval", "rapid", *options, *settings, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    report = outcome.json
    assert list(report["settings"]) == ["plain", "lookup", "rag-only", "augmented:5"]
    assert report["settings"]["lookup"]["identical_share"] == 1.0
    assert report["settings"]["plain"]["scores"]["f1"]["n"] == 1
    assert report["settings"]["augmented:5"]["seconds"]["drafter_prefill_s"] > 0
    assert set(report["questions"][0]["replies"]) == set(report["settings"])
    lines = cli("eval", "rapid", *options, *settings).out.splitlines()
    assert lines[0].startswith("setting        score        ±")
    assert [line.split()[0] for line in lines[1:5]] == list(report["settings"])
    assert any(line.startswith("accepted by position, augmented:5: ") for line in lines)
    assert "1 questions, 0 cases failed" in lines


def test_needles_are_made(cli: Cli, target: Path) -> None:
    options = ("--needles", "2", "--tokens", "300", "--kind", "keyed", "--target", target)
    outcome = cli("eval", "rapid", *options, *SMALL, "--settings", "plain rag", "--json")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.json["num_questions"] == 2
    assert outcome.json["questions"][0]["id"] == "needles-en-keyed-300-0"


def test_dialogues_are_a_history(cli: Cli, target: Path) -> None:
    path = write("dialogues.jsonl", *[DIALOGUE] * 3)
    options = ("--questions", path, "--target", target, *SMALL, "--settings", "plain", "--json")
    assert cli("eval", "rapid", *options).json["num_questions"] == 2
    assert cli("eval", "rapid", *options, "--n", "1").json["num_questions"] == 1
    assert "leave no history" in cli("eval", "rapid", *options, "--n", "3").err


def test_a_case_without_room_fails_alone(cli: Cli, target: Path) -> None:
    long = {**INFINITE, "input": "lamp " * 500}
    path = write("cases.jsonl", long, INFINITE)
    options = ("--questions", path, "--target", target, *SMALL, "--settings", "plain", "--json")
    outcome = cli("eval", "rapid", *options, "--max-context", "700")
    assert (outcome.status, outcome.json["num_questions"]) == (1, 1)
    assert "  failed: lamp lamp" in outcome.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "Give --questions FILE or --needles N"),
        (("--needles", "1", "--questions", "x.jsonl"), "not both"),
        (("--questions", "none.jsonl"), "There is no file"),
        (("--needles", "1", "--settings", "fast"), "There is no setting 'fast'"),
        (("--needles", "1", "--target", "none"), "No model is called"),
        (("--needles", "1", "--dtype", "int3"), "models.dtype"),
    ],
)
def test_bad_options_are_named(cli: Cli, options: tuple[str, ...], message: str) -> None:
    outcome = cli("eval", "rapid", *options)
    assert outcome.status == 2
    assert message in outcome.error


def test_one_document_has_no_unrelated_passages(cli: Cli, target: Path) -> None:
    options = ("--needles", "1", "--tokens", "200", "--target", target, *SMALL, "--unrelated")
    assert "two cases" in cli("eval", "rapid", *options).error
