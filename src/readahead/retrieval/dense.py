"""Exact vector search in a FAISS index; knows no texts.

The index is a cache of the store's vectors. In memory it is brought up to date before every
search; on disk it is used only if it is, to the byte, what was saved for this state of the store.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readahead.errors import missing_extra
from readahead.retrieval.base import Embedder, Filter, Vectors
from readahead.retrieval.store import Store


class VectorIndex:
    """The vectors of a store, ready to be searched; may be used from several threads."""

    def __init__(self, store: Store, embedder: Embedder) -> None:
        try:
            import faiss
        except ImportError:
            raise missing_extra("faiss-cpu", "dense") from None
        self._faiss: Any = faiss
        self._store = store
        self._embedder = embedder
        self._lock = threading.Lock()
        self._index: Any = None
        self._generation = -1

    def search(self, query: Vectors, n: int, filter: Filter | None) -> list[tuple[int, float]]:
        """Return row ids and inner products of the nearest ``n`` passages, higher is better.

        Args:
            query: (1, dim), a unit row.
            n: How many at most; all that ``filter`` admits come back if there are fewer.
            filter: Which passages to search.

        Raises:
            EmbedderMismatch: The store was embedded with another model meanwhile.
        """
        admitted = None
        with self._store.snapshot():
            if filter is not None and filter != Filter():
                admitted = self._store.live_ids(filter)
            return self._nearest(query, n, admitted)

    def similarities(self, query: Vectors, rowids: Sequence[int]) -> dict[int, float]:
        """Return the inner products of the passages that have a vector, by row id."""
        if not rowids:
            return {}
        with self._store.snapshot():
            return dict(self._nearest(query, len(rowids), rowids))

    def _nearest(
        self, query: Vectors, n: int, admitted: Sequence[int] | None
    ) -> list[tuple[int, float]]:
        with self._lock:
            self._refresh()
            parameters = None
            if admitted is not None:
                selector = self._faiss.IDSelectorBatch(np.array(admitted, dtype=np.int64))
                parameters = self._faiss.SearchParameters(sel=selector)
            n = min(n, self._index.ntotal)
            if n == 0:
                return []
            with self._one_thread():
                scores, rowids = self._index.search(query, n, params=parameters)
        found = zip(rowids[0].tolist(), scores[0].tolist(), strict=True)
        # FAISS fills up with -1 when fewer than n are admitted.
        return sorted(
            ((rowid, score) for rowid, score in found if rowid >= 0),
            key=lambda hit: (-hit[1], hit[0]),
        )

    @contextmanager
    def _one_thread(self) -> Iterator[None]:
        """Keep FAISS from starting threads that, for a single query, only wait for each other.

        The number is put back: torch reads the same setting.
        """
        num_threads = self._faiss.omp_get_max_threads()
        self._faiss.omp_set_num_threads(1)
        try:
            yield
        finally:
            self._faiss.omp_set_num_threads(num_threads)

    def _refresh(self) -> None:
        """Make the index equal to the store's vectors."""
        generation = self._store.generation()
        if generation == self._generation:
            return
        # Row ids stay when the passages are embedded anew; only the same embedder's vectors do.
        self._store.check_embedder(self._embedder)
        wanted = self._store.vector_ids()
        if self._index is None:
            self._index = self._load(wanted, generation) or self._build(wanted, generation)
        else:
            self._update(wanted)
        self._generation = generation

    def _build(self, rowids: NDArray[np.int64], generation: int) -> Any:
        index = self._faiss.IndexIDMap2(self._faiss.IndexFlatIP(self._embedder.dim))
        if rowids.size:
            index.add_with_ids(self._store.vectors(rowids), rowids)
        # A cache that cannot be written costs time, nothing else.
        with suppress(OSError):
            self._save(index, generation)
        # What was removed since the snapshot began must not stay on disk.
        if not self._store.is_latest(generation):
            shutil.rmtree(self._store.cache, ignore_errors=True)
        return index

    def _update(self, wanted: NDArray[np.int64]) -> None:
        """Remove what is gone and add what is new."""
        present = self._faiss.vector_to_array(self._index.id_map)
        gone, new = np.setdiff1d(present, wanted), np.setdiff1d(wanted, present)
        if gone.size:
            self._index.remove_ids(gone)
        if new.size:
            self._index.add_with_ids(self._store.vectors(new), new)

    @property
    def _file(self) -> Path:
        return self._store.cache / "vectors.faiss"

    @property
    def _manifest(self) -> Path:
        return self._store.cache / "vectors.json"

    def _load(self, wanted: NDArray[np.int64], generation: int) -> Any:
        """Return the saved index if it holds exactly these vectors, else None."""
        try:
            data = self._file.read_bytes()
            manifest = json.loads(self._manifest.read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        # The checksum comes first: FAISS must not parse what readahead did not write.
        if manifest != self._describe(data, generation):
            return None
        index = self._faiss.deserialize_index(np.frombuffer(data, np.uint8))
        present = self._faiss.vector_to_array(index.id_map)
        return index if np.array_equal(present, wanted) else None

    def _save(self, index: Any, generation: int) -> None:
        data = self._faiss.serialize_index(index).tobytes()
        self._store.cache.mkdir(exist_ok=True)
        _write_atomically(self._file, data)
        manifest = json.dumps(self._describe(data, generation))
        _write_atomically(self._manifest, manifest.encode())

    def _describe(self, data: bytes, generation: int) -> dict[str, object]:
        return {
            "sha256": hashlib.sha256(data).hexdigest(),
            "generation": generation,
            "embedder": [self._embedder.fingerprint, self._embedder.dim],
        }


def _write_atomically(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise
