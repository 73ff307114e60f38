"""Search in a knowledge base: by words, by meaning, or by both."""

from __future__ import annotations

from readahead.config import RetrievalConfig
from readahead.errors import ConfigError
from readahead.retrieval.base import Embedder, Filter
from readahead.retrieval.dense import VectorIndex
from readahead.retrieval.fuse import Ranking, fuse
from readahead.retrieval.store import Store
from readahead.trace import Trace
from readahead.types import Hit

MAX_HITS = 10_000


class HybridRetriever:
    """Ranks the passages of a store; may be used from several threads.

    Raises:
        ConfigError: The mode needs an embedder and there is none.
        EmbedderMismatch: The store is embedded with another model.
    """

    def __init__(
        self, store: Store, embedder: Embedder | None = None, config: RetrievalConfig | None = None
    ) -> None:
        self._store = store
        self._config = config or RetrievalConfig()
        self._embedder = None if self._config.mode == "lexical" else embedder
        self._vectors: VectorIndex | None = None
        if self._embedder is not None:
            store.check_embedder(self._embedder)
            self._vectors = VectorIndex(store, self._embedder)
        elif self._config.mode != "lexical":
            raise ConfigError(
                f"Retrieval mode {self._config.mode!r} needs an embedder.",
                remedy="Choose one, or set retrieval.mode to 'lexical'.",
            )

    def search(
        self, query: str, k: int, filter: Filter | None = None, *, trace: Trace | None = None
    ) -> list[Hit]:
        """Return at most ``k`` hits, best first, equal ones by age; none for a blank query.

        More than 10,000 are never returned.
        All parts of one search see one state of the store. The trace gets ``encode`` and
        ``search`` spans.
        """
        if k < 1 or not query.strip():
            return []
        k = min(k, MAX_HITS)
        n = max(k, self._config.num_candidates)
        trace = trace or Trace("search")
        vector = None
        if self._embedder is not None:
            with trace.span("encode"):
                vector = self._embedder.embed_query(query)
        with trace.span("search"), self._store.snapshot():
            rankings: list[Ranking] = []
            similarities: dict[int, float] = {}
            if self._config.mode != "dense":
                rankings.append(self._store.search_text(query, n, filter))
            if vector is not None and self._vectors is not None:
                rankings.append(self._vectors.search(vector, n, filter))
                similarities = dict(rankings[-1])
            candidates = {rowid for ranking in rankings for rowid, _ in ranking}
            outlines = self._store.outlines(sorted(candidates))
            best = fuse(rankings, outlines, query, self._config)[:k]
            if vector is not None and self._vectors is not None:
                by_words = [rowid for rowid, _ in best if rowid not in similarities]
                similarities |= self._vectors.similarities(vector, by_words)
            passages = self._store.passages([rowid for rowid, _ in best])
            found = zip(passages, best, strict=True)
            hits = [
                Hit(passage, score, similarities.get(rowid)) for passage, (rowid, score) in found
            ]
        return hits
