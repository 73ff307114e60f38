"""How rows become records; knows no transactions and changes nothing.

Every function reads through a connection within a transaction of the caller.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from readahead.errors import NotFound
from readahead.retrieval.base import Vector, Vectors
from readahead.retrieval.records import DocumentInfo, Outline
from readahead.retrieval.schema import storable
from readahead.types import Block, Document, Passage

RowIds = Sequence[int] | NDArray[np.int64]


def document_infos(
    connection: apsw.Connection, ids: Sequence[int] | None = None
) -> list[DocumentInfo]:
    """Return documents by name: those with these ids, or all."""
    rows: list[tuple[Any, ...]] = connection.execute(
        "SELECT d.id, d.name, s.name, v.number, length(v.text), "
        "(SELECT count(*) FROM passages p WHERE p.version = v.id), v.added_at, v.removed "
        "FROM documents d JOIN sources s ON s.id = d.source JOIN versions v ON v.id = d.version "
        "WHERE ?1 IS NULL OR d.id IN (SELECT value FROM json_each(?1)) ORDER BY d.name",
        (None if ids is None else _json(ids),),
    ).fetchall()
    return [DocumentInfo(*(*row[:-1], json.loads(row[-1]))) for row in rows]


def document_ids(
    connection: apsw.Connection, query: str = "", below: int | None = None
) -> list[int]:
    """Return the ids of the documents whose name holds ``query``, in any case, the newest first.

    Args:
        connection: Of the store.
        query: A part of names; "" is in all of them.
        below: Ids from here on are left out.
    """
    sql = "SELECT id, name FROM documents WHERE ?1 IS NULL OR id < ?1 ORDER BY id DESC"
    wanted = storable(query).casefold()
    return [id for id, name in connection.execute(sql, (below,)) if wanted in name.casefold()]


def num_documents(connection: apsw.Connection, but_sources: Iterable[str] = ()) -> int:
    """Return how many documents there are, without those of some sources."""
    sql = (
        "SELECT count(*) FROM documents WHERE source NOT IN "
        "(SELECT id FROM sources WHERE name IN (SELECT value FROM json_each(?)))"
    )
    names = json.dumps([storable(name) for name in but_sources])
    ((number,),) = connection.execute(sql, (names,))
    return int(number)


def documents_named(
    connection: apsw.Connection, name: str, *, by_id: bool = False
) -> dict[int, str]:
    """Return ids and names of the document, or all of the source, called ``name``.

    Args:
        connection: Of the store.
        name: Of a document or a source, or else a document's id.
        by_id: Whether it is an id and nothing else.

    Raises:
        NotFound: There is no such document.
    """
    names = [("d.name = ?", storable(name)), ("s.name = ?", storable(name))]
    for condition, value in (
        *(() if by_id else names),
        ("CAST(d.id AS TEXT) = ?", storable(name)),
    ):
        sql = "SELECT d.id, d.name FROM documents d JOIN sources s ON s.id = d.source WHERE "
        if found := dict(connection.execute(sql + condition, (value,))):
            return found
    raise NotFound(f"There is no document {name!r}.", remedy="List them: readahead ls")


def is_unchanged(connection: apsw.Connection, source: str, sha256: str, *, embedded: bool) -> bool:
    """Return whether a source has this content and, if ``embedded``, all its vectors."""
    sql = (
        "SELECT 1 FROM sources s WHERE name = ? AND sha256 = ? AND NOT (? AND EXISTS "
        "(SELECT 1 FROM documents d JOIN passages p ON p.version = d.version "
        "WHERE d.source = s.id AND p.id NOT IN (SELECT passage FROM vectors)))"
    )
    return bool(connection.execute(sql, (storable(source), sha256, embedded)).fetchall())


def passages_without_vector(connection: apsw.Connection, document: int) -> dict[int, bytes]:
    """Return the live passages of a document that have none, with their content hashes."""
    sql = (
        "SELECT p.id, p.hash FROM passages p JOIN documents d ON d.version = p.version "
        "WHERE d.id = ? AND p.id NOT IN (SELECT passage FROM vectors)"
    )
    return dict(connection.execute(sql, (document,)))


def document(connection: apsw.Connection, id: int) -> Document:
    """Return the current version of a document."""
    sql = (
        "SELECT d.name, v.text, v.blocks, v.removed, v.id FROM documents d "
        "JOIN versions v ON v.id = d.version WHERE d.id = ?"
    )
    ((name, text, blocks, removed, version),) = connection.execute(sql, (id,))
    return Document(
        name=name,
        text=text,
        blocks=tuple(
            Block(**{**block, "heading": tuple(block["heading"])}) for block in json.loads(blocks)
        ),
        removed=json.loads(removed),
        metadata=_metadata(connection, version),
    )


def passage_rowid(connection: apsw.Connection, id: str) -> int:
    """Return the row id of the passage ``document.version.ordinal``.

    Raises:
        NotFound: There is no such passage, or its document was removed.
    """
    sql = (
        "SELECT p.id FROM passages p JOIN versions v ON v.id = p.version "
        "WHERE v.document || '.' || v.number || '.' || p.ordinal = ? AND v.document = ?"
    )
    document = id.partition(".")[0]
    row = connection.execute(sql, (storable(id), storable(document))).fetchone()
    if row is None:
        raise NotFound(f"There is no passage {id!r}.", remedy="Its document may have been removed.")
    return int(row[0])


def live_versions(connection: apsw.Connection) -> set[str]:
    """Return ``document.version`` of every document's current version."""
    sql = (
        "SELECT v.document || '.' || v.number FROM documents d JOIN versions v ON v.id = d.version"
    )
    return {version for (version,) in connection.execute(sql)}


def passages(connection: apsw.Connection, rowids: RowIds) -> list[Passage]:
    """Return passages by their row ids, in this order; unknown ones are left out."""
    rows: list[tuple[Any, ...]] = connection.execute(
        "SELECT p.id, p.version, v.document || '.' || v.number || '.' || p.ordinal, d.name, "
        "p.kind, p.heading, p.page, p.start, p.end, p.context FROM passages p "
        "JOIN versions v ON v.id = p.version JOIN documents d ON d.id = v.document "
        "WHERE p.id IN (SELECT value FROM json_each(?))",
        (_json(rowids),),
    ).fetchall()
    # Each version is read once and cut here: SQLite would read a long text anew for every passage.
    versions = {row[1]: _text(connection, row[1]) for row in rows}
    metadata = {version: _metadata(connection, version) for version in versions}
    found = {
        rowid: Passage(
            id=id,
            document=name,
            kind=kind,
            heading=tuple(json.loads(heading)),
            page=page,
            start=start,
            end=end,
            context=context,
            text=versions[version][start:end],
            metadata=metadata[version],
        )
        for rowid, version, id, name, kind, heading, page, start, end, context in rows
    }
    return [found[rowid] for rowid in map(int, rowids) if rowid in found]


def outlines(connection: apsw.Connection, rowids: RowIds) -> dict[int, Outline]:
    """Return kind and heading of passages by their row ids."""
    sql = "SELECT id, kind, heading FROM passages WHERE id IN (SELECT value FROM json_each(?))"
    rows = connection.execute(sql, (_json(rowids),))
    return {rowid: Outline(kind, tuple(json.loads(heading))) for rowid, kind, heading in rows}


def embedder(connection: apsw.Connection) -> tuple[str, int] | None:
    """Return fingerprint and dimension of the embedder, None before the first."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'embedder'").fetchone()
    if row is None:
        return None
    fingerprint, dim = json.loads(row[0])
    return fingerprint, dim


def vectors(connection: apsw.Connection, rowids: RowIds) -> Vectors:
    """Return the vectors of passages that have one, in this order; (n, dim)."""
    sql = "SELECT passage, vector FROM vectors WHERE passage IN (SELECT value FROM json_each(?))"
    found = dict(connection.execute(sql, (_json(rowids),)))
    stored = embedder(connection)
    joined = b"".join(found[int(rowid)] for rowid in rowids)
    return np.frombuffer(joined, np.float32).reshape(len(rowids), stored[1] if stored else 0)


def known_vectors(connection: apsw.Connection, hashes: Iterable[bytes]) -> dict[bytes, Vector]:
    """Return the vectors of live passages with these content hashes, where there are some."""
    sql = (
        "SELECT v.vector FROM passages p JOIN vectors v ON v.passage = p.id WHERE p.hash = ? "
        "LIMIT 1"
    )
    rows = ((content, connection.execute(sql, (content,)).fetchone()) for content in hashes)
    return {content: np.frombuffer(row[0], np.float32) for content, row in rows if row is not None}


def _text(connection: apsw.Connection, version: int) -> str:
    ((text,),) = connection.execute("SELECT text FROM versions WHERE id = ?", (version,))
    return str(text)


def _metadata(connection: apsw.Connection, version: int) -> dict[str, object]:
    sql = "SELECT key, value FROM metadata WHERE version = ?"
    return {key: json.loads(value) for key, value in connection.execute(sql, (version,))}


def _json(rowids: RowIds) -> str:
    return json.dumps([int(rowid) for rowid in rowids])
