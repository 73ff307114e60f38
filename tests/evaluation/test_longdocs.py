"""Files of the three public formats become cases, and what is wrong with one has its place."""

import json
from pathlib import Path

import pytest

from readahead.errors import InputError, NotFound
from readahead.evaluation.longcases import LongCase, Turn
from readahead.evaluation.longdocs import Task, read_long_cases

LONGBENCH: dict[str, object] = {
    "_id": "66f36490821e116aacb2cc22",
    "domain": "Single-Document QA",
    "sub_domain": "Financial",
    "difficulty": "easy",
    "length": "short",
    "question": "Which city?",
    "choice_A": "Paris",
    "choice_B": "Rome",
    "choice_C": "Bern",
    "choice_D": "Oslo",
    "answer": "C",
    "context": "The seat is in Bern.",
}
BOOK: dict[str, object] = {
    "id": 7,
    "context": "Once upon a time …",
    "input": "Who wins?",
    "answer": ["Ann", "Anne"],
    "options": [],
}
DIALOGUE: dict[str, object] = {
    "task": "CM",
    "id": 4,
    "history": [
        {"user": "I am Ann.", "bot": "Hello Ann."},
        {"user": "Who am I?", "bot": "You are Ann."},
        {"user": "Thanks.", "bot": ""},
    ],
}


def lines(folder: Path, *records: object, name: str = "data.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(json.dumps(r, ensure_ascii=False) for r in records), "utf-8")
    return path


def listed(folder: Path, *records: object) -> Path:
    path = folder / "data.json"
    path.write_text(json.dumps(records), "utf-8")
    return path


def test_longbench(tmp_path: Path) -> None:
    case = LongCase(
        id="66f36490821e116aacb2cc22",
        document="The seat is in Bern.",
        turns=(Turn("Which city?", ("C",), ("Paris", "Rome", "Bern", "Oslo")),),
        metric="choice",
        groups=("easy", "short"),
    )
    assert read_long_cases(listed(tmp_path, LONGBENCH, LONGBENCH)) == [case, case]
    assert read_long_cases(lines(tmp_path, LONGBENCH)) == [case]


def test_a_case_without_an_id_is_numbered(tmp_path: Path) -> None:
    bare = {key: value for key, value in LONGBENCH.items() if key not in ("_id", "difficulty")}
    cases = read_long_cases(listed(tmp_path, LONGBENCH, bare))
    assert cases[1].id == "2"
    assert cases[1].groups == ("short",)


def test_infinitebench_questions(tmp_path: Path) -> None:
    (case,) = read_long_cases(lines(tmp_path, BOOK))
    assert case == LongCase(
        id="7",
        document="Once upon a time …",
        turns=(Turn("Who wins?", ("Ann", "Anne")),),
        metric="f1",
        groups=("longbook_qa_eng",),
    )


@pytest.mark.parametrize("answer", ["Bea", ["Bea"], ["Bea", "B"], ["B"], "B"])
def test_infinitebench_choices_have_letters(tmp_path: Path, answer: object) -> None:
    record = {**BOOK, "answer": answer, "options": ["Ann", "Bea", "Cid", "Dan"]}
    (case,) = read_long_cases(lines(tmp_path, record))
    assert case.metric == "choice"
    assert case.turns == (Turn("Who wins?", ("B",), ("Ann", "Bea", "Cid", "Dan")),)


def test_a_choice_named_like_a_letter_is_a_text(tmp_path: Path) -> None:
    record = {**BOOK, "answer": ["A"], "options": ["B", "A"]}
    (case,) = read_long_cases(lines(tmp_path, record))
    assert case.turns[0].golds == ("B",)


def test_infinitebench_summaries(tmp_path: Path) -> None:
    (case,) = read_long_cases(lines(tmp_path, {**BOOK, "input": "", "answer": ["Ann wins."]}))
    assert case.metric == "rouge"
    assert case.turns[0].golds == ("Ann wins.",)
    assert case.turns[0].question


def test_the_task_is_told_else_named_else_seen(tmp_path: Path) -> None:
    record = {**BOOK, "options": ["Ann", "Bea"]}

    def task(name: str, told: Task | None = None, **changes: object) -> str:
        path = lines(tmp_path, {**record, **changes}, name=name)
        return read_long_cases(path, task=told)[0].groups[0]

    assert task("longbook_qa_eng.jsonl", "longbook_sum_eng") == "longbook_sum_eng"
    assert task("Longbook_QA_Eng.jsonl") == "longbook_qa_eng"
    assert task("some.jsonl") == "longbook_choice_eng"
    assert task("some.jsonl", options=[], input="谁赢了？") == "longbook_qa_chn"
    assert task("some.jsonl", options=[]) == "longbook_qa_eng"
    assert task("some.jsonl", options=[], input=" ") == "longbook_sum_eng"


def test_dialogues(tmp_path: Path) -> None:
    (case,) = read_long_cases(lines(tmp_path, DIALOGUE))
    assert case == LongCase(
        id="4",
        document="",
        turns=(
            Turn("I am Ann.", ("Hello Ann.",), is_given=True),
            Turn("Who am I?", ("You are Ann.",)),
            Turn("Thanks.", ()),
        ),
        metric="rouge",
        groups=("CM",),
    )
    (other,) = read_long_cases(lines(tmp_path, {**DIALOGUE, "task": "TS"}))
    assert not other.turns[0].is_given


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ([1], "it is not a JSON object"),
        ({"question": "q"}, 'it has none of "choice_A", "context" and "history"'),
        ({**LONGBENCH, "question": " "}, '"question" is missing or empty'),
        ({**LONGBENCH, "choice_C": None}, '"choice_C" is missing or empty'),
        ({**LONGBENCH, "answer": "E"}, "\"answer\" 'E' is none of A, B, C and D"),
        ({**LONGBENCH, "context": 3}, '"context" is missing or empty'),
        ({**BOOK, "answer": 3}, '"answer" is not a list of texts'),
        ({**BOOK, "answer": [""]}, '"answer" names no answer'),
        ({**BOOK, "options": ["Bea", "Cid"]}, '"answer" is none of the "options"'),
        ({**BOOK, "options": ["Ann"]}, '"options" holds 1 choices, not 2 to 26'),
        ({**BOOK, "options": list(map(str, range(27)))}, '"options" holds 27 choices'),
        ({**BOOK, "options": "Ann"}, '"options" is not a list of texts'),
        ({**DIALOGUE, "history": {}}, '"history" is not a list of objects'),
        ({**DIALOGUE, "history": []}, '"history" is empty'),
        ({**DIALOGUE, "history": [{"user": "Hi"}]}, '"bot" is missing or not text'),
        ({**DIALOGUE, "history": [{"bot": "Hi"}]}, '"user" is missing or empty'),
    ],
)
def test_a_bad_record_is_named(tmp_path: Path, record: object, reason: str) -> None:
    for path, place in (
        (lines(tmp_path, DIALOGUE, record), "line 2"),
        (listed(tmp_path, DIALOGUE, record), "at [1]"),
    ):
        with pytest.raises(InputError) as caught:
            read_long_cases(path)
        assert caught.value.message.startswith(f"{path}, {place}: {reason}")
        assert "\n" not in caught.value.message
        assert caught.value.remedy


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("data.json", "{", "at it: it is not JSON"),
        ("data.json", "{}", "at it: it is not a list"),
        ("data.json", "[" * 100_000, "nested too deeply"),
        ("data.json", "[]", "holds no question"),
        ("data.jsonl", "\n \n", "holds no question"),
        ("data.jsonl", "{", "line 1: it is not JSON"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, name: str, content: str, reason: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        read_long_cases(path)
    assert str(path) in caught.value.message
    assert reason in caught.value.message


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no file"):
        read_long_cases(tmp_path / "none.json")
