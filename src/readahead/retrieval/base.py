"""The seams of retrieval: what embeds, what searches, and what a search may be limited to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from readahead.trace import Trace
from readahead.types import Hit, PassageKind

Vector = NDArray[np.float32]  # (dim,), of unit length
Vectors = NDArray[np.float32]  # (n, dim), rows of unit length


class Embedder(Protocol):
    """Turns texts into unit vectors whose inner product is their similarity."""

    @property
    def fingerprint(self) -> str:
        """Identify the model and its weights; vectors of different fingerprints never mix."""
        ...

    @property
    def dim(self) -> int:
        """Return the length of a vector."""
        ...

    @property
    def max_tokens(self) -> int:
        """Return how long a text may be; what is beyond is not read."""
        ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return how long each text is in the embedder's own tokens."""
        ...

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return (n, dim) float32 unit rows."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """Return (1, dim) float32, a unit row."""
        ...


@dataclass(frozen=True, slots=True)
class Filter:
    """Limits a search; applied inside it, so k hits come back wherever k exist.

    Empty fields limit nothing; the given ones must all hold.

    Attributes:
        documents: Names of documents; any of them.
        kinds: Kinds of passages; any of them.
        metadata: Every key must have exactly this JSON value.
    """

    documents: tuple[str, ...] = ()
    kinds: tuple[PassageKind, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)


class Retriever(Protocol):
    """Ranks passages for a query."""

    def search(
        self, query: str, k: int, filter: Filter | None = None, *, trace: Trace | None = None
    ) -> list[Hit]:
        """Return at most ``k`` hits, best first; never raises because of what ``query`` holds."""
        ...
