"""The truth of a knowledge base: documents, versions, passages, vectors, traces.

Knows nothing about ranking. One folder holds one knowledge base; every change is one transaction,
kept once the call returns. ``cache/`` in the folder holds only what can be rebuilt.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

import apsw
import numpy as np
from numpy.typing import NDArray

from readahead.errors import EmbedderMismatch, NotFound, StoreError
from readahead.retrieval import changes, integrity, lexical, rows
from readahead.retrieval.base import Embedder, Filter, Vector, Vectors
from readahead.retrieval.database import Database
from readahead.retrieval.records import Changes, DocumentInfo, NewSource, Outline
from readahead.retrieval.schema import SCHEMA, json_text, select_live, storable
from readahead.types import Document, Passage

FILE_NAME = "knowledge.db"


class Store:
    """A knowledge base. May be used from several threads and by several processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._database = Database(folder / FILE_NAME, SCHEMA + lexical.SCHEMA)
        self._live: tuple[int, set[str]] = (-1, set())  # of a generation

    @classmethod
    def open(cls, folder: Path | str, *, create: bool = True) -> Self:
        """Open the knowledge base in ``folder``.

        Raises:
            NotFound: There is none, and it is not to be created.
            StoreError: It cannot be opened, is damaged, or has another schema.
        """
        folder = Path(folder)
        if not create and not (folder / FILE_NAME).is_file():
            raise NotFound(
                f"There is no knowledge base in {folder}.", remedy="Make one: readahead add PATH…"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"The folder {folder} cannot be made: {error.strerror}.",
                remedy="Choose another with --kb.",
            ) from None
        return cls(folder)

    def close(self) -> None:
        """Close it; what was acknowledged is kept without this, too."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def cache(self) -> Path:
        """Return the folder for what can be rebuilt from the store."""
        return self.folder / "cache"

    def snapshot(self) -> AbstractContextManager[apsw.Connection]:
        """Let all reads of this thread in the ``with`` body see one state."""
        return self._database.read()

    # Changes

    def is_unchanged(self, source: str, sha256: str, *, embedded: bool = False) -> bool:
        """Return whether ``source`` is stored with exactly this content.

        With ``embedded``, only if each of its passages has a vector, too.
        """
        with self._database.read() as connection:
            return rows.is_unchanged(connection, source, sha256, embedded=embedded)

    def replace(
        self,
        sources: Iterable[NewSource],
        embedder: Embedder | None = None,
        vectors: Mapping[bytes, Vector] | None = None,
    ) -> Changes:
        """Store sources, all or none; each replaces what was stored of that source before.

        Documents that a source no longer holds are deleted for good, unchanged ones are left
        alone but for vectors that they lack, changed ones get a new version.

        Args:
            sources: What to store.
            embedder: What made the vectors; needed when there are any.
            vectors: By content hash; a passage without one is found by its words only.

        Raises:
            EmbedderMismatch: The knowledge base is embedded with another model.
            BackendError: A vector is not finite, of zero length, or of a wrong size.
            InputError: A document's name belongs to another source.
        """
        total = Changes()
        with self._database.write() as connection:
            if embedder is not None:
                self._tie(connection, embedder)
            for source in sources:
                total += changes.put_source(connection, source, vectors or {})
            if total.added or total.replaced:
                _advance(connection)
            if total.deleted:
                lexical.forget(connection)
        if total.deleted:
            self._drop_cache()
        return total

    def remove(self, names: Iterable[str], *, by_id: bool = False) -> list[str]:
        """Delete documents for good, with all versions, and return their names.

        Args:
            names: Of documents or of sources, or ids of documents.
            by_id: Whether they are ids and nothing else.

        Raises:
            NotFound: There is no such document; nothing is deleted.
        """
        removed: dict[int, str] = {}
        with self._database.write() as connection:
            for name in names:
                removed |= rows.documents_named(connection, name, by_id=by_id)
            for document in removed:
                # What is removed by hand comes back when its source is added again.
                connection.execute(
                    "UPDATE sources SET sha256 = '' "
                    "WHERE id = (SELECT source FROM documents WHERE id = ?)",
                    (document,),
                )
                changes.delete_document(connection, document)
            connection.execute("DELETE FROM sources WHERE id NOT IN (SELECT source FROM documents)")
            lexical.forget(connection)
            _advance(connection)
        self._drop_cache()
        return list(removed.values())

    def replace_vectors(self, embedder: Embedder, vectors: Mapping[bytes, Vector]) -> bool:
        """Replace all vectors by these of ``embedder``, given by content hash.

        Returns:
            Whether they were; not if passages have come meanwhile that have none among them.
        """
        with self._database.write() as connection:
            sql = f"SELECT id, hash FROM passages WHERE id IN ({select_live(None)[0]})"
            live: dict[int, bytes] = dict(connection.execute(sql))
            if any(hash not in vectors for hash in live.values()):
                return False
            connection.execute("DELETE FROM vectors; DELETE FROM meta WHERE key = 'embedder'")
            self._tie(connection, embedder)
            changes.put_vectors(connection, live, vectors)
            _advance(connection)
        self._drop_cache()
        return True

    # Documents and passages

    def documents(self) -> list[DocumentInfo]:
        """Return all documents by name."""
        with self._database.read() as connection:
            return rows.document_infos(connection)

    def document_page(
        self, limit: int, *, after: int | None = None, query: str = ""
    ) -> list[DocumentInfo]:
        """Return at most ``limit`` documents whose name holds ``query``, the newest first.

        Args:
            limit: How many.
            after: The id of the last one before; it need not be there any more.
            query: In any case; "" is in all names.
        """
        with self._database.read() as connection:
            ids = rows.document_ids(connection, query, after)[:limit]
            return sorted(rows.document_infos(connection, ids), key=lambda info: -info.id)

    def num_documents(self, *, but_sources: Iterable[str] = ()) -> int:
        """Return how many documents there are, without those of some sources."""
        with self._database.read() as connection:
            return rows.num_documents(connection, but_sources)

    def document(self, name: str, *, by_id: bool = False) -> Document:
        """Return the current version of a document.

        Args:
            name: Its name, or its id.
            by_id: Whether it is its id and nothing else.

        Raises:
            NotFound: There is no such document, or several in the source of this name.
        """
        with self._database.read() as connection:
            found = rows.documents_named(connection, name, by_id=by_id)
            if len(found) > 1:
                raise NotFound(
                    f"{name!r} holds {len(found)} documents.",
                    remedy=f"Name one of them, for instance {next(iter(found.values()))!r}.",
                )
            return rows.document(connection, next(iter(found)))

    def passage(self, id: str) -> Passage:
        """Return a passage, also one of an earlier version.

        Raises:
            NotFound: There is no such passage, or its document was removed.
        """
        with self._database.read() as connection:
            return rows.passages(connection, [rows.passage_rowid(connection, id)])[0]

    def passages(self, rowids: rows.RowIds) -> list[Passage]:
        """Return passages by their row ids, in this order; unknown ones are left out."""
        with self._database.read() as connection:
            return rows.passages(connection, rowids)

    def outlines(self, rowids: rows.RowIds) -> dict[int, Outline]:
        """Return kind and heading of passages by their row ids."""
        with self._database.read() as connection:
            return rows.outlines(connection, rowids)

    def live_ids(self, filter: Filter | None = None) -> list[int]:
        """Return the row ids of the searchable passages that ``filter`` admits, ascending."""
        sql, parameters = select_live(filter)
        with self._database.read() as connection:
            return [rowid for (rowid,) in connection.execute(f"{sql} ORDER BY p.id", parameters)]

    def live_versions(self) -> set[str]:
        """Return what the ids of all searchable passages begin with: ``document.version``."""
        with self._database.read() as connection:
            generation = self.generation()
            known = self._live
            if known[0] != generation:
                self._live = known = (generation, rows.live_versions(connection))
            return known[1]

    def stale_test(self) -> Callable[[str], bool]:
        """Return what tells whether a passage, by its id, can no longer be found."""
        live = self.live_versions()
        return lambda id: id.rpartition(".")[0] not in live

    def gone_test(self) -> Callable[[str], bool]:
        """Return what tells whether the document of a passage, by its id, was removed."""
        there = {version.partition(".")[0] for version in self.live_versions()}
        return lambda id: id.partition(".")[0] not in there

    def search_text(
        self, query: str, n: int, filter: Filter | None = None
    ) -> list[tuple[int, float]]:
        """Return row ids and BM25 scores of the ``n`` passages that match the words best."""
        within = None if filter is None or filter == Filter() else select_live(filter)
        with self._database.read() as connection:
            return lexical.search(connection, query, n, within)

    def rarity(self, word: str) -> float:
        """Return how well ``word`` tells passages apart: 1 if it is in one or none, 0 if in all."""
        with self._database.read() as connection:
            return lexical.rarity(connection, word)

    def generation(self) -> int:
        """Return a number that grows with every change of what can be found."""
        with self._database.read() as connection:
            ((value,),) = connection.execute("SELECT value FROM meta WHERE key = 'generation'")
            return int(value)

    def is_latest(self, generation: int) -> bool:
        """Return whether nothing changed since, also not after this thread's snapshot."""
        with ThreadPoolExecutor(1) as other_thread:
            return other_thread.submit(self.generation).result() == generation

    # Vectors

    def check_embedder(self, embedder: Embedder) -> None:
        """Raise EmbedderMismatch if the knowledge base is embedded with another model."""
        with self._database.read() as connection:
            stored = rows.embedder(connection)
        if stored is None or stored == (embedder.fingerprint, embedder.dim):
            return
        raise EmbedderMismatch(
            f"The knowledge base {self.folder} was embedded with {stored[0]} "
            f"({stored[1]} dimensions), not with {embedder.fingerprint} "
            f"({embedder.dim} dimensions).",
            remedy="Choose that model, or embed all passages anew: readahead reembed",
        )

    def vector_ids(self) -> NDArray[np.int64]:
        """Return the row ids of the passages that have a vector, ascending."""
        with self._database.read() as connection:
            found = connection.execute("SELECT passage FROM vectors ORDER BY passage")
            return np.array([rowid for (rowid,) in found], dtype=np.int64)

    def vectors(self, rowids: rows.RowIds) -> Vectors:
        """Return the vectors of passages that have one, in this order; (n, dim)."""
        with self._database.read() as connection:
            return rows.vectors(connection, rowids)

    def known_vectors(self, hashes: Iterable[bytes]) -> dict[bytes, Vector]:
        """Return the vectors of passages with these content hashes, where there are some."""
        with self._database.read() as connection:
            return rows.known_vectors(connection, hashes)

    # Traces and health

    def add_trace(self, trace: Mapping[str, object], *, keep: int) -> None:
        """Store a trace as JSON under its ``id``; only the last ``keep`` traces stay.

        One that shows a passage whose document was removed meanwhile is not stored.
        """
        with self._database.write() as connection:
            sql = "INSERT OR REPLACE INTO traces (id, body) VALUES (?, ?)"
            connection.execute(sql, (storable(str(trace["id"])), json_text(trace)))
            connection.execute(
                "DELETE FROM traces WHERE number NOT IN "
                "(SELECT number FROM traces ORDER BY number DESC LIMIT ?)",
                (keep,),
            )
            changes.delete_orphan(connection, storable(str(trace["id"])))

    def trace(self, id: str) -> dict[str, object]:
        """Return a trace.

        Raises:
            NotFound: There is none with this id, or it was too long ago.
        """
        with self._database.read() as connection:
            sql = "SELECT body FROM traces WHERE id = ?"
            row = connection.execute(sql, (storable(id),)).fetchone()
        if row is None:
            raise NotFound(
                f"There is no trace {id!r}.",
                remedy="Only the last are kept, and none that shows a document which has gone.",
            )
        return dict(json.loads(row[0]))

    def traces(self, limit: int = -1) -> list[dict[str, object]]:
        """Return the traces that are kept, the last first; no more than ``limit``, unless < 0."""
        with self._database.read() as connection:
            sql = "SELECT body FROM traces ORDER BY number DESC LIMIT ?"
            found = connection.execute(sql, (limit,))
            return [json.loads(body) for (body,) in found]

    def check(self) -> list[str]:
        """Return what is wrong with the stored data, one sentence each; empty if it is sound."""
        with self._database.write() as connection:
            return integrity.problems(connection)

    def _tie(self, connection: apsw.Connection, embedder: Embedder) -> None:
        """Let the knowledge base be embedded with ``embedder`` only, from now on."""
        self.check_embedder(embedder)
        sql = "INSERT OR IGNORE INTO meta (key, value) VALUES ('embedder', ?)"
        connection.execute(sql, (json_text([embedder.fingerprint, embedder.dim]),))

    def _drop_cache(self) -> None:
        """Delete what the cache and the log still hold of deleted passages."""
        shutil.rmtree(self.cache, ignore_errors=True)
        self._database.flush()


def _advance(connection: apsw.Connection) -> None:
    connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
