"""Read labelled questions from files; knows nothing about how they are answered.

Two formats: JSON Lines of ``{"question", "answers", "passage"}``, and JSON in the form of SQuAD
1.1 or 2.0, told apart by the ending ``.json``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from readahead.errors import InputError, NotFound

Row = TypeVar("Row")

_LINE_FORM = 'A line is like {"question": "…", "answers": ["…"], "passage": 7}; passage may lack.'
_SQUAD_FORM = (
    'The form is {"data": [{"paragraphs": [{"context", "qas": [{"question", "answers"}]}]}]}.'
)


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its right answers.

    Attributes:
        answers: Any of them is right; none means that the passages cannot answer it.
        passage: The id of the passage that holds the answer, as text; empty if not known.
        context: The paragraph that holds the answer, in SQuAD; else empty.
        starts: Where each answer begins in the context, in SQuAD; else empty.
    """

    text: str
    answers: tuple[str, ...]
    passage: str = ""
    context: str = ""
    starts: tuple[int, ...] = ()


def read_questions(path: Path) -> list[Question]:
    """Return the questions of a file, in order.

    Raises:
        NotFound: There is no such file.
        InputError: The file or a line of it is not what it should be; the message says where.
    """
    if path.suffix.lower() == ".json":
        questions = list(_from_squad(path, read_text(path)))
    else:
        questions = list(read_lines(path, _question, _LINE_FORM))
    if not questions:
        raise InputError(f"{path} holds no question.", remedy=_LINE_FORM)
    return questions


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file.

    Raises:
        NotFound: There is no such file.
        InputError: It cannot be read, or is not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise NotFound(f"There is no file {str(path)!r}.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8: byte {error.start} cannot be decoded.",
            remedy="Convert it to UTF-8.",
        ) from None


def read_lines(path: Path, parse: Callable[[dict[str, object]], Row], form: str) -> Iterator[Row]:
    """Yield what ``parse`` makes of each line of a file of JSON objects.

    Args:
        path: Of a UTF-8 file; empty lines are passed over.
        parse: Raises ValueError with the reason if an object is not what it should be.
        form: What a line is like, for the remedy.

    Raises:
        NotFound: There is no such file.
        InputError: The file or a line of it is not what it should be; the message says where.
    """
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError("it is not a JSON object")
            yield parse(record)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: {reason(error)}.", remedy=form) from None


def _question(record: dict[str, object]) -> Question:
    passage = record.get("passage")
    if not isinstance(passage, str | int | None):
        raise ValueError('"passage" is neither text nor a whole number')
    return Question(
        text=text_at(record, "question"),
        answers=tuple(strings_at(record, "answers")),
        passage="" if passage is None else str(passage),
    )


def _from_squad(path: Path, text: str) -> Iterator[Question]:
    where = "it"
    try:
        for i, article in enumerate(objects_at(json.loads(text), "data")):
            for j, paragraph in enumerate(objects_at(article, "paragraphs")):
                for k, entry in enumerate(objects_at(paragraph, "qas")):
                    where = f"data[{i}].paragraphs[{j}].qas[{k}]"
                    yield _squad_question(entry, text_at(paragraph, "context"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}, at {where}: {reason(error)}.", remedy=_SQUAD_FORM) from None


def _squad_question(entry: dict[str, object], context: str) -> Question:
    # SQuAD 2.0 marks a question without an answer, and keeps plausible wrong ones apart.
    answers = [] if entry.get("is_impossible") is True else objects_at(entry, "answers")
    starts = []
    for answer in answers:
        start, body = answer.get("answer_start"), text_at(answer, "text")
        if not isinstance(start, int) or context[start : start + len(body)] != body:
            raise ValueError(f'"answer_start" {start!r} does not point to {body!r}')
        starts.append(start)
    return Question(
        text=text_at(entry, "question"),
        answers=tuple(text_at(answer, "text") for answer in answers),
        context=context,
        starts=tuple(starts),
    )


def text_at(record: dict[str, object], key: str) -> str:
    """Return the text of a key; raise ValueError if there is none."""
    value = record.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f'"{key}" is missing or empty')
    return value


def strings_at(record: dict[str, object], key: str) -> list[str]:
    """Return the list of texts of a key; raise ValueError if it is none."""
    value = record.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f'"{key}" is not a list of texts')
    return value


def objects_at(record: object, key: str) -> list[dict[str, object]]:
    """Return the list of objects of a key; raise ValueError if it is none."""
    value = record.get(key) if isinstance(record, dict) else None
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError(f'"{key}" is not a list of objects')
    return value


def reason(error: ValueError | RecursionError) -> str:
    """Return what is wrong, for the middle of a sentence."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON ({error.msg}, line {error.lineno}, column {error.colno})"
    return str(error)
