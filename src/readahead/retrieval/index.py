"""Sources in, stored passages out: what ``add`` does; knows no file formats."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from readahead.errors import BackendError, DocumentError, InputError
from readahead.retrieval.base import Embedder, Vector
from readahead.retrieval.content import content_hash, embedded_text
from readahead.retrieval.records import NewDocument, NewSource
from readahead.retrieval.store import Store
from readahead.types import Document, Passage

GROUP_PASSAGES = 256


@dataclass(frozen=True, slots=True)
class Source:
    """A file, or standard input, that may have changed.

    Attributes:
        name: Under which it is stored: a path, or ``-``.
        sha256: Of its bytes.
        read: Parses it; called only if it changed. Raises DocumentError if it cannot be read.
    """

    name: str
    sha256: str
    read: Callable[[], Sequence[Document]]


@dataclass(frozen=True, slots=True)
class Failure:
    """A source that could not be added, and why."""

    path: str
    reason: str


@dataclass(slots=True)
class AddReport:
    """What was done so far, in numbers of sources.

    Attributes:
        passages: Number of passages written.
        to_encode: Number of passages to embed, of the sources read so far; fewer than there are
            where their content was known.
        encoded: How many of these are embedded.
        too_long: How many of those are longer than the embedder reads: no vector knows their ends,
            which are found by their words only.
        seconds: All that was spent; ``read_s`` of it in parsing, ``encode_s`` in the embedder.
    """

    added: int = 0
    unchanged: int = 0
    replaced: int = 0
    failed: list[Failure] = field(default_factory=list)
    passages: int = 0
    to_encode: int = 0
    encoded: int = 0
    too_long: int = 0
    seconds: float = 0.0
    read_s: float = 0.0
    encode_s: float = 0.0


class Indexer:
    """Reads, cuts, embeds and stores what changed.

    Small sources are committed in groups, since every commit waits for the disk. A source that
    cannot be read or stored is reported, and what was stored of it before stays.
    """

    def __init__(
        self,
        store: Store,
        chunk: Callable[[Document], Sequence[Passage]],
        *,
        embedder: Embedder | None = None,
        progress: Callable[[AddReport], None] | None = None,
    ) -> None:
        """Prepare; without an embedder, passages are found by their words only.

        Raises:
            EmbedderMismatch: The store is embedded with another model.
        """
        if embedder is not None:
            store.check_embedder(embedder)
        self._store = store
        self._chunk = chunk
        self._embedder = embedder
        self._progress = progress
        self._started = 0.0
        self.report = AddReport()

    def add(self, sources: Iterable[Source]) -> AddReport:
        """Add sources; the report is also passed to ``progress`` after each step."""
        self._started = time.perf_counter()
        group: list[NewSource] = []
        for source in sources:
            new = self._read(source)
            if new is not None:
                group.append(new)
            if _num_passages(group) >= GROUP_PASSAGES:
                self._commit(group)
                group = []
            self._tell()
        self._commit(group)
        self._tell()
        return self.report

    def _read(self, source: Source) -> NewSource | None:
        embedded = self._embedder is not None
        if self._store.is_unchanged(source.name, source.sha256, embedded=embedded):
            self.report.unchanged += 1
            return None
        begun = time.perf_counter()
        try:
            documents = source.read()
        except DocumentError as error:
            self.report.failed.append(Failure(source.name, error.message))
            return None
        finally:
            self.report.read_s += time.perf_counter() - begun
        new = [NewDocument(document, self._chunk(document)) for document in documents]
        if not any(document.passages for document in new):
            self.report.failed.append(Failure(source.name, "no text"))
            return None
        return NewSource(source.name, source.sha256, new)

    def _commit(self, group: list[NewSource]) -> None:
        if not group:
            return
        vectors = self._embed(group, self._embedder) if self._embedder is not None else {}
        self._store_group(group, vectors)

    def _store_group(self, group: list[NewSource], vectors: Mapping[bytes, Vector]) -> None:
        """Store all sources, or each by itself if one of them is refused."""
        try:
            changes = self._store.replace(group, self._embedder, vectors)
        except (InputError, BackendError) as error:
            if len(group) == 1:
                self.report.failed.append(Failure(group[0].name, str(error)))
            else:
                for source in group:
                    self._store_group([source], vectors)
            return
        self.report.added += changes.added
        self.report.unchanged += changes.unchanged
        self.report.replaced += changes.replaced
        self.report.passages += changes.passages

    def _embed(self, group: list[NewSource], embedder: Embedder) -> dict[bytes, Vector]:
        """Return vectors by content hash; those of content that is known come from the store."""
        texts = {
            content_hash(passage): embedded_text(passage)
            for source in group
            for document in source.documents
            for passage in document.passages
        }
        vectors = self._store.known_vectors(texts)
        unknown = [key for key in texts if key not in vectors]
        self.report.to_encode += len(unknown)
        for keys in _by_length(unknown, texts):
            begun, batch = time.perf_counter(), [texts[key] for key in keys]
            encoded = embedder.embed_passages(batch)
            lengths = embedder.count_tokens(batch)
            self.report.encode_s += time.perf_counter() - begun
            self.report.too_long += sum(length > embedder.max_tokens for length in lengths)
            self.report.encoded += len(keys)
            vectors.update(zip(keys, encoded, strict=True))
            self._tell()
        return vectors

    def _tell(self) -> None:
        self.report.seconds = time.perf_counter() - self._started
        if self._progress is not None:
            self._progress(self.report)


def reembed(
    store: Store, embedder: Embedder, *, progress: Callable[[int, int], None] | None = None
) -> int:
    """Embed all passages anew, with this or another model; return how many.

    The old vectors serve searches until all new ones are there.

    Args:
        store: Whose passages.
        embedder: The model that the store is tied to afterwards.
        progress: Called with the numbers of texts that are done and that there are.
    """
    vectors: dict[bytes, Vector] = {}
    while True:  # another process may add passages meanwhile
        passages = store.passages(store.live_ids())
        texts = {content_hash(passage): embedded_text(passage) for passage in passages}
        for keys in _by_length([key for key in texts if key not in vectors], texts):
            encoded = embedder.embed_passages([texts[key] for key in keys])
            vectors.update(zip(keys, encoded, strict=True))
            if progress is not None:
                progress(len(vectors), len(texts))
        if store.replace_vectors(embedder, vectors):
            return len(passages)


def _by_length(keys: list[bytes], texts: Mapping[bytes, str]) -> list[list[bytes]]:
    """Return batches of keys whose texts are of similar length, so that little is padded."""
    ordered = sorted(keys, key=lambda key: len(texts[key]))
    return [ordered[at : at + GROUP_PASSAGES] for at in range(0, len(ordered), GROUP_PASSAGES)]


def _num_passages(group: list[NewSource]) -> int:
    return sum(len(document.passages) for source in group for document in source.documents)
