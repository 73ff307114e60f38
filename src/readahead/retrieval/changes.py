"""How sources become rows, and how rows go; knows no transactions and no searches.

Every function works on a connection within a transaction of the caller.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import apsw
import numpy as np

from readahead.errors import BackendError, InputError
from readahead.retrieval import lexical, rows
from readahead.retrieval.base import Vector
from readahead.retrieval.content import body_text, content_hash, heading_text
from readahead.retrieval.records import Changes, NewDocument, NewSource
from readahead.retrieval.schema import json_text, storable
from readahead.retrieval.succession import continued
from readahead.types import Document, Passage


def put_source(
    connection: apsw.Connection, source: NewSource, vectors: Mapping[bytes, Vector]
) -> Changes:
    """Make ``source`` and its documents what is stored under its name.

    Args:
        connection: Of the store.
        source: What to store.
        vectors: By content hash.

    Raises:
        BackendError: A vector is not finite, of zero length, or of a wrong size.
        InputError: A document's name belongs to another source.
    """
    name = storable(source.name)
    if rows.is_unchanged(connection, name, source.sha256, embedded=bool(vectors)):
        return Changes(unchanged=1)
    row = connection.execute("SELECT id FROM sources WHERE name = ?", (name,)).fetchone()
    if row is None:
        sql = "INSERT INTO sources (name, sha256) VALUES (?, ?)"
        connection.execute(sql, (name, source.sha256))
        source_id = connection.last_insert_rowid()
    else:
        source_id = row[0]
        sql = "UPDATE sources SET sha256 = ? WHERE id = ?"
        connection.execute(sql, (source.sha256, source_id))
    passages, deleted = _put_documents(connection, source_id, source, vectors)
    return Changes(
        added=int(row is None), replaced=int(row is not None), passages=passages, deleted=deleted
    )


def delete_document(connection: apsw.Connection, document: int) -> None:
    """Delete a document with all its versions, passages, vectors, and the traces that show it."""
    _retire_passages(connection, document)
    connection.execute(
        "DELETE FROM traces WHERE EXISTS (SELECT 1 FROM json_each(body, '$.attributes.passages') "
        "WHERE CAST(json_extract(value, '$.id') AS INTEGER) = ?)",  # of 3.1.7 it takes the 3
        (document,),
    )
    connection.execute("DELETE FROM documents WHERE id = ?", (document,))


def delete_orphan(connection: apsw.Connection, trace: str) -> None:
    """Delete a trace that shows a passage of a document which is not there any more."""
    connection.execute(
        "DELETE FROM traces WHERE id = ? AND EXISTS "
        "(SELECT 1 FROM json_each(body, '$.attributes.passages') "
        "WHERE CAST(json_extract(value, '$.id') AS INTEGER) NOT IN (SELECT id FROM documents))",
        (trace,),
    )


def put_vectors(
    connection: apsw.Connection, passages: Mapping[int, bytes], vectors: Mapping[bytes, Vector]
) -> None:
    """Store the vectors of passages, given with their content hashes, that have one.

    Raises:
        BackendError: A vector is not finite, of zero length, or of a wrong size.
    """
    embedder = rows.embedder(connection)
    found = {passage: vectors[key] for passage, key in passages.items() if key in vectors}
    for vector in found.values():
        _check_vector(vector, embedder[1] if embedder else 0)
    connection.executemany(
        "INSERT INTO vectors (passage, vector) VALUES (?, ?)",
        [(passage, vector.tobytes()) for passage, vector in found.items()],
    )


def _check_vector(vector: Vector, dim: int) -> None:
    norm = float(np.linalg.norm(vector))
    if vector.dtype != np.float32 or vector.shape != (dim,) or not 0 < norm < math.inf:
        raise BackendError(
            f"The embedder gave a {vector.dtype} vector of shape {vector.shape} and length {norm}; "
            f"it must be float32, of shape ({dim},), finite and not zero.",
            remedy="Use another embedder or precision.",
        )


class _Stored(NamedTuple):
    """The current version of a document."""

    document: int
    number: int
    digest: str


def _put_documents(
    connection: apsw.Connection, source: int, new: NewSource, vectors: Mapping[bytes, Vector]
) -> tuple[int, int]:
    """Store what a source holds now; return how many passages were written, documents deleted."""
    documents = {storable(each.document.name): each for each in new.documents}
    _refuse_foreign(connection, source, documents)
    digests = {name: _digest(document) for name, document in documents.items()}
    old = _stored(connection, source)
    continues = continued({name: stored.digest for name, stored in old.items()}, digests)
    gone = old.keys() - continues.values()
    for name in gone:
        delete_document(connection, old[name].document)
    _rename(connection, {old[was].document: name for name, was in continues.items() if was != name})
    num_passages = 0
    for name, each in documents.items():
        was = continues.get(name)
        before = _insert_document(connection, source, name) if was is None else old[was]
        num_passages += _put_version(connection, each, digests[name], before, vectors)
    return num_passages, len(gone)


def _refuse_foreign(connection: apsw.Connection, source: int, names: Iterable[str]) -> None:
    sql = (
        "SELECT d.name, s.name FROM documents d JOIN sources s ON s.id = d.source "
        "WHERE d.source <> ? AND d.name IN (SELECT value FROM json_each(?))"
    )
    for name, owner in connection.execute(sql, (source, json_text(list(names)))):
        raise InputError(
            f"A document named {name!r} was already added from {owner!r}.",
            remedy="Remove that one first, or rename one of the two.",
        )


def _stored(connection: apsw.Connection, source: int) -> dict[str, _Stored]:
    """Return the documents of a source by name."""
    sql = (
        "SELECT d.name, d.id, v.number, v.sha256 FROM documents d "
        "JOIN versions v ON v.id = d.version WHERE d.source = ? ORDER BY d.id"
    )
    return {name: _Stored(*stored) for name, *stored in connection.execute(sql, (source,))}


def _rename(connection: apsw.Connection, names: Mapping[int, str]) -> None:
    """Give documents new names, which may be the old ones of each other."""
    # No text equals a blob, so for a moment each has a name that no other can have.
    sql = "UPDATE documents SET name = CAST(id AS BLOB) WHERE id = ?"
    connection.executemany(sql, [(document,) for document in names])
    sql = "UPDATE documents SET name = ? WHERE id = ?"
    connection.executemany(sql, [(name, document) for document, name in names.items()])


def _insert_document(connection: apsw.Connection, source: int, name: str) -> _Stored:
    """Insert a document that has no version yet."""
    connection.execute("INSERT INTO documents (name, source) VALUES (?, ?)", (name, source))
    return _Stored(connection.last_insert_rowid(), 0, "")


def _put_version(
    connection: apsw.Connection,
    new: NewDocument,
    digest: str,
    before: _Stored,
    vectors: Mapping[bytes, Vector],
) -> int:
    """Store ``new`` as a version, or only its vectors if it equals the current one.

    Returns:
        The number of passages written.
    """
    document = before.document
    if before.digest == digest:
        put_vectors(connection, rows.passages_without_vector(connection, document), vectors)
        return 0
    if before.number:
        _retire_passages(connection, document)
    version = _insert_version(connection, new.document, (document, before.number + 1, digest))
    connection.execute("UPDATE documents SET version = ? WHERE id = ?", (version, document))
    passages = {
        _insert_passage(connection, version, ordinal, passage): content_hash(passage)
        for ordinal, passage in enumerate(new.passages)
    }
    put_vectors(connection, passages, vectors)
    return len(passages)


def _digest(new: NewDocument) -> str:
    """Return a hash of everything that makes a new version necessary."""
    document = new.document
    cuts = [(p.start, p.end, p.kind, p.heading, p.page, p.context) for p in new.passages]
    digest = hashlib.sha256(b"[")
    for part in (document.text, list(map(asdict, document.blocks)), dict(document.metadata)):
        digest.update(f"{json_text(part)}, ".encode())
    digest.update(f"{json_text(cuts)}]".encode())
    return digest.hexdigest()


def _insert_version(
    connection: apsw.Connection, document: Document, key: tuple[int, int, str]
) -> int:
    connection.execute(
        "INSERT INTO versions (document, number, sha256, added_at, text, blocks, removed) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            *key,
            time.time(),
            storable(document.text),
            json_text([asdict(block) for block in document.blocks]),
            json_text(dict(document.removed)),
        ),
    )
    version = connection.last_insert_rowid()
    connection.executemany(
        "INSERT OR REPLACE INTO metadata (version, key, value) VALUES (?, ?, ?)",
        [(version, storable(key), json_text(value)) for key, value in document.metadata.items()],
    )
    return version


def _insert_passage(
    connection: apsw.Connection, version: int, ordinal: int, passage: Passage
) -> int:
    connection.execute(
        "INSERT INTO passages (version, ordinal, kind, heading, page, start, end, context, hash) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            version,
            ordinal,
            passage.kind,
            json_text(passage.heading),
            passage.page,
            passage.start,
            passage.end,
            storable(passage.context),
            content_hash(passage),
        ),
    )
    rowid = connection.last_insert_rowid()
    body = body_text(passage.context, passage.text)
    lexical.insert(connection, rowid, heading_text(passage.heading), body)
    return rowid


def _retire_passages(connection: apsw.Connection, document: int) -> None:
    """Take the passages of the current version out of both indexes."""
    sql = (
        "SELECT p.id, p.heading, p.context, p.start, p.end FROM passages p "
        "JOIN documents d ON d.version = p.version WHERE d.id = ?"
    )
    passages: list[tuple[Any, ...]] = connection.execute(sql, (document,)).fetchall()
    sql = "SELECT v.text FROM versions v JOIN documents d ON d.version = v.id WHERE d.id = ?"
    ((text,),) = connection.execute(sql, (document,))
    for rowid, heading, context, start, end in passages:
        body = body_text(context, text[start:end])
        lexical.delete(connection, rowid, heading_text(tuple(json.loads(heading))), body)
    connection.executemany("DELETE FROM vectors WHERE passage = ?", [row[:1] for row in passages])
