"""A real, tiny embedder and short ways to make sources; imports no models."""

import hashlib
from collections.abc import Sequence

import numpy as np

from readahead.config import PassagesConfig, RetrievalConfig
from readahead.retrieval.base import Embedder, Vectors
from readahead.retrieval.chunk import chunk
from readahead.retrieval.index import AddReport, Indexer, Source
from readahead.retrieval.lexical import terms
from readahead.retrieval.retriever import HybridRetriever
from readahead.retrieval.store import Store
from readahead.types import Block, Document, Passage


class HashingEmbedder:
    """A sum of one random direction a word: texts that share words are near each other."""

    def __init__(self, name: str = "hashing", dim: int = 32) -> None:
        self.fingerprint = f"{name}@1"
        self.dim = dim
        self.num_encoded = 0
        self.max_tokens = 50

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self.num_encoded += len(texts)
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in terms(text) or [""]:
                seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
                row += np.random.default_rng(seed).standard_normal(self.dim)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def embed_query(self, text: str) -> Vectors:
        self.num_encoded -= 1
        return self.embed_passages([text])


class Asked(HashingEmbedder):
    """Notes which queries it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.queries: list[str] = []

    def embed_query(self, text: str) -> Vectors:
        self.queries.append(text)
        return super().embed_query(text)


def document(name: str, *paragraphs: str, title: str = "", **metadata: object) -> Document:
    """Return a document with an optional title and one block a paragraph."""
    text, blocks = "", []
    for kind, part in [("title", title), *(("paragraph", paragraph) for paragraph in paragraphs)]:
        if part:
            text += "\n\n" if text else ""
            blocks.append(
                Block(
                    "title" if kind == "title" else "paragraph",
                    len(text),
                    len(text) + len(part),
                    heading=(title,) if title else (),
                    level=1 if kind == "title" else None,
                )
            )
            text += part
    return Document(name, text, tuple(blocks), metadata=metadata)


def source(name: str, *documents: Document) -> Source:
    """Return a source that holds ``documents``, hashed by their text."""
    whole = "\0".join(f"{d.name}\0{d.text}\0{sorted(d.metadata.items())}" for d in documents)
    digest = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()
    return Source(name, digest, lambda: documents)


def cut(document: Document) -> list[Passage]:
    """Cut as the product does."""
    return chunk(document, PassagesConfig())


def add(store: Store, *sources: Source, embedder: Embedder | None = None) -> AddReport:
    """Add sources as ``readahead add`` does."""
    return Indexer(store, cut, embedder=embedder).add(sources)


def add_texts(store: Store, embedder: Embedder | None = None, **texts: str) -> AddReport:
    """Add one document of one paragraph for each name."""
    sources = [source(name, document(name, text)) for name, text in texts.items()]
    return add(store, *sources, embedder=embedder)


def found(store: Store, query: str, embedder: Embedder | None = None, k: int = 100) -> list[str]:
    """Return the names of the documents found, best first."""
    config = RetrievalConfig(mode="hybrid" if embedder else "lexical")
    hits = HybridRetriever(store, embedder, config).search(query, k)
    return [hit.passage.document for hit in hits]
