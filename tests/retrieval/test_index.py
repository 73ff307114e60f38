from collections.abc import Sequence

import numpy as np
import pytest

from readahead.errors import DocumentError, EmbedderMismatch
from readahead.retrieval.base import Vectors
from readahead.retrieval.content import content_hash, embedded_text
from readahead.retrieval.index import AddReport, Failure, Indexer, Source, reembed
from readahead.retrieval.store import Store
from readahead.types import Document, Passage
from tests.retrieval.support import HashingEmbedder, add, add_texts, cut, document, found, source


def unreadable() -> list[Document]:
    raise DocumentError("no text layer")


def test_a_source_that_cannot_be_read_does_not_stop_the_batch(store: Store) -> None:
    blank = Source("blank", "1", lambda: [Document("blank", " \n ")])
    good = source("good", document("good", "Fine."))
    report = add(store, Source("scan.pdf", "1", unreadable), blank, good)
    assert report.failed == [Failure("scan.pdf", "no text layer"), Failure("blank", "no text")]
    assert (report.added, report.passages) == (1, 1)
    assert [info.name for info in store.documents()] == ["good"]


def test_what_was_stored_stays_when_the_new_file_cannot_be_read(store: Store) -> None:
    add_texts(store, a="Old and fine.")
    report = add(store, Source("a", "2", unreadable))
    assert report.failed == [Failure("a", "no text layer")]
    assert found(store, "old") == ["a"]


def test_a_name_that_is_taken_does_not_stop_the_batch(store: Store) -> None:
    sources = [
        source("a", document("a", "One.")),
        source("r", document("a", "Two."), document("r#2", "Three.")),
        source("b", document("b", "Four.")),
    ]
    report = add(store, *sources)
    assert (report.added, report.passages) == (2, 2)
    (failure,) = report.failed
    assert failure.path == "r"
    assert "'a' was already added from 'a'" in failure.reason
    assert [info.name for info in store.documents()] == ["a", "b"]


def test_a_vector_that_is_refused_does_not_stop_the_batch(store: Store) -> None:
    class Failing(HashingEmbedder):
        def embed_passages(self, texts: Sequence[str]) -> Vectors:
            vectors = super().embed_passages(texts)
            vectors[[text == "Bad." for text in texts]] = np.nan
            return vectors

    report = add_texts(store, Failing(), a="Good.", b="Bad.", c="Fine.")
    assert [failure.path for failure in report.failed] == ["b"]
    assert "finite" in report.failed[0].reason
    assert (report.added, report.encoded) == (2, 3)
    assert len(store.vector_ids()) == 2


def test_an_unchanged_source_is_not_read(store: Store) -> None:
    add_texts(store, a="One.")
    unchanged = Source("a", source("a", document("a", "One.")).sha256, unreadable)
    assert add(store, unchanged).unchanged == 1


def test_known_content_is_not_embedded_again(store: Store, embedder: HashingEmbedder) -> None:
    add_texts(store, embedder, a="The same.", b="The same.", c="Another.")
    assert embedder.num_encoded == 2
    add_texts(store, embedder, d="The same.", c="Another, changed.")
    assert embedder.num_encoded == 3
    assert len(store.vector_ids()) == 4


def test_passages_longer_than_the_embedder_reads_are_counted(
    store: Store, embedder: HashingEmbedder
) -> None:
    fits, long = " ".join(["word"] * embedder.max_tokens), "word " * 51
    report = add_texts(store, embedder, a=fits, b=long, c=f"{long} and more")
    assert (report.encoded, report.too_long) == (3, 2)
    assert add_texts(store, embedder, d=long).too_long == 0  # its vector was there
    assert add_texts(store, e=long).too_long == 0  # has no vector to miss


def test_what_was_added_by_its_words_only_gets_its_vectors(
    store: Store, embedder: HashingEmbedder
) -> None:
    add_texts(store, embedder, b="Known.")
    records = source("r", document("r#1", "Known."), document("r#2", "Unknown."))
    add(store, records)
    report = add(store, records, embedder=embedder)
    assert (report.replaced, report.passages, report.encoded) == (1, 0, 1)
    assert list(store.vector_ids()) == store.live_ids()
    assert [info.version for info in store.documents()] == [1, 1, 1]
    assert add(store, records, embedder=embedder).unchanged == 1
    assert add(store, records).unchanged == 1
    assert store.check() == []


def test_small_sources_share_a_transaction_and_progress_is_told(
    store: Store, embedder: HashingEmbedder
) -> None:
    told: list[tuple[int, int, int]] = []

    def progress(report: AddReport) -> None:
        told.append((report.added, report.encoded, report.to_encode))

    sources = [source(f"d{n}", document(f"d{n}", f"Text number {n}.")) for n in range(300)]
    report = Indexer(store, cut, embedder=embedder, progress=progress).add(sources)
    assert (report.added, report.passages, report.encoded) == (300, 300, 300)
    assert report.encode_s > 0
    assert report.seconds >= report.encode_s + report.read_s
    assert {added for added, _, _ in told} == {0, 256, 300}
    assert {to_encode for _, _, to_encode in told} == {0, 256, 300}
    assert all(encoded <= to_encode for _, encoded, to_encode in told)
    assert store.generation() == 2


def test_the_same_source_twice_in_one_batch_is_added_once(store: Store) -> None:
    twice = source("a", document("a", "One."))
    report = add(store, twice, twice)
    assert (report.added, report.unchanged, report.passages) == (1, 1, 1)


def test_another_embedder_is_refused_before_anything_is_read(store: Store) -> None:
    add_texts(store, HashingEmbedder(), a="One.")
    with pytest.raises(EmbedderMismatch):
        add(store, Source("b", "1", unreadable), embedder=HashingEmbedder("other"))


def test_reembed_ties_the_store_to_another_model(store: Store) -> None:
    add_texts(store, HashingEmbedder(), a="A green light.", b="A red light.")
    add_texts(store, a="A blue light.")
    other = HashingEmbedder("other", dim=8)
    told: list[tuple[int, int]] = []
    assert reembed(store, other, progress=lambda done, total: told.append((done, total))) == 2
    assert told == [(2, 2)]
    assert store.vectors(store.vector_ids()).shape == (2, 8)
    assert found(store, "blue", other) == ["a", "b"]
    assert store.check() == []
    with pytest.raises(EmbedderMismatch, match="other@1"):
        store.check_embedder(HashingEmbedder())


def test_what_is_added_during_reembed_is_embedded_too(store: Store) -> None:
    """By another process, which still has the model of before."""
    before = HashingEmbedder()
    add_texts(store, before, a="A green light.")

    class Slow(HashingEmbedder):
        def embed_passages(self, texts: Sequence[str]) -> Vectors:
            if self.num_encoded < 2:
                name = f"meanwhile{self.num_encoded}"
                add_texts(store, before, **{name: f"A light {name}."})
            return super().embed_passages(texts)

    assert reembed(store, Slow("other")) == 3
    assert list(store.vector_ids()) == store.live_ids()
    assert store.check() == []


def test_reembed_of_an_empty_store_ties_it(store: Store, embedder: HashingEmbedder) -> None:
    assert reembed(store, embedder) == 0
    assert store.vectors(np.array([], dtype=np.int64)).shape == (0, 32)


def test_what_is_embedded_names_each_heading_once() -> None:
    passage = Passage("d", "Hours\n\nNine.", 0, 12, heading=("Visit", "Hours"), context="| a |")
    assert embedded_text(passage) == "Visit\n| a |\nHours\n\nNine."
    assert len(content_hash(passage)) == 16
    same_elsewhere = Passage("e", "Hours\n\nNine.", 90, 102, "code", ("Visit", "Hours"), 3, "| a |")
    assert content_hash(same_elsewhere) == content_hash(passage)
    assert content_hash(Passage("d", "\ud800", 0, 1)) != content_hash(passage)
