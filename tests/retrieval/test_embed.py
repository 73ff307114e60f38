import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from readahead.errors import ConfigError
from readahead.lm.weights import pull
from readahead.retrieval.embed import SentenceTransformerEmbedder
from readahead.retrieval.store import Store
from tests.retrieval.support import add, document, found, source

ODD = ["", " ", "\0", "\ud800", "天文台", "😀" * 50, "word " * 2000]


@pytest.fixture(scope="module")
def minilm() -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(pull("all-minilm-l6-v2").folder, device="cpu")


def test_a_folder_that_is_no_model_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no modules.json"):
        SentenceTransformerEmbedder(tmp_path)


@pytest.mark.real
def test_vectors_are_unit_rows_for_any_string(minilm: SentenceTransformerEmbedder) -> None:
    vectors = minilm.embed_passages(ODD)
    assert vectors.shape == (len(ODD), minilm.dim)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    for text, vector in zip(ODD, vectors, strict=True):
        assert np.allclose(minilm.embed_query(text)[0], vector, atol=1e-5)
    assert minilm.embed_passages([]).shape == (0, minilm.dim)


@pytest.mark.real
def test_a_query_does_not_wait_for_all_passages() -> None:
    embedder = SentenceTransformerEmbedder(
        pull("all-minilm-l6-v2").folder, device="cpu", batch_size=2
    )
    texts = [f"{number} {'lamp ' * 100 * (number % 3)}" for number in range(60)]
    with ThreadPoolExecutor(1) as thread:
        embedding = thread.submit(embedder.embed_passages, texts)
        for number in range(3):
            embedder.embed_query(f"query {number}")
        assert not embedding.done()
    one_by_one = np.concatenate([embedder.embed_passages([text]) for text in texts[:6]])
    assert np.allclose(embedding.result()[:6], one_by_one, atol=1e-5)


def test_who_waits_for_the_model_comes_next() -> None:
    embedder = SentenceTransformerEmbedder.__new__(SentenceTransformerEmbedder)
    embedder._lock, embedder._next = threading.Lock(), threading.Lock()
    num_turns = 0

    def take_turns() -> None:
        nonlocal num_turns
        for _ in range(400):
            with embedder._turn():
                num_turns += 1
                sum(range(100_000))

    with ThreadPoolExecutor(1) as thread:
        taking, num_waited = thread.submit(take_turns), 0
        while not taking.done():
            time.sleep(0.004)
            before = num_turns
            with embedder._turn():
                num_waited = max(num_waited, num_turns - before)
    assert num_waited <= 1


@pytest.mark.real
def test_tokens_are_counted_beyond_what_is_read(minilm: SentenceTransformerEmbedder) -> None:
    before = minilm.embed_query("A lamp.")
    assert minilm.count_tokens([]) == []
    assert minilm.count_tokens(["", "A lamp.", "a" + " lamp" * 999, "\ud800"]) == [2, 5, 1002, 3]
    assert minilm.max_tokens == 256
    long = "lamp " * 400  # counting leaves the cut as it was
    assert np.allclose(minilm.embed_passages([long]), minilm.embed_passages([long + "river"]))
    assert np.allclose(minilm.embed_query("A lamp."), before)


@pytest.mark.real
def test_the_fingerprint_follows_weights_and_settings_only(
    minilm: SentenceTransformerEmbedder, tmp_path: Path
) -> None:
    original = pull("all-minilm-l6-v2").folder
    copy = tmp_path / original.name
    shutil.copytree(original, copy)
    (copy / "NOTES.md").write_text("not part of the model")
    assert SentenceTransformerEmbedder(copy, device="cpu").fingerprint == minilm.fingerprint
    (copy / "sentence_bert_config.json").write_text('{"max_seq_length": 64}')
    assert SentenceTransformerEmbedder(copy, device="cpu").fingerprint != minilm.fingerprint


@pytest.mark.real
def test_meaning_finds_what_words_do_not(store: Store, minilm: SentenceTransformerEmbedder) -> None:
    texts = {
        "cat": "A small feline slept on the sofa.",
        "car": "The automobile needs new tyres.",
        "sea": "Waves broke against the harbour wall.",
    }
    sources = [source(name, document(name, text)) for name, text in texts.items()]
    add(store, *sources, embedder=minilm)
    for query, name in (("kitten", "cat"), ("vehicle wheels", "car"), ("ocean storm", "sea")):
        assert found(store, query, minilm)[0] == name
        assert found(store, query) == []
