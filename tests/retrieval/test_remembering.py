from collections.abc import Sequence

import numpy as np

from readahead.retrieval.base import Embedder
from readahead.retrieval.remembering import Remembering
from tests.retrieval.support import Asked, HashingEmbedder


def ask(embedder: Embedder, queries: Sequence[str]) -> None:
    for query in queries:
        embedder.embed_query(query)


def test_a_query_is_embedded_once() -> None:
    model = Asked()
    embedder = Remembering(model)
    ask(embedder, ["a lake", "a tower", "a lake"])
    assert model.queries == ["a lake", "a tower"]


def test_each_remembers_its_own_queries_alone() -> None:
    model = Asked()
    ask(Remembering(model), ["a lake"])
    ask(Remembering(model), ["a lake"])
    assert model.queries == ["a lake", "a lake"]


def test_the_oldest_ones_are_forgotten() -> None:
    model = Asked()
    embedder = Remembering(model)
    ask(embedder, [f"lake {number}" for number in range(100)])
    model.queries.clear()
    ask(embedder, ["lake 99", "lake 0"])
    assert model.queries == ["lake 0"]


def test_vectors_are_those_of_the_model_and_nobody_can_change_what_is_remembered() -> None:
    model = HashingEmbedder()
    embedder: Embedder = Remembering(model)
    embedder.embed_query("a lake")[:] = 0
    assert np.array_equal(embedder.embed_query("a lake"), model.embed_query("a lake"))
    assert np.array_equal(embedder.embed_passages(["a", "b"]), model.embed_passages(["a", "b"]))
    assert embedder.count_tokens(["a lake"]) == [2]
    told = (embedder.fingerprint, embedder.dim, embedder.max_tokens)
    assert told == (model.fingerprint, model.dim, model.max_tokens)
