"""An embedder that remembers the last queries of one knowledge base; several may share a model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from readahead.retrieval.base import Embedder, Vectors

_NUM_REMEMBERED = 32


class Remembering:
    """Embeds as ``embedder`` does, and the last few queries once: a follow-up is judged and sought.

    Each knowledge base has its own: what is quick because it was asked before was asked here. May
    be used from several threads if ``embedder`` may.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._remembered = lru_cache(maxsize=_NUM_REMEMBERED)(embedder.embed_query)

    @property
    def fingerprint(self) -> str:
        """Identify the model and its weights."""
        return self._embedder.fingerprint

    @property
    def dim(self) -> int:
        """Return the length of a vector."""
        return self._embedder.dim

    @property
    def max_tokens(self) -> int:
        """Return how long a text may be; what is beyond is not read."""
        return self._embedder.max_tokens

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return how long each text is in the embedder's own tokens."""
        return self._embedder.count_tokens(texts)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return (n, dim) float32 unit rows."""
        return self._embedder.embed_passages(texts)

    def embed_query(self, text: str) -> Vectors:
        """Return (1, dim) float32, a unit row."""
        return self._remembered(text).copy()
