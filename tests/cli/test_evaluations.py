import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

QUESTIONS = (
    {"question": "What pulls the water?", "answers": ["The moon"]},
    {"question": "What burns oil?", "answers": ["A lamp"]},
    {"question": "Who built the lighthouse?", "answers": []},
)


@pytest.fixture
def questions(place: Path) -> Path:
    path = place / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, QUESTIONS)), encoding="utf-8")
    return path


def test_retrieval_is_measured(cli: Cli, kb: Path, questions: Path) -> None:
    outcome = cli("eval", "retrieval", "--questions", questions, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    report = outcome.json
    assert report["metrics"] == {"recall@1": 1.0, "recall@3": 1.0, "recall@10": 1.0, "mrr": 1.0}
    assert (report["num_questions"], report["num_skipped"]) == (3, 1)
    lines = cli("eval", "retrieval", "--questions", questions).out.splitlines()
    assert lines[0] == "recall@1   1.000"
    assert lines[-1] == "3 questions, 1 skipped"


def test_passages_are_named_by_the_id_of_the_document(cli: Cli, kb: Path, questions: Path) -> None:
    questions.write_text(
        json.dumps({"question": "What pulls the water?", "answers": [], "passage": 7}),
        encoding="utf-8",
    )
    command = ("eval", "retrieval", "--questions", questions)
    assert "the documents found have no metadata id" in cli(*command).err
    Path("moon.jsonl").write_text('{"id": 7, "text": "The moon pulls."}\n', encoding="utf-8")
    assert cli("add", "moon.jsonl", "--kb", "other").status == 0
    outcome = cli(*command, "--kb", "other", "--json")
    assert (outcome.err, outcome.json["num_by_passage"]) == ("", 1)
    assert outcome.json["metrics"]["recall@1"] == 1.0


def test_answers_are_measured(cli: Cli, kb: Path, questions: Path, target: Path) -> None:
    options = ("--questions", questions, "--target", target, "--n", "2")
    outcome = cli("eval", "answers", *options, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.json["num_questions"] == len(outcome.json["scores"]) == 2
    lines = cli("eval", "answers", *options).out.splitlines()
    assert lines[1].startswith("f1 ")
    assert lines[-1] == "2 questions, 0 of them without an answer, 0 failed"


def test_a_question_that_is_too_long_fails_alone(
    cli: Cli, kb: Path, questions: Path, target: Path
) -> None:
    lines = [{"question": "moon " * 2000, "answers": ["tide"]}, QUESTIONS[0]]
    questions.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    outcome = cli("eval", "answers", "--questions", questions, "--target", target, "--json")
    assert outcome.status == 1
    assert (len(outcome.json["scores"]), len(outcome.json["failed"])) == (1, 1)
    assert "  failed: moon moon" in outcome.err


def test_a_target_that_is_missing_fails_at_once(cli: Cli, kb: Path, questions: Path) -> None:
    outcome = cli("eval", "answers", "--questions", questions)
    assert outcome.status == 2
    assert "readahead pull" in outcome.error


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "There is no file 'bad.jsonl'."),
        ("", "bad.jsonl holds no question."),
        ("{", "bad.jsonl, line 1: it is not JSON"),
        ('{"answers": []}', 'line 1: "question" is missing or empty'),
    ],
)
@pytest.mark.parametrize("kind", ["retrieval", "answers"])
def test_bad_questions_are_named(
    cli: Cli, kb: Path, place: Path, kind: str, content: str | None, message: str
) -> None:
    if content is not None:
        (place / "bad.jsonl").write_text(content, encoding="utf-8")
    outcome = cli("eval", kind, "--questions", "bad.jsonl")
    assert outcome.status == 2
    assert message in outcome.error


def test_questions_are_required(cli: Cli, kb: Path) -> None:
    outcome = cli("eval", "retrieval")
    assert (outcome.status, outcome.out) == (2, "")
    assert "--questions" in outcome.err
