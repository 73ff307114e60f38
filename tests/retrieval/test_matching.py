import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from readahead.config import RetrievalConfig
from readahead.errors import NotFound
from readahead.retrieval.base import Embedder
from readahead.retrieval.matching import Matching
from readahead.retrieval.store import Store
from tests.retrieval.support import HashingEmbedder, add, document, source

LAKE = source("lake.md", document("lake.md", "The lake is deep."))
TOWER = source("tower.md", document("tower.md", "The tower is tall."))


class Loading:
    """Loads an embedder, and counts how often."""

    def __init__(self) -> None:
        self.num_loaded = 0
        self.is_there = True

    def __call__(self) -> Embedder:
        if not self.is_there:
            raise NotFound("There is no such model.")
        self.num_loaded += 1
        return HashingEmbedder()


@pytest.fixture
def load() -> Loading:
    return Loading()


@pytest.fixture
def matching(tmp_path: Path, load: Loading) -> Matching:
    return Matching(Store.open(tmp_path), RetrievalConfig(), load)


def test_it_follows_what_the_store_holds(matching: Matching, load: Loading) -> None:
    store = matching._store
    assert not matching.lacks_vectors  # nothing is there, so nothing lacks them
    add(store, LAKE)
    assert matching.lacks_vectors
    assert matching.by_words.search("lake", 1)[0].similarity is None
    assert load.num_loaded == 0
    add(store, TOWER, embedder=matching.embedder)
    assert not matching.lacks_vectors
    assert [hit.similarity is None for hit in matching.retriever.search("tower", 2)] == [False]
    store.remove(["tower.md"])
    assert matching.lacks_vectors
    store.remove(["lake.md"])
    assert not matching.lacks_vectors


def test_it_asks_the_store_once_a_change(
    matching: Matching, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(matching._store, LAKE)
    assert matching.lacks_vectors
    monkeypatch.delattr(Store, "live_ids")
    assert matching.lacks_vectors


def test_all_threads_get_the_same(matching: Matching, load: Loading) -> None:
    together = threading.Barrier(4)

    def look(_: int) -> tuple[object, object]:
        together.wait()
        return matching.retriever, matching.embedder

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(look, range(4)))) == 1
    assert load.num_loaded == 1


def test_a_model_that_is_missing_is_looked_for_again(matching: Matching, load: Loading) -> None:
    load.is_there = False
    with pytest.raises(NotFound):
        _ = matching.retriever
    load.is_there = True
    assert matching.retriever.search("anything", 1) == []
