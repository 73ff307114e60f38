"""JSON Lines: every line is a document of its own.

This module does not know where the lines come from. A line is an object with ``text``, and
optionally ``title``, ``metadata`` (an object) and ``id`` (kept in the metadata). One bad line
fails the whole file, with its number as the reason, so nothing of it is added by halves.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from math import isinf
from typing import NoReturn

from readahead.documents.blocks import TextBuilder
from readahead.documents.clean import clean_characters
from readahead.documents.decode import decode
from readahead.documents.plain import add_paragraphs
from readahead.errors import DocumentError
from readahead.types import Document

_MAX_METADATA_DEPTH = 32
_MAX_ID_CHARS = 200
_SHOWN_CHARS = 30


def read_jsonl(data: bytes, name: str) -> list[Document]:
    """Return one document a line; blank lines are passed over.

    It is named ``name#id=ID`` if its record has an ``id``, text or a whole number, that no other
    has, and so keeps its name when lines come and go; else ``name#LINE``.

    Raises:
        DocumentError: A line is not what it should be; the reason names it.
    """
    documents: list[tuple[int, str, Document]] = []
    # Not splitlines(): it would also split at U+2028, which JSON strings may hold.
    for number, line in enumerate(decode(data, Counter()).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            documents.append((number, *_read_line(line)))
        except (ValueError, RecursionError) as error:
            raise DocumentError(f"line {number}: {_reason(error)}") from None
    uses = Counter(id for _, id, _ in documents)
    return [
        replace(document, name=f"{name}#id={id}" if id and uses[id] == 1 else f"{name}#{number}")
        for number, id, document in documents
    ]


def _reason(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON ({error.msg}, column {error.colno})"
    return str(error)


def _read_line(line: str) -> tuple[str, Document]:
    """Return a record's id, "" if no name can be made of it, and its document."""
    record = json.loads(line, parse_constant=_refuse_constant, parse_float=_finite)
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    text, title = record.get("text"), record.get("title")
    metadata = record.get("metadata")
    if not isinstance(text, str) or not text.strip():
        raise ValueError('"text" is missing or empty')
    if not isinstance(title, str | None):
        raise ValueError('"title" is not a string')
    if not isinstance(metadata, dict | None):
        raise ValueError('"metadata" is not an object')
    builder = TextBuilder()
    if title:
        builder.title(title, 1)
    add_paragraphs(builder, text)
    given_id = {"id": record["id"]} if record.get("id") is not None else {}
    cleaned = {
        clean_characters(key, builder.removed): _clean_value(value, builder.removed)
        for key, value in {**given_id, **(metadata or {})}.items()
    }
    document = builder.build("", cleaned)
    if not document.blocks:
        raise ValueError('"text" holds nothing visible')
    return _id(record.get("id")), document


def _id(value: object) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool):
        return ""
    text = " ".join(clean_characters(str(value), Counter()).split())
    return text if len(text) <= _MAX_ID_CHARS else ""


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")


def _finite(number: str) -> float:
    value = float(number)
    if isinf(value):
        raise ValueError(f"{number[:_SHOWN_CHARS]} is too large a number")
    return value


def _clean_value(value: object, removed: Counter[str], depth: int = 1) -> object:
    if depth > _MAX_METADATA_DEPTH:
        raise ValueError(f'"metadata" is nested more than {_MAX_METADATA_DEPTH} deep')
    if isinstance(value, str):
        return clean_characters(value, removed)
    if isinstance(value, list):
        return [_clean_value(item, removed, depth + 1) for item in value]
    if isinstance(value, dict):
        return {
            clean_characters(key, removed): _clean_value(item, removed, depth + 1)
            for key, item in value.items()
        }
    return value
