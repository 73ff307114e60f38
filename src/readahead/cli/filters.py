"""What the user calls documents, and the filter that options describe; searches nothing itself."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from readahead.documents.files import shown_path
from readahead.errors import InputError, NotFound
from readahead.knowledge import STDIN
from readahead.retrieval.base import Filter
from readahead.retrieval.records import DocumentInfo
from readahead.retrieval.store import Store
from readahead.types import PassageKind

KINDS = get_args(PassageKind)

Documents = Annotated[
    list[str] | None,
    typer.Option(
        "--document",
        metavar="NAME",
        help="Only this document, or those of this folder; repeatable.",
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        help=f"Only passages of this kind: {', '.join(KINDS)}; repeatable.",
    ),
]
Metadata = Annotated[
    list[str] | None,
    typer.Option(
        "--where", metavar="KEY=VALUE", help="Only documents with this metadata; repeatable."
    ),
]


def document_names(store: Store, given: Iterable[str], *, to_add: bool = False) -> list[str]:
    """Return the names of the documents that ``given`` means.

    Args:
        store: That holds them.
        given: Names or ids of documents, files of many documents, and folders.
        to_add: Whether what is missing may be wanted, and the error says how to add it.

    Raises:
        InputError: One of them is the id of a document and a folder, too.
        NotFound: One of them means no document.
    """
    infos = store.documents()
    names: dict[str, None] = {}
    for text in given:
        path = shown_path(Path(text)) if text else ""  # ./notes//a.md was added as notes/a.md
        found = (
            _called(infos, text) or _called(infos, path) or _numbered_or_below(infos, text, path)
        )
        if not found:
            hint = f"; or add it: readahead add {shlex.quote(text)}" if to_add else ""
            alike = [info.name for info in infos if path and info.name.endswith(f"/{path}")]
            meant = f"Did you mean {alike[0]!r}? " if alike else ""
            raise NotFound(
                f"There is no document {text!r}.", remedy=f"{meant}List them: readahead ls{hint}"
            )
        names |= dict.fromkeys(found)
    return list(names)


def _called(infos: Sequence[DocumentInfo], text: str) -> list[str]:
    by_name = [info.name for info in infos if info.name == text]
    by_file = [info.name for info in infos if info.source == text]
    return by_name or by_file


def _numbered_or_below(infos: Sequence[DocumentInfo], id: str, folder: str) -> list[str]:
    """Return the document with an id, or those below a folder.

    Raises:
        InputError: There are both, so that what is meant would have to be guessed.
    """
    numbered = [info.name for info in infos if str(info.id) == id]
    below = _below(infos, folder)
    if numbered and below:
        raise InputError(
            f"{id!r} is the id of {numbered[0]!r}, and a folder of {len(below)} documents.",
            remedy=f"Give the document's name, or {id + '/'!r} for the folder.",
        )
    return numbered or below


def _below(infos: Sequence[DocumentInfo], folder: str) -> list[str]:
    if folder == ".":
        return [
            info.name
            for info in infos
            if not info.source.startswith(("/", "../")) and info.source != STDIN
        ]
    return [info.name for info in infos if info.source.startswith(f"{folder.rstrip('/')}/")]


def search_filter(
    store: Store,
    documents: Sequence[str] | None,
    kinds: Sequence[str] | None,
    metadata: Sequence[str] | None,
) -> Filter | None:
    """Return the filter that the options describe, None where there are none.

    Raises:
        NotFound: There is no such document.
        InputError: A kind does not exist, or a metadata condition is not KEY=VALUE.
    """
    if not (documents or kinds or metadata):
        return None
    for kind in kinds or ():
        if kind not in KINDS:
            raise InputError(f"There is no kind {kind!r}.", remedy=f"Use: {', '.join(KINDS)}.")
    return Filter(
        documents=tuple(document_names(store, documents or (), to_add=True)),
        kinds=cast("tuple[PassageKind, ...]", tuple(kinds or ())),
        metadata=dict(_condition(text) for text in metadata or ()),
    )


def _condition(text: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise InputError(f"{text!r} is not KEY=VALUE.", remedy="For instance: --where year=2024")
    try:
        return key, json.loads(value)
    except (ValueError, RecursionError):
        return key, value
