from pathlib import Path

import pytest

from readahead.evaluation import lossless
from tests.cli.conftest import Cli

QUESTION = "How often does the tide turn?"


def test_questions_asked_before_are_compared(cli: Cli, kb: Path, target: Path) -> None:
    cli("ask", QUESTION, "--target", target)
    cli("ask", QUESTION, "--target", target)
    outcome = cli("verify", "--target", target)
    assert outcome.status == 0
    assert outcome.out == "1 of 1 answers identical\n1 of them read ahead\n"


def test_a_file_of_questions_is_compared(cli: Cli, kb: Path, target: Path, place: Path) -> None:
    (place / "mine.txt").write_text(f"{QUESTION}\n\nWhat burns oil?\nWhat pulls the water?\n")
    outcome = cli("verify", "--target", target, "--questions", "mine.txt", "--n", "2", "--json")
    assert outcome.status == 0
    assert outcome.json["num_questions"] == outcome.json["num_identical"] == 2
    assert outcome.json["changed"] == []


def test_a_change_is_reported(
    cli: Cli, kb: Path, target: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lossless, "is_lossless", lambda engine, turn: False)
    (place / "mine.txt").write_text(QUESTION)
    outcome = cli("verify", "--target", target, "--questions", "mine.txt")
    assert outcome.status == 1
    assert outcome.out.startswith("0 of 1 answers identical")
    assert f"changed: {QUESTION}" in outcome.err
    assert "only float32" not in outcome.err
    outcome = cli("verify", "--target", target, "--questions", "mine.txt", "--dtype", "bfloat16")
    assert "only float32 promises" in outcome.err


def test_a_question_that_cannot_be_asked_is_told(
    cli: Cli, kb: Path, target: Path, place: Path
) -> None:
    (place / "mine.txt").write_text("why " * 600 + "\n")
    outcome = cli("verify", "--target", target, "--questions", "mine.txt")
    assert outcome.status == 1
    assert "failed: why why" in outcome.err


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read"), (b"\xff", "cannot be read"), (b"\n \n", "holds no question")],
)
def test_a_bad_file_is_said_in_one_line(
    cli: Cli, kb: Path, target: Path, place: Path, content: bytes | None, message: str
) -> None:
    if content is not None:
        (place / "mine.txt").write_bytes(content)
    outcome = cli("verify", "--target", target, "--questions", "mine.txt")
    assert outcome.status == 2
    assert message in outcome.error


def test_nothing_asked_is_nothing_to_compare(cli: Cli, kb: Path, target: Path) -> None:
    outcome = cli("verify", "--target", target)
    assert outcome.status == 2
    assert "No question was asked yet" in outcome.error
