"""Recording answers of the tiny model, fitting a gate on them, and drawing one."""

import json
import sys
from pathlib import Path

import pytest

import fit_sufficiency
import plot_signals
from readahead.evaluation.datasets import Question
from readahead.lm.model import TransformersModel
from readahead.logistic import Logistic
from readahead.types import Hit, Passage
from record_answers import Retrieved, answer, is_usable, read_answers, read_retrieved, write_lines

THINGS = "comet crater dome eclipse galaxy lens meteor mirror nebula planet".split()


def row(number: int) -> dict[str, object]:
    thing, other = THINGS[number], THINGS[(number + 1) % len(THINGS)]
    texts = [
        f"The {thing} stands in room {number}.",
        f"The {other} is old.",
        "It rains.",
        "It snows.",
    ]
    return {
        "question": f"where stands the {thing}",
        "answers": [f"room {number}"],
        "gold": 0,
        "hits": [
            {"text": text, "heading": [thing], "similarity": 0.9 - 0.2 * rank}
            for rank, text in enumerate(texts)
        ],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, model: TransformersModel) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    write_lines(folder / "retrieved.jsonl", [row(number) for number in range(len(THINGS))])
    for found in read_retrieved(folder)[:8]:
        rows = [answer(model, [0, 1], found, present) for present in (True, False)]
        rows[0]["contains"] = (
            "o" in found.question.text.split()[-1]
        )  # the tiny model is never right
        write_lines(folder / "answers.tiny.jsonl", rows)
    return folder


def test_the_gate_is_fitted_written_and_its_table_renewed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, page = folder / "model.json", folder / "page.md"
    page.write_text("Head\n<!-- figures -->\nold\n<!-- end of figures -->\nTail\n")
    argv = ["fit", str(folder), "--targets", "tiny", "--model", str(file), "--page", str(page)]
    argv += ["--first", "8"]
    monkeypatch.setattr(sys, "argv", argv)
    fit_sufficiency.main()
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    # The fourth passage is as near as the first is far, so similarity alone tells all.
    assert record["metrics"]["lacks_end.similarity.tiny"] == 0.0
    assert record["metrics"]["auc.before"] == 1.0
    assert record["metrics"]["auc.held_out.hybrid"] == 1.0
    model = Logistic.from_json(json.loads(file.read_text(encoding="utf-8")))
    assert model.probability({"similarity": 0.9}) < model.probability({"similarity": 0.7})
    text = page.read_text(encoding="utf-8")
    assert text.startswith("Head\n<!-- figures -->\n| signal | tiny: lacks, first token |")
    assert text.endswith("<!-- end of figures -->\nTail\n")
    assert "old" not in text


def test_what_was_recorded_can_be_read(folder: Path) -> None:
    answers = read_answers(folder, "tiny")
    assert [answered.present for answered in answers] == [True, False] * 8
    for answered in answers:
        assert "".join(answered.pieces) == answered.text or "\ufffd" in answered.text
        assert all(len(tokens) == len(answered.pieces) for tokens in answered.tokens.values())
        assert set(answered.source["source_key_shift"]) == {0.0}


def test_one_answer_can_be_drawn(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = folder / "signals.svg"
    monkeypatch.setattr(sys, "argv", ["plot", str(folder), "--target", "tiny", "--out", str(out)])
    plot_signals.main()
    assert "where stands the comet" in out.read_text(encoding="utf-8")


def test_questions_that_other_passages_answer_are_left_out() -> None:
    def found(gold: int | None, *texts: str) -> Retrieved:
        hits = [Hit(Passage("d", text, 0, len(text)), 1.0) for text in texts]
        return Retrieved(Question("q", ("room 1",)), gold, tuple(hits))

    assert is_usable(found(0, "In room 1.", "It rains."))
    assert not is_usable(found(0, "In room 1.", "Room 1 is full."))
    assert not is_usable(found(None, "It rains."))
    assert not is_usable(found(3, "It rains.", "It snows.", "It pours.", "In room 1."))
