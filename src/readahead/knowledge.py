"""A knowledge base: files in, passages out.

Wires documents and retrieval; knows no target model.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np

from readahead.config import Config, ModelsConfig, load_config
from readahead.documents.files import find_files, load_file, shown_path
from readahead.documents.read import Reader
from readahead.errors import DocumentError
from readahead.evidence import Similarity
from readahead.lm.quiet import quiet_transformers
from readahead.lm.weights import resolve
from readahead.retrieval.base import Embedder, Filter, Vectors
from readahead.retrieval.chunk import chunk
from readahead.retrieval.content import content_hash
from readahead.retrieval.index import AddReport, Failure, Indexer, Source, reembed
from readahead.retrieval.matching import Matching
from readahead.retrieval.retriever import HybridRetriever
from readahead.retrieval.store import Store
from readahead.trace import Trace
from readahead.types import Document, Hit, Passage

STDIN = "-"


class KnowledgeBase:
    """One folder of documents that can be searched; models are loaded when they are needed.

    Args:
        store: Holds them.
        config: Settings.
        embedder: Instead of the one that ``config`` names.
        load: Gives the embedder at its first use, where several knowledge bases share one; each
            remembers its own queries.
    """

    def __init__(
        self,
        store: Store,
        config: Config,
        embedder: Embedder | None = None,
        *,
        load: Callable[[], Embedder] | None = None,
    ) -> None:
        self.store = store
        self.config = config
        load = load or partial(load_embedder, config.models)
        self._matching = Matching(store, config.retrieval, load, embedder)
        self._is_embedder_given = embedder is not None
        self.on_trace: Callable[[Trace], None] | None = None

    @classmethod
    def open(
        cls,
        config: Config | None = None,
        *,
        create: bool = True,
        load: Callable[[], Embedder] | None = None,
    ) -> Self:
        """Open the knowledge base that ``config.kb`` names.

        Raises:
            NotFound: There is none, and it is not to be created.
            StoreError: It cannot be opened, or is damaged.
        """
        config = config or load_config()
        return cls(Store.open(config.kb, create=create), config, load=load)

    def configured(self, config: Config) -> Self:
        """Return the same documents with other settings; what is or gets loaded is shared."""
        twin = copy.copy(self)
        twin.config = config
        return twin

    def close(self) -> None:
        """Close it; what was acknowledged is kept without this, too."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def embedder(self) -> Embedder | None:
        """Return what embeds passages and queries, None where only words are matched by now.

        Raises:
            NotFound: The model was not pulled.
            ConfigError: The extra ``dense`` is not installed.
        """
        return None if self._is_by_words else self._matching.embedder

    @property
    def is_lexical(self) -> bool:
        """Return whether only words are matched: by the settings, or for want of vectors."""
        return self.config.retrieval.mode == "lexical" or self._matching.lacks_vectors

    @property
    def _is_by_words(self) -> bool:
        return self.is_lexical and not self._is_embedder_given

    @property
    def retriever(self) -> HybridRetriever:
        """Return what ranks the passages.

        Raises:
            EmbedderMismatch: The knowledge base is embedded with another model.
        """
        return self._matching.by_words if self._is_by_words else self._matching.retriever

    @property
    def similarity(self) -> Similarity | None:
        """Return how alike a sentence and spans are in meaning, None without an embedder."""
        embedder = self.embedder
        if embedder is None:
            return None

        def compare(sentence: str, spans: Sequence[str]) -> Sequence[float]:
            similarities = embedder.embed_passages(spans) @ embedder.embed_query(sentence)[0]
            return [float(value) for value in similarities]

        return compare

    def search(
        self, query: str, k: int, filter: Filter | None = None, *, trace: Trace | None = None
    ) -> list[Hit]:
        """Return at most ``k`` hits, best first, none for a blank query."""
        return self.retriever.search(query, k, filter, trace=trace)

    def vectors(self, passages: Sequence[Passage]) -> Vectors | None:
        """Return the stored vectors of passages, (n, dim), None if one of them has none."""
        hashes = [content_hash(passage) for passage in passages]
        known = self.store.known_vectors(hashes)
        if not passages or any(hash not in known for hash in hashes):
            return None
        return np.stack([known[hash] for hash in hashes])

    def add(
        self,
        paths: Iterable[Path | str],
        *,
        stdin: bytes | None = None,
        stdin_name: str = STDIN,
        progress: Callable[[AddReport], None] | None = None,
        on_document: Callable[[Document], None] | None = None,
    ) -> AddReport:
        """Add files and folders; what is unchanged is skipped, what changed is replaced.

        A file that cannot be read is listed in ``failed`` with the reason, and stops nothing.

        Args:
            paths: Files, folders, and ``-`` for ``stdin``.
            stdin: The bytes that ``-`` stands for.
            stdin_name: What they are called; its ending tells their format.
            progress: Told the state of the report after each step.
            on_document: Shown each document that was read.

        Raises:
            EmbedderMismatch: The knowledge base is embedded with another model.
        """
        config = self.config
        unreadable: list[Failure] = []

        def sources(reader: Reader) -> Iterator[Source]:
            for path in paths:
                if str(path) == STDIN:
                    yield self._source(stdin_name, stdin or b"", reader, on_document)
                else:
                    yield from self._sources_at(path, reader, unreadable, on_document)

        indexer = self._indexer(progress)
        with Reader(config.documents) as reader:
            report = indexer.add(sources(reader))
        report.failed += unreadable
        return report

    def add_file(
        self,
        file: Path,
        name: str,
        reader: Reader,
        *,
        progress: Callable[[AddReport], None] | None = None,
        on_document: Callable[[Document], None] | None = None,
    ) -> AddReport:
        """Add one file under a name that is not its path; for the rest see ``add``.

        Args:
            file: Holds the bytes.
            name: Tells their format by its ending.
            reader: Reads them, under its limits.
            progress: Told the state of the report after each step.
            on_document: Shown each document that was read; a DocumentError refuses the file.
        """
        source = self._source(name, file.read_bytes(), reader, on_document)
        return self._indexer(progress).add([source])

    def _indexer(self, progress: Callable[[AddReport], None] | None) -> Indexer:
        cut = partial(chunk, config=self.config.passages)
        return Indexer(self.store, cut, embedder=self.embedder, progress=progress)

    def _sources_at(
        self,
        path: Path | str,
        reader: Reader,
        unreadable: list[Failure],
        on_document: Callable[[Document], None] | None,
    ) -> Iterator[Source]:
        config = self.config.documents
        for found in find_files(
            [path], include=config.include, exclude=config.exclude, skip=self.config.kb
        ):
            name = shown_path(found.path)
            try:
                if found.reason:
                    raise DocumentError(found.reason)
                data = load_file(found.path, config.max_file_bytes)
            except DocumentError as error:
                unreadable.append(Failure(name, error.message))
                continue
            yield self._source(name, data, reader, on_document)

    @staticmethod
    def _source(
        name: str, data: bytes, reader: Reader, on_document: Callable[[Document], None] | None
    ) -> Source:
        def read() -> list[Document]:
            documents = reader.read_bytes(data, name)
            for document in documents if on_document else ():
                assert on_document is not None
                on_document(document)
            return documents

        return Source(name, hashlib.sha256(data).hexdigest(), read)

    def document(self, name: str, *, by_id: bool = False) -> Document:
        """Return a stored document, by name or id, or ``by_id`` alone.

        Raises:
            NotFound: There is no such document.
        """
        return self.store.document(name, by_id=by_id)

    def remove(self, names: Iterable[str], *, by_id: bool = False) -> list[str]:
        """Delete documents, named or ``by_id`` alone, for good and return their names.

        Raises:
            NotFound: There is no such document; nothing is deleted.
        """
        return self.store.remove(names, by_id=by_id)

    def reembed(self, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Embed all passages anew with the embedder of the settings; return how many.

        Raises:
            NotFound: The model was not pulled.
        """
        return reembed(self.store, load_embedder(self.config.models), progress=progress)

    def keep_trace(self, trace: Trace) -> None:
        """Store a finished trace; the oldest ones go. ``on_trace`` is told of it first."""
        if self.on_trace is not None:
            self.on_trace(trace)
        self.store.add_trace(trace.to_json(), keep=self.config.traces.keep)


def load_embedder(models: ModelsConfig) -> Embedder:
    """Load the embedder that the settings name.

    Raises:
        NotFound: It was not pulled.
        ConfigError: The extra ``dense`` is not installed.
    """
    from readahead.retrieval.embed import SentenceTransformerEmbedder

    folder = resolve(models.embedder, "embedder").folder
    with quiet_transformers():
        return SentenceTransformerEmbedder(folder, device=models.device)
