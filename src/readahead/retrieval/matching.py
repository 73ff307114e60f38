"""How passages are matched: by words and meaning, or by words alone for want of vectors."""

from __future__ import annotations

import threading
from collections.abc import Callable

from readahead.config import RetrievalConfig
from readahead.retrieval.base import Embedder
from readahead.retrieval.remembering import Remembering
from readahead.retrieval.retriever import HybridRetriever
from readahead.retrieval.store import Store


class Matching:
    """The embedder and the retrievers of one store, each made at its first use, and once.

    Which of them goes with the store changes with what it holds: documents that were added without
    vectors are matched by words, and once they are gone, what comes next is embedded. May be used
    from several threads.

    Args:
        store: Holds the passages.
        config: How they are ranked.
        load: Gives the embedder.
        embedder: Instead of that.
    """

    def __init__(
        self,
        store: Store,
        config: RetrievalConfig,
        load: Callable[[], Embedder],
        embedder: Embedder | None = None,
    ) -> None:
        self._store = store
        self._config = config
        self._load = load
        self._embedder = embedder
        self._retriever: HybridRetriever | None = None
        self._making = threading.RLock()
        self._lacking = (-1, False)  # of a generation
        by_words = config.model_copy(update={"mode": "lexical"})
        self.by_words = HybridRetriever(store, config=by_words)

    @property
    def lacks_vectors(self) -> bool:
        """Return whether there are passages, and none of them has a vector."""
        generation = self._store.generation()  # first: a change meanwhile is looked at next time
        known = self._lacking
        if known[0] != generation:
            lacks = bool(self._store.live_ids()) and not len(self._store.vector_ids())
            self._lacking = known = (generation, lacks)
        return known[1]

    @property
    def embedder(self) -> Embedder:
        """Return what embeds passages and queries; see ``load_embedder``."""
        with self._making:
            if self._embedder is None:
                self._embedder = Remembering(self._load())
            return self._embedder

    @property
    def retriever(self) -> HybridRetriever:
        """Return what ranks as the settings say.

        Raises:
            EmbedderMismatch: The store is embedded with another model.
        """
        with self._making:
            if self._retriever is None:
                self._retriever = HybridRetriever(self._store, self.embedder, self._config)
            return self._retriever
