import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.lm.test_entail import make_folder as make_classifier

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


CASES = (
    {
        "question": "What burns oil?",
        "documents": [{"text": "A lamp burns oil."}, {"text": "A stove burns oil."}],
        "gold_answers": ["lamp"],
        "wrong_answers": ["stove"],
    },
    {
        "question": "moon " * 2000,
        "documents": [{"text": "Tides."}],
        "gold_answers": ["tide"],
        "wrong_answers": [],
    },
)


def test_drafts_are_measured(cli: Cli, place: Path, target: Path) -> None:
    (place / "cases.jsonl").write_text("\n".join(map(json.dumps, CASES)), encoding="utf-8")
    options = ("--questions", "cases.jsonl", "--target", target)
    outcome = cli("eval", "drafts", *options, "--n", "1", "--json")
    assert (outcome.status, outcome.err) == (0, "")
    report = outcome.json
    assert report["num_questions"] == 1
    assert {"fast", "accurate", "plain"} <= set(report["systems"])
    assert set(report["time_ratio"]) == {"fast", "accurate"}
    outcome = cli("eval", "drafts", *options, "--drafter", target)
    assert outcome.status == 1
    assert outcome.out.splitlines()[1].startswith("strict ")
    assert outcome.out.splitlines()[-1].startswith("1 questions, 1 failed; fast takes ")
    assert "  failed: moon moon" in outcome.err


def test_drafts_over_a_knowledge_base_and_over_a_file(
    cli: Cli, kb: Path, questions: Path, target: Path
) -> None:
    options = ("--questions", questions, "--target", target, "--n", "1", "--json")
    assert cli("eval", "drafts", *options).json["num_questions"] == 1
    missing = ("--kb", "other")
    assert cli("eval", "drafts", *options, *missing).status == 2
    outcome = cli("eval", "drafts", *options, *missing, "--passages", "docs/tides.md")
    assert outcome.json["num_questions"] == 1
    assert not Path("other").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "There is no file 'bad.jsonl'."),
        ("", "bad.jsonl holds no question."),
        ("{", "bad.jsonl, line 1: it is not JSON"),
        ('{"answers": []}', 'line 1: "question" is missing or empty'),
    ],
)
@pytest.mark.parametrize("kind", ["retrieval", "answers", "drafts"])
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


CLAIM = {"claim": "The moon pulls.", "label": "supported", "evidence": ["The moon pulls water."]}


def test_evidence_is_measured(cli: Cli, place: Path) -> None:
    other = {"claim": "A whale sang.", "label": "not_supported", "evidence": ["It opened in 1990."]}
    lines = "\n".join(map(json.dumps, (CLAIM, other)))
    (place / "claims.jsonl").write_text(lines, encoding="utf-8")
    outcome = cli("eval", "evidence", "--claims", "claims.jsonl", "--json")
    assert (outcome.status, outcome.err) == (0, "")
    assert (outcome.json["balanced_accuracy"], outcome.json["n"]) == (1.0, 2)
    out = cli("eval", "evidence", "--claims", "claims.jsonl").out.splitlines()
    assert out[0] == "balanced_accuracy  1.000"
    assert out[-3] == "2 claims, 0.500 of them supported; 1 sentences edited"
    assert out[-2].startswith("edits_caught: of sentences of the evidence with one number")
    assert out[-1].startswith("false_alarms: ")
    assert max(map(len, out)) <= 100


def test_a_judge_that_cannot_judge_is_named(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "claims.jsonl").write_text(json.dumps(CLAIM), encoding="utf-8")
    monkeypatch.setenv("READAHEAD_EVIDENCE__JUDGE", str(make_classifier(place / "j", ("a", "b"))))
    outcome = cli("eval", "evidence", "--claims", "claims.jsonl")
    assert outcome.status == 2
    assert "has no label 'entailment'" in outcome.error
    monkeypatch.setenv("READAHEAD_EVIDENCE__JUDGE", str(make_classifier(place / "k")))
    assert cli("eval", "evidence", "--claims", "claims.jsonl", "--json").json["n"] == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "claims.jsonl, line 2: it is not JSON"),
        ('{"claim": "x", "label": "yes", "evidence": []}', 'line 2: "label" is "yes"'),
    ],
)
def test_bad_claims_are_named(cli: Cli, place: Path, row: str, message: str) -> None:
    (place / "claims.jsonl").write_text(f"{json.dumps(CLAIM)}\n{row}\n", encoding="utf-8")
    outcome = cli("eval", "evidence", "--claims", "claims.jsonl")
    assert outcome.status == 2
    assert message in outcome.error
