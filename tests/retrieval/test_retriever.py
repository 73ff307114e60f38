import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readahead.config import RetrievalConfig
from readahead.errors import ConfigError, EmbedderMismatch
from readahead.retrieval.base import Filter
from readahead.retrieval.retriever import HybridRetriever
from readahead.retrieval.store import Store
from tests.retrieval.support import HashingEmbedder, add, add_texts, document, found, source

TEXTS = {
    "hours": "The dome opens at nine on weekdays.",
    "tickets": "A ticket for the dome costs 12 euros.",
    "zh": "天文台周一闭馆，门票十二元。",
    "code": "Run focus --dome to turn the dome.",
}


@pytest.fixture
def filled(store: Store, embedder: HashingEmbedder) -> Store:
    add_texts(store, embedder, **TEXTS)
    return store


def retriever(store: Store, mode: str, embedder: HashingEmbedder | None = None) -> HybridRetriever:
    return HybridRetriever(store, embedder, RetrievalConfig.model_validate({"mode": mode}))


@pytest.mark.parametrize("mode", ["lexical", "dense", "hybrid"])
def test_every_mode_finds_the_passage(filled: Store, mode: str) -> None:
    hits = retriever(filled, mode, HashingEmbedder()).search("ticket costs", 2)
    assert hits[0].passage.document == "tickets"
    assert hits[0].passage.text == filled.document("tickets").text
    assert hits[0].score >= hits[-1].score


@pytest.mark.parametrize("mode", ["lexical", "dense", "hybrid"])
@pytest.mark.parametrize("query", ["", " \n\t\u3000"])
def test_a_blank_query_has_no_hits(filled: Store, mode: str, query: str) -> None:
    assert retriever(filled, mode, HashingEmbedder()).search(query, 3) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(st.characters() | st.sampled_from('"*()^:\0\ud800馆')), k=st.integers(-1, 99))
def test_no_string_raises(filled: Store, query: str, k: int) -> None:
    hits = retriever(filled, "hybrid", HashingEmbedder()).search(query, k)
    assert len(hits) <= max(0, k)


def test_a_chinese_word_is_found(filled: Store) -> None:
    hits = retriever(filled, "lexical").search("门票多少钱", 1)
    assert [hit.passage.document for hit in hits] == ["zh"]


@pytest.mark.parametrize("mode", ["lexical", "dense", "hybrid"])
def test_a_filter_acts_inside_the_search(
    store: Store, embedder: HashingEmbedder, mode: str
) -> None:
    """All of k match the filter, though hundreds of better hits do not."""
    better = [source(f"b{n}", document(f"b{n}", "dome dome dome")) for n in range(120)]
    worse = [
        source(f"w{n}", document(f"w{n}", f"Words that do not help, then dome {n}.", part="w"))
        for n in range(5)
    ]
    add(store, *better, *worse, embedder=embedder)
    hits = retriever(store, mode, embedder).search("dome", 5, Filter(metadata={"part": "w"}))
    assert sorted(hit.passage.document for hit in hits) == [f"w{n}" for n in range(5)]


def test_equal_passages_come_in_the_order_they_were_added(
    store: Store, embedder: HashingEmbedder
) -> None:
    names = [f"d{n}" for n in (5, 3, 9, 1)]
    add_texts(store, embedder, **dict.fromkeys(names, "The same words."))
    hits = retriever(store, "hybrid", embedder).search("same", 4)
    assert [hit.passage.document for hit in hits] == names


def test_an_embedder_is_asked_for_only_where_it_is_needed(store: Store) -> None:
    retriever(store, "lexical")
    for mode in ("dense", "hybrid"):
        with pytest.raises(ConfigError, match=mode):
            retriever(store, mode)


def test_a_store_embedded_with_another_model_is_refused(filled: Store) -> None:
    with pytest.raises(EmbedderMismatch, match="readahead reembed"):
        retriever(filled, "hybrid", HashingEmbedder("other"))


def test_searching_words_imports_no_heavy_package(filled: Store) -> None:
    code = f"""
import sys
from readahead.config import RetrievalConfig
from readahead.retrieval.retriever import HybridRetriever
from readahead.retrieval.store import Store

store = Store.open({str(filled.folder)!r}, create=False)
assert HybridRetriever(store, None, RetrievalConfig(mode="lexical")).search("dome", 3)
print(sorted({{"faiss", "torch", "sentence_transformers", "transformers"}} & set(sys.modules)))
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_any_number_of_hits_may_be_asked_for(store: Store, embedder: HashingEmbedder) -> None:
    add_texts(store, embedder, a="One text.", b="Two texts.")
    assert len(found(store, "text", embedder, k=2**63)) == 2
    assert len(found(store, "text", k=2**63)) == 2


def cosine(query: str, text: str) -> float:
    embedder = HashingEmbedder()
    return float(embedder.embed_passages([text])[0] @ embedder.embed_query(query)[0])


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_every_hit_has_its_cosine(filled: Store, mode: str) -> None:
    query = "ticket for the dome"
    hits = retriever(filled, mode, HashingEmbedder()).search(query, 4)
    expected = [cosine(query, hit.passage.text) for hit in hits]
    assert [hit.similarity for hit in hits] == pytest.approx(expected, abs=1e-6)


def test_a_hit_of_the_words_alone_has_its_cosine(store: Store, embedder: HashingEmbedder) -> None:
    """Of one candidate each, the words give the rare one and the vectors the near one."""
    query = "price dome ticket"
    add_texts(store, embedder, rare="price " + " ".join(f"other{n}" for n in range(20)))
    add_texts(store, embedder, **{f"near{n}": "dome ticket" for n in range(9)})
    config = RetrievalConfig(num_candidates=1)
    (hit,) = HybridRetriever(store, embedder, config).search(query, 1)
    assert hit.passage.document == "rare"
    assert hit.similarity == pytest.approx(cosine(query, hit.passage.text), abs=1e-6)


def test_a_passage_without_a_vector_has_no_cosine(store: Store, embedder: HashingEmbedder) -> None:
    add_texts(store, embedder, near="a dome")
    add_texts(store, words="a ticket")
    hits = retriever(store, "hybrid", embedder).search("ticket dome", 2)
    similar = {hit.passage.document: hit.similarity for hit in hits}
    assert similar["near"] is not None and similar["words"] is None
    assert all(hit.similarity is None for hit in retriever(store, "lexical").search("dome", 2))


@pytest.mark.parametrize("mode", ["lexical", "dense", "hybrid"])
def test_the_order_of_hits_does_not_depend_on_how_many_are_asked_for(
    store: Store, embedder: HashingEmbedder, mode: str
) -> None:
    words = ["dome", "ticket", "road", "fog", "lamp", "tide", "moon"]
    for number in range(60):
        text = " ".join(words[number * at % 7] for at in range(1, 3 + number % 5)) + f" {number}."
        title = words[number % 7] if number % 3 else ""
        add(
            store,
            source(f"d{number}", document(f"d{number}", text, title=title)),
            embedder=embedder,
        )
    config = RetrievalConfig.model_validate({"mode": mode, "num_candidates": 5})
    retriever = HybridRetriever(store, embedder, config)
    for query in ("dome fog ticket", "where is the road by the moon", "lamp 17"):
        whole = retriever.search(query, 100)
        assert len(whole) > 10
        for k in (1, 3, 5, 6, 10, 33):
            assert retriever.search(query, k) == whole[:k]
