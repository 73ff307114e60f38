"""Many writers and readers at once: no errors, and every search sees whole documents."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from readahead.config import RetrievalConfig
from readahead.retrieval import rows
from readahead.retrieval.records import Outline
from readahead.retrieval.retriever import HybridRetriever
from readahead.retrieval.store import Store
from tests.retrieval.support import HashingEmbedder, add, add_texts, document, found, source

ROOT = Path(__file__).parents[2]


def test_thirty_writers_and_readers_in_threads(store: Store, embedder: HashingEmbedder) -> None:
    add_texts(store, embedder, fixed="The harbour light is green.")
    retriever = HybridRetriever(store, embedder, RetrievalConfig())
    is_done = threading.Event()

    def write(number: int) -> None:
        for version in range(3):
            name = f"doc{number}"
            add_texts(store, HashingEmbedder(), **{name: f"Light number {number}, {version}."})
        if number % 2:
            store.remove([name])

    def read() -> int:
        num_searches = 0
        while not is_done.is_set() or not num_searches:
            hits = retriever.search("harbour light", 100)
            documents = [hit.passage.document for hit in hits]
            assert len(set(documents)) == len(documents)
            assert "fixed" in documents
            num_searches += 1
        return num_searches

    with ThreadPoolExecutor(40) as pool:
        readers = [pool.submit(read) for _ in range(6)]
        writers = [pool.submit(write, number) for number in range(30)]
        wait(writers)
        is_done.set()
        for writer in writers:
            writer.result()
        assert all(reader.result() for reader in readers)
    assert store.check() == []
    expected = ["fixed", *(f"doc{number}" for number in range(0, 30, 2))]
    assert sorted(found(store, "light", embedder)) == sorted(expected)


WRITER = """
import sys
from tests.retrieval.support import HashingEmbedder, add_texts, found
from readahead.retrieval.store import Store

folder, number = sys.argv[1:]
with Store.open(folder) as store:
    add_texts(store, HashingEmbedder(), **{number: f"Light number {number}.", "same": "One light."})
    assert number in found(store, "light", HashingEmbedder())
"""


def test_processes_create_and_fill_one_store(tmp_path: Path) -> None:
    folder = tmp_path / "kb"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), f"n{number}"],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(6)
    ]
    errors = [writer.communicate()[1] for writer in writers]
    assert errors == [""] * len(writers)
    with Store.open(folder, create=False) as store:
        assert store.check() == []
        names = [info.name for info in store.documents()]
        assert names == [*(f"n{number}" for number in range(6)), "same"]


def test_a_reader_in_another_connection_sees_a_change_at_its_next_search(
    store: Store, embedder: HashingEmbedder
) -> None:
    add_texts(store, embedder, one="A green light.")
    with Store.open(store.folder, create=False) as other:
        retriever = HybridRetriever(other, embedder)
        assert [hit.passage.document for hit in retriever.search("light", 9)] == ["one"]
        add(store, source("two", document("two", "A red light.")), embedder=embedder)
        store.remove(["one"])
        assert [hit.passage.document for hit in retriever.search("light", 9)] == ["two"]


def test_a_document_removed_during_a_search_does_not_tear_it(
    store: Store, embedder: HashingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_texts(store, embedder, one="A green light.", two="A red light.")
    retriever = HybridRetriever(store, embedder)
    outlines = store.outlines

    def remove_then_read(rowids: rows.RowIds) -> dict[int, Outline]:
        remover = threading.Thread(target=store.remove, args=(["one"],))
        remover.start()
        remover.join()
        return outlines(rowids)

    with monkeypatch.context() as patch:
        patch.setattr(store, "outlines", remove_then_read)
        assert len(retriever.search("light", 9)) == 2
    assert [hit.passage.document for hit in retriever.search("light", 9)] == ["two"]
