"""Whether a store's tables are whole and agree; repairs nothing."""

from __future__ import annotations

import apsw

from readahead.retrieval import rows
from readahead.retrieval.schema import select_live

_LIVE = select_live(None)[0]

# Each selects a number that must be 0; {0} in the message is that number.
_COUNTS: tuple[tuple[str, str], ...] = (
    (
        "SELECT count(*) FROM documents d LEFT JOIN versions v "
        "ON v.id = d.version AND v.document = d.id WHERE v.id IS NULL",
        "{0} documents have no current version.",
    ),
    (
        f"SELECT count(*) FROM ({_LIVE} EXCEPT SELECT id FROM passages_fts_docsize)",
        "{0} passages are missing from the full-text index.",
    ),
    (
        f"SELECT count(*) FROM (SELECT id FROM passages_fts_docsize EXCEPT {_LIVE})",
        "The full-text index holds {0} passages that are gone.",
    ),
    (
        f"SELECT count(*) FROM (SELECT passage FROM vectors EXCEPT {_LIVE})",
        "There are vectors of {0} passages that are gone.",
    ),
    (
        "SELECT count(*) FROM passages p JOIN versions v ON v.id = p.version "
        "WHERE p.start < 0 OR p.end < p.start OR p.end > length(v.text)",
        "{0} passages lie outside their document.",
    ),
)


def problems(connection: apsw.Connection) -> list[str]:
    """Return what is wrong, one sentence each; empty if the store is sound."""
    answers = connection.execute("PRAGMA integrity_check").fetchall()
    found = [f"SQLite: {answer}" for (answer,) in answers if answer != "ok"]
    try:
        connection.execute("INSERT INTO passages_fts (passages_fts) VALUES ('integrity-check')")
    except apsw.CorruptError:
        found.append("The full-text index is damaged.")
    if connection.execute("PRAGMA foreign_key_check").fetchall():
        found.append("Some rows point at rows that are gone.")
    for sql, message in _COUNTS:
        ((count,),) = connection.execute(sql)
        if count:
            found.append(message.format(count))
    embedder = rows.embedder(connection)
    num_bytes = 4 * embedder[1] if embedder else 0
    sql = "SELECT count(*) FROM vectors WHERE length(vector) != ?"
    ((count,),) = connection.execute(sql, (num_bytes,))
    if count:
        found.append(f"{count} vectors do not have the embedder's dimension.")
    return found
