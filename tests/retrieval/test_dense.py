import json
from pathlib import Path

import faiss
import numpy as np
import pytest
import torch

from readahead.errors import EmbedderMismatch
from readahead.retrieval.base import Filter
from readahead.retrieval.dense import VectorIndex
from readahead.retrieval.index import reembed
from readahead.retrieval.store import Store
from tests.retrieval.support import HashingEmbedder, add_texts

Found = list[tuple[int, float]]


@pytest.fixture
def filled(store: Store, embedder: HashingEmbedder) -> Store:
    texts = {f"d{number}": f"word{number} shared text" for number in range(20)}
    add_texts(store, embedder, **texts)
    return store


def search(store: Store, text: str, n: int = 50, filter: Filter | None = None) -> Found:
    embedder = HashingEmbedder()
    return VectorIndex(store, embedder).search(embedder.embed_query(text), n, filter)


def expected(store: Store, text: str) -> list[int]:
    rowids = store.vector_ids()
    scores = store.vectors(rowids) @ HashingEmbedder().embed_query(text)[0]
    return [int(rowids[at]) for at in np.argsort(-scores, kind="stable")]


def ids(found: Found) -> list[int]:
    return [rowid for rowid, _ in found]


def files(store: Store) -> tuple[Path, Path]:
    return store.cache / "vectors.faiss", store.cache / "vectors.json"


def test_search_is_exact(filled: Store) -> None:
    assert ids(search(filled, "word7 text")) == expected(filled, "word7 text")


def test_asking_for_more_than_there_are_gives_all_once(filled: Store) -> None:
    assert sorted(ids(search(filled, "word7", n=1000))) == filled.live_ids()
    assert search(filled, "word7", n=1000, filter=Filter(documents=("absent",))) == []


def test_an_empty_store_has_no_hits(store: Store, embedder: HashingEmbedder) -> None:
    assert search(store, "word") == []


def test_a_filter_gives_n_hits_if_there_are_n(filled: Store) -> None:
    """The filtered passages are the worst matches: filtering afterwards would find none."""
    worst = expected(filled, "word7 shared text")[-3:]
    names = tuple(passage.document for passage in filled.passages(worst))
    found = search(filled, "word7 shared text", n=3, filter=Filter(documents=names))
    assert ids(found) == worst


def test_the_index_follows_the_store(filled: Store, embedder: HashingEmbedder) -> None:
    index = VectorIndex(filled, embedder)
    query = embedder.embed_query("word3 word99")
    index.search(query, 5, None)
    filled.remove(["d3", "d4"])
    add_texts(filled, embedder, d5="word99 changed", new="word3 again")
    assert ids(index.search(query, 50, None)) == expected(filled, "word3 word99")


def test_a_saved_index_is_used_again(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before = search(filled, "word7")
    monkeypatch.setattr(VectorIndex, "_build", None)
    assert search(filled, "word7") == before


def test_a_flipped_byte_never_changes_a_result(filled: Store) -> None:
    right = search(filled, "word7")
    for file in files(filled):
        data = file.read_bytes()
        for at in range(0, len(data), max(1, len(data) // 50)):
            file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            assert search(filled, "word7") == right
            file.write_bytes(data)


@pytest.mark.parametrize("content", [b"", b"IxM2", b"[]", b"{}", b"[" * 200_000, None])
@pytest.mark.parametrize("which", [0, 1])
def test_a_broken_or_missing_cache_is_built_again(
    filled: Store, which: int, content: bytes | None
) -> None:
    right = search(filled, "word7")
    file = files(filled)[which]
    data = file.read_bytes()
    file.unlink() if content is None else file.write_bytes(content)
    assert search(filled, "word7") == right
    assert file.read_bytes() == data


def test_a_stale_cache_put_back_brings_nothing_back(
    filled: Store, embedder: HashingEmbedder
) -> None:
    search(filled, "word7")
    stale = [(file, file.read_bytes()) for file in files(filled)]
    filled.remove(["d7"])
    filled.cache.mkdir(exist_ok=True)
    for file, data in stale:
        file.write_bytes(data)
    assert ids(search(filled, "word7")) == expected(filled, "word7")

    # Even one whose manifest was made to match names other passages than the store has.
    manifest = json.loads(stale[1][1]) | {"generation": filled.generation()}
    stale[0][0].write_bytes(stale[0][1])
    stale[1][0].write_text(json.dumps(manifest))
    assert ids(search(filled, "word7")) == expected(filled, "word7")


def test_what_is_removed_while_the_cache_is_saved_does_not_stay(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = VectorIndex._save

    def save_late(self: VectorIndex, index: object, generation: int) -> None:
        with Store.open(filled.folder) as other_process:
            other_process.remove(["d7"])
        save(self, index, generation)

    monkeypatch.setattr(VectorIndex, "_save", save_late)
    assert len(search(filled, "word7")) == 20
    assert not filled.cache.exists()
    monkeypatch.undo()
    assert ids(search(filled, "word7")) == expected(filled, "word7")
    assert filled.cache.exists()


def test_a_cache_that_cannot_be_written_costs_only_time(filled: Store) -> None:
    filled.cache.write_text("a file where the folder should be")
    assert ids(search(filled, "word7")) == expected(filled, "word7")


def test_searching_leaves_the_number_of_threads_alone(filled: Store) -> None:
    before = torch.get_num_threads(), faiss.omp_get_max_threads()
    search(filled, "word7")
    assert (torch.get_num_threads(), faiss.omp_get_max_threads()) == before


def test_an_open_index_refuses_vectors_of_another_model(
    filled: Store, embedder: HashingEmbedder
) -> None:
    index = VectorIndex(filled, embedder)
    query = embedder.embed_query("word7")
    index.search(query, 5, None)
    reembed(filled, HashingEmbedder("other"))
    with pytest.raises(EmbedderMismatch):
        index.search(query, 5, None)
