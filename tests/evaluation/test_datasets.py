"""Labelled questions are read, and what is wrong with a file is said with its place."""

import json
from pathlib import Path

import pytest

from readahead.errors import InputError, NotFound
from readahead.evaluation.datasets import Question, read_questions


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def squad(**entry: object) -> str:
    paragraph = {"context": "The shop opened in 1990.", "qas": [{"question": "When?", **entry}]}
    return json.dumps({"version": "1.1", "data": [{"paragraphs": [paragraph]}]})


def test_lines(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "q.jsonl",
        '\ufeff{"question": "Who?", "answers": ["Ann", "Anne"], "passage": 7}\r\n\n'
        '{"question": "何时？", "answers": []}\n',
    )
    assert read_questions(path) == [
        Question("Who?", ("Ann", "Anne"), passage="7"),
        Question("何时？", ()),
    ]


def test_squad(tmp_path: Path) -> None:
    path = write(tmp_path, "q.json", squad(answers=[{"text": "1990", "answer_start": 19}]))
    (question,) = read_questions(path)
    assert question == Question(
        "When?", ("1990",), context="The shop opened in 1990.", starts=(19,)
    )
    start = question.starts[0]
    assert question.context[start : start + 4] == "1990"


def test_squad_2_has_questions_without_an_answer(tmp_path: Path) -> None:
    plausible = [{"text": "1990", "answer_start": 19}]
    path = write(
        tmp_path, "q.JSON", squad(is_impossible=True, answers=[], plausible_answers=plausible)
    )
    assert read_questions(path)[0].answers == ()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"answers": ["a"]}', '"question" is missing or empty'),
        ('{"question": " ", "answers": ["a"]}', '"question" is missing or empty'),
        ('{"question": "q"}', '"answers" is not a list of texts'),
        ('{"question": "q", "answers": "a"}', '"answers" is not a list of texts'),
        ('{"question": "q", "answers": [1]}', '"answers" is not a list of texts'),
        ('{"question": "q", "answers": [], "passage": [1]}', '"passage" is neither'),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    path = write(tmp_path, "q.jsonl", f'{{"question": "q", "answers": ["a"]}}\n{line}\n')
    with pytest.raises(InputError) as caught:
        read_questions(path)
    assert f"{path}, line 2: " in caught.value.message
    assert reason in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("content", "place", "reason"),
    [
        ("{", "it", "not JSON"),
        ("[]", "it", '"data" is not a list of objects'),
        ('{"data": [{}]}', "it", '"paragraphs" is not a list of objects'),
        (squad(), "data[0].paragraphs[0].qas[0]", '"answers" is not a list of objects'),
        (
            squad(answers=[{"text": "1990", "answer_start": 3}]),
            "qas[0]",
            "does not point to '1990'",
        ),
        (squad(answers=[{"text": "1990"}]), "qas[0]", "does not point to '1990'"),
    ],
)
def test_a_bad_squad_file_is_named(tmp_path: Path, content: str, place: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        read_questions(write(tmp_path, "q.json", content))
    assert place in caught.value.message
    assert reason in caught.value.message


def test_unusable_files(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no file"):
        read_questions(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="cannot be read"):
        read_questions(tmp_path)
    with pytest.raises(InputError, match="not UTF-8: byte 1 "):
        read_questions(write(tmp_path, "latin.jsonl", b"{\xe9}"))
    with pytest.raises(InputError, match="holds no question"):
        read_questions(write(tmp_path, "empty.jsonl", "\n"))
