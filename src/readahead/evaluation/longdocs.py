"""Read questions over long documents from the files of public benchmarks.

Three formats, told apart record by record:

    LongBench v2    {"_id", "difficulty", "length", "question", "choice_A" … "choice_D", "answer",
                    "context"}, a JSON list of them [Bai25]
    InfiniteBench   {"id", "context", "input", "answer": [], "options": []}, JSON Lines [Zhang24]
    MT-Bench-101    {"id", "task", "history": [{"user", "bot"}]}, JSON Lines [Bai24]

A file whose name ends with ``.json`` is a list, any other has one record a line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from string import ascii_uppercase
from typing import Literal

from readahead.errors import InputError
from readahead.evaluation.datasets import (
    objects_at,
    read_lines,
    read_text,
    reason,
    strings_at,
    text_at,
)
from readahead.evaluation.longcases import LongCase, Metric, Turn
from readahead.text import is_cjk

Task = Literal["longbook_qa_eng", "longbook_qa_chn", "longbook_choice_eng", "longbook_sum_eng"]
"""The tasks of InfiniteBench that are read: En.QA, Zh.QA, En.MC and En.Sum."""

_METRICS: dict[Task, Metric] = {
    "longbook_qa_eng": "f1",
    "longbook_qa_chn": "f1",
    "longbook_choice_eng": "choice",
    "longbook_sum_eng": "rouge",
}
_SUMMARIZE = "Summarize the text above."
# Their first turn is what later ones are about; it is not judged.
_FIRST_TURN_GIVEN = frozenset({"AR", "CM", "CR", "FR", "SA", "SC"})
_FORM = (
    "LongBench v2 (question, choice_A to choice_D, answer, context), InfiniteBench (context, "
    "input, answer, options) and MT-Bench-101 (history) can be read."
)


def read_long_cases(path: Path, *, task: Task | None = None) -> list[LongCase]:
    """Return the cases of a file, in order.

    Args:
        path: Of a UTF-8 file.
        task: Of InfiniteBench; None: what the name of the file says, or else what its fields hold:
            options, no question, Chinese, or none of these.

    Raises:
        NotFound: There is no such file.
        InputError: The file or a record of it is not what it should be; the message says where.
    """
    named = task or next((name for name in _METRICS if name in path.name.lower()), None)
    numbers = count(1)

    def parse(record: dict[str, object]) -> LongCase:
        return _case(record, str(next(numbers)), named)

    is_list = path.suffix.lower() == ".json"
    cases = list(_from_list(path, parse) if is_list else read_lines(path, parse, _FORM))
    if not cases:
        raise InputError(f"{path} holds no question.", remedy=_FORM)
    return cases


def _from_list(path: Path, parse: Callable[[dict[str, object]], LongCase]) -> Iterator[LongCase]:
    where = "it"
    try:
        entries = json.loads(read_text(path))
        if not isinstance(entries, list):
            raise ValueError("it is not a list")
        for i, entry in enumerate(entries):
            where = f"[{i}]"
            if not isinstance(entry, dict):
                raise ValueError("it is not a JSON object")
            yield parse(entry)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}, at {where}: {reason(error)}.", remedy=_FORM) from None


def _case(record: dict[str, object], number: str, task: Task | None) -> LongCase:
    if "history" in record:
        return _dialogue(record, number)
    if "choice_A" in record:
        return _longbench(record, number)
    if "context" in record:
        return _infinitebench(record, number, task or _task_of(record))
    raise ValueError('it has none of "choice_A", "context" and "history"')


def _longbench(record: dict[str, object], number: str) -> LongCase:
    answer = text_at(record, "answer")
    if answer not in ("A", "B", "C", "D"):
        raise ValueError(f'"answer" {answer!r} is none of A, B, C and D')
    choices = tuple(text_at(record, f"choice_{letter}") for letter in "ABCD")
    names = [record.get(key) for key in ("difficulty", "length")]
    return LongCase(
        id=_id(record, "_id", number),
        document=text_at(record, "context"),
        turns=(Turn(text_at(record, "question"), (answer,), choices),),
        metric="choice",
        groups=tuple(name for name in names if isinstance(name, str) and name),
    )


def _infinitebench(record: dict[str, object], number: str, task: Task) -> LongCase:
    metric = _METRICS[task]
    answers = _answers(record)
    choices = tuple(strings_at(record, "options")) if metric == "choice" else ()
    return LongCase(
        id=_id(record, "id", number),
        document=text_at(record, "context"),
        turns=(
            Turn(
                _SUMMARIZE if metric == "rouge" else text_at(record, "input"),
                _letters(answers, choices) if metric == "choice" else answers,
                choices,
            ),
        ),
        metric=metric,
        groups=(task,),
    )


def _task_of(record: dict[str, object]) -> Task:
    question = record.get("input")
    if record.get("options"):
        return "longbook_choice_eng"
    if not isinstance(question, str) or not question.strip():
        return "longbook_sum_eng"
    return "longbook_qa_chn" if any(map(is_cjk, question)) else "longbook_qa_eng"


def _answers(record: dict[str, object]) -> tuple[str, ...]:
    """Return the answers; the benchmark's own code takes a single text for a list of one."""
    answer = record.get("answer")
    answers = (answer,) if isinstance(answer, str) else tuple(strings_at(record, "answer"))
    if not any(text.strip() for text in answers):
        raise ValueError('"answer" names no answer')
    return answers


def _letters(answers: tuple[str, ...], choices: tuple[str, ...]) -> tuple[str, ...]:
    """Return the letters of the right choices; the file holds the text of one, or its letter."""
    lettered = list(zip(ascii_uppercase, choices, strict=False))
    if len(choices) < 2 or len(lettered) < len(choices):
        raise ValueError(f'"options" holds {len(choices)} choices, not 2 to 26')
    by_text = tuple(letter for letter, choice in lettered if choice in answers)
    letters = by_text or tuple(letter for letter, _ in lettered if letter in answers)
    if not letters:
        raise ValueError('"answer" is none of the "options"')
    return letters


def _dialogue(record: dict[str, object], number: str) -> LongCase:
    task = record.get("task")
    name = task if isinstance(task, str) else ""
    history = objects_at(record, "history")
    if not history:
        raise ValueError('"history" is empty')
    return LongCase(
        id=_id(record, "id", number),
        document="",
        turns=tuple(
            Turn(
                text_at(said, "user"),
                _reply(said),
                is_given=place == 0 and len(history) > 1 and name in _FIRST_TURN_GIVEN,
            )
            for place, said in enumerate(history)
        ),
        metric="rouge",
        groups=(name,) if name else (),
    )


def _reply(said: dict[str, object]) -> tuple[str, ...]:
    reply = said.get("bot")
    if not isinstance(reply, str):
        raise ValueError('"bot" is missing or not text')
    return (reply,) if reply.strip() else ()


def _id(record: dict[str, object], key: str, number: str) -> str:
    value = record.get(key)
    return str(value) if isinstance(value, str | int) and value != "" else number
