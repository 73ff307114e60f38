"""Sentence-transformers models as embedders; knows no store."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from readahead.errors import BackendError, ConfigError, missing_extra
from readahead.retrieval.base import Vectors

# What decides a vector. Readmes and model cards do not.
_CONFIGS = frozenset(
    "modules.json config.json config_sentence_transformers.json sentence_bert_config.json "
    "tokenizer.json tokenizer_config.json vocab.txt".split()
)
_WEIGHTS = (".safetensors", ".bin", ".model")


class SentenceTransformerEmbedder:
    """A model folder as sentence-transformers writes it; may be used from several threads.

    Texts longer than the model's limit are cut by the model.
    """

    def __init__(self, folder: Path, *, device: str = "auto", batch_size: int = 32) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise missing_extra("sentence-transformers", "dense") from None
        if not (folder / "modules.json").is_file():
            raise ConfigError(
                f"{folder} is not a sentence-transformers model: it has no modules.json.",
                remedy="Bring one: readahead pull all-minilm-l6-v2",
            )
        try:
            self._model = SentenceTransformer(
                str(folder), device=None if device == "auto" else device, local_files_only=True
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise BackendError(f"The embedder {folder} cannot be loaded: {error}.") from error
        self._batch_size = batch_size
        # A fast tokenizer holds its truncation settings in itself: one call at a time.
        self._lock = threading.Lock()
        self._next = threading.Lock()  # of who gets it next: a lock alone may be taken anew at once
        self._one_core = _one_core_thread()
        self._fingerprint = f"{folder.name}@{_digest(folder)}"

    @property
    def fingerprint(self) -> str:
        """Return the folder's name with a hash of its weights and settings."""
        return self._fingerprint

    @property
    def dim(self) -> int:
        """Return the length of a vector."""
        return int(self._model.get_embedding_dimension() or 0)

    @property
    def max_tokens(self) -> int:
        """Return how long a text may be, special tokens included; what is beyond is not read."""
        return int(self._model.max_seq_length or sys.maxsize)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return how long each text is, special tokens included."""
        if not texts:
            return []
        with self._turn():
            counted = self._model.tokenizer(
                [_encodable(text) for text in texts], truncation=False, padding=False, verbose=False
            )
        return [len(ids) for ids in counted["input_ids"]]

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return (n, dim) float32 unit rows; batches hold texts of similar length.

        A query waits for one batch at most.
        """
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda at: -len(texts[at]))
        for first in range(0, len(order), self._batch_size):
            batch = order[first : first + self._batch_size]
            with self._turn():
                vectors[batch] = self._model.encode_document(
                    [_encodable(texts[at]) for at in batch],
                    batch_size=self._batch_size,
                    normalize_embeddings=True,
                    show_progress_bar=False,
                )
        return vectors

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Have the model during the ``with`` body; who waits longest comes first."""
        with self._next:
            self._lock.acquire()
        try:
            yield
        finally:
            self._lock.release()

    def embed_query(self, text: str) -> Vectors:
        """Return (1, dim) float32, a unit row."""
        return self._one_core.submit(self._embed_query, text).result()

    def _embed_query(self, text: str) -> Vectors:
        with self._turn():
            vectors = self._model.encode_query(
                [_encodable(text)], normalize_embeddings=True, show_progress_bar=False
            )
        return np.ascontiguousarray(vectors, dtype=np.float32)


def _one_core_thread() -> ThreadPoolExecutor:
    """Return a thread in which torch uses one core.

    A query is too short to share, and cores that share it wait for each other: while a language
    model keeps them busy, several times as long as one core needs for all of it.
    """
    import torch

    num_threads = torch.get_num_threads()
    executor = ThreadPoolExecutor(1, "embed", torch.set_num_threads, (1,))
    executor.submit(torch.get_num_threads).result()
    # The setting belongs to a thread, but threads that start later take the last one that was set.
    torch.set_num_threads(num_threads)
    return executor


def _digest(folder: Path) -> str:
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (path.name in _CONFIGS or path.suffix in _WEIGHTS):
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            whole.update(f"{path.relative_to(folder).as_posix()} {content}\n".encode())
    return whole.hexdigest()[:16]


def _encodable(text: str) -> str:
    """Return ``text`` without lone surrogates, which tokenizers refuse."""
    return text.encode("utf-8", "replace").decode("utf-8")
