"""JSON Lines: every line is a document of its own.

This module does not know where the lines come from. A line is an object with ``text``, and
optionally ``title``, ``metadata`` (an object) and ``id`` (kept in the metadata). One bad line
fails the whole file, with its number as the reason, so nothing of it is added by halves.
"""

from __future__ import annotations

import json
from collections import Counter
from math import isinf
from typing import NoReturn

from readahead.documents.blocks import TextBuilder
from readahead.documents.clean import clean_characters
from readahead.documents.decode import decode
from readahead.documents.plain import add_paragraphs
from readahead.errors import DocumentError
from readahead.types import Document

_MAX_METADATA_DEPTH = 32
_SHOWN_CHARS = 30


def read_jsonl(data: bytes, name: str) -> list[Document]:
    """Return one document a line, named ``name#LINE``; blank lines are passed over.

    Raises:
        DocumentError: A line is not what it should be; the reason names it.
    """
    documents = []
    # Not splitlines(): it would also split at U+2028, which JSON strings may hold.
    for number, line in enumerate(decode(data, Counter()).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            documents.append(_read_line(line, f"{name}#{number}"))
        except (ValueError, RecursionError) as error:
            raise DocumentError(f"line {number}: {_reason(error)}") from None
    return documents


def _reason(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON ({error.msg}, column {error.colno})"
    return str(error)


def _read_line(line: str, name: str) -> Document:
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
    document = builder.build(name, cleaned)
    if not document.blocks:
        raise ValueError('"text" holds nothing visible')
    return document


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
