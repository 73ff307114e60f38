"""The tables of a knowledge base; knows no Python records.

A *source* is what was added: a file, or ``-``. It holds one document, or many when it is a file of
records. A document has numbered *versions*; ``documents.version`` points at the one that is
searched. Passages of earlier versions stay, so that citations made from them still resolve, but
only live passages (those of current versions) have vectors and full-text rows. No id is ever
used twice.
"""

from __future__ import annotations

import json
import re

from readahead.retrieval.base import Filter

SCHEMA_VERSION = 1
APPLICATION_ID = 0x52414744  # "RAGD": tells a knowledge base from any other SQLite file

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO meta VALUES ('generation', 0);

CREATE TABLE sources (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, sha256 TEXT NOT NULL);

CREATE TABLE documents (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, version INTEGER,
    source INTEGER NOT NULL REFERENCES sources ON DELETE CASCADE);
CREATE INDEX documents_source ON documents (source);
CREATE INDEX documents_version ON documents (version);

CREATE TABLE versions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    number INTEGER NOT NULL, sha256 TEXT NOT NULL, added_at REAL NOT NULL,
    text TEXT NOT NULL, blocks TEXT NOT NULL, removed TEXT NOT NULL,
    UNIQUE (document, number));

CREATE TABLE metadata (
    version INTEGER NOT NULL REFERENCES versions ON DELETE CASCADE,
    key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (version, key)) WITHOUT ROWID;
CREATE INDEX metadata_value ON metadata (key, value);

CREATE TABLE passages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    version INTEGER NOT NULL REFERENCES versions ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, kind TEXT NOT NULL, heading TEXT NOT NULL, page INTEGER,
    start INTEGER NOT NULL, end INTEGER NOT NULL, context TEXT NOT NULL, hash BLOB NOT NULL,
    UNIQUE (version, ordinal));
CREATE INDEX passages_hash ON passages (hash);

CREATE TABLE vectors (
    passage INTEGER PRIMARY KEY REFERENCES passages ON DELETE CASCADE, vector BLOB NOT NULL);

CREATE TABLE traces (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, body TEXT NOT NULL);
"""


_SURROGATE = re.compile("[\ud800-\udfff]")


def select_live(filter: Filter | None) -> tuple[str, tuple[str, ...]]:
    """Return the SQL that selects the ids of the live passages, with its parameters."""
    filter = filter or Filter()
    sql = "SELECT p.id FROM passages p JOIN documents d ON d.version = p.version WHERE 1"
    parameters: list[str] = []
    if filter.documents:
        sql += " AND d.name IN (SELECT value FROM json_each(?))"
        parameters.append(json_text(filter.documents))
    if filter.kinds:
        sql += " AND p.kind IN (SELECT value FROM json_each(?))"
        parameters.append(json_text(filter.kinds))
    for key, value in filter.metadata.items():
        sql += " AND p.version IN (SELECT version FROM metadata WHERE key = ? AND value = ?)"
        parameters += [storable(key), json_text(value)]
    return sql, tuple(parameters)


def json_text(value: object) -> str:
    """Return the one spelling of a JSON value that is stored, so that equal values are equal."""
    return storable(json.dumps(value, sort_keys=True, ensure_ascii=False))


def storable(text: str) -> str:
    """Return ``text`` as SQLite can keep it, of the same length.

    A lone surrogate has no UTF-8; each becomes U+FFFD, so offsets hold.
    """
    return _SURROGATE.sub("\ufffd", text)
