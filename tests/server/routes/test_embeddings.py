"""Embeddings, asked for by the official client over a real port."""

import base64
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from openai import BadRequestError, NotFoundError, OpenAI
from openai.types import CreateEmbeddingResponse
from starlette.testclient import TestClient

from readahead.config import Config
from readahead.knowledge import KnowledgeBase
from readahead.lm.model import TransformersModel
from readahead.lm.weights import pull
from readahead.retrieval.embed import SentenceTransformerEmbedder
from readahead.server.routes import embeddings
from readahead.server.state import Caller, Service
from tests.retrieval.support import HashingEmbedder
from tests.server.conftest import make_config

NAME = "all-minilm-l6-v2"
TEXTS = ["the lamp of the tower", "a lake", "水"]


@pytest.fixture
def embedder() -> HashingEmbedder:
    return HashingEmbedder()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return make_config(tmp_path, retrieval__mode="hybrid")


@pytest.fixture
def service(
    config: Config, model: TransformersModel, embedder: HashingEmbedder
) -> Iterator[Service]:
    service = Service(config, model)
    service.loaded.embedder = embedder
    yield service
    service.close()


@pytest.fixture
def openai(served: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{served}/v1", api_key="none", max_retries=0) as client:
        yield client


def embed(openai: OpenAI, **more: object) -> CreateEmbeddingResponse:
    given = {"model": NAME, "input": TEXTS, **more}
    return openai.embeddings.create(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("encoding", [{}, {"encoding_format": "float"}])
def test_vectors_are_those_of_the_embedder(
    openai: OpenAI, embedder: HashingEmbedder, encoding: dict[str, object]
) -> None:
    response = embed(openai, **encoding)
    assert [one.index for one in response.data] == [0, 1, 2]
    got = np.array([one.embedding for one in response.data], dtype=np.float32)
    assert np.array_equal(got, embedder.embed_passages(TEXTS))
    assert response.usage.prompt_tokens == sum(embedder.count_tokens(TEXTS))
    assert response.usage.total_tokens == response.usage.prompt_tokens
    assert response.model == NAME


def test_base64_is_little_endian_float32(openai: OpenAI, embedder: HashingEmbedder) -> None:
    [one] = embed(openai, input="a lake", encoding_format="base64").data
    assert isinstance(one.embedding, str)
    got = np.frombuffer(base64.b64decode(one.embedding), dtype="<f4")
    assert np.array_equal(got, embedder.embed_passages(["a lake"])[0])


def test_more_than_a_batch_keeps_its_order(openai: OpenAI, embedder: HashingEmbedder) -> None:
    texts = [f"place {n}" for n in range(embeddings.BATCH_SIZE * 2 + 3)]
    got = np.array([one.embedding for one in embed(openai, input=texts).data], dtype=np.float32)
    assert np.array_equal(got, embedder.embed_passages(texts))


def test_its_own_length_may_be_asked_for(openai: OpenAI) -> None:
    assert len(embed(openai, dimensions=32).data[0].embedding) == 32


@pytest.mark.parametrize(
    ("given", "param", "says"),
    [
        ({"input": ""}, "input", "not empty"),
        ({"input": []}, "input", "1 to 2048"),
        ({"input": ["a", ""]}, "input", "not empty"),
        ({"input": [1, 2]}, "input", "token ids are not taken"),
        ({"input": [[1, 2]]}, "input", "token ids are not taken"),
        ({"input": ["a"] * 2049}, "input", "1 to 2048"),
        ({"input": ["a", "word " * 51]}, "input", r"input\[1\] has 51 tokens; .* reads 50"),
        ({"dimensions": 16}, "dimensions", "have 32"),
        ({"encoding_format": "int8"}, "encoding_format", "float"),
        ({"extra_body": {"input_type": "query"}}, "input_type", "no field of this request"),
    ],
)
def test_what_is_not_served_is_named(
    openai: OpenAI, given: dict[str, object], param: str, says: str
) -> None:
    with pytest.raises(BadRequestError, match=says) as caught:
        embed(openai, **given)
    assert caught.value.param == param


def test_all_inputs_together_have_a_limit(openai: OpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "MAX_TOKENS", 7)
    with pytest.raises(BadRequestError, match="at most 7"):
        embed(openai)


def test_another_model_is_not_found(openai: OpenAI) -> None:
    for name in ("tiny", "text-embedding-3-small"):
        with pytest.raises(NotFoundError, match=f"embedded by '{NAME}'") as caught:
            embed(openai, model=name)
        assert caught.value.code == "model_not_found"


def test_without_an_embedder_there_is_no_model(
    openai: OpenAI, service: Service, tmp_path: Path
) -> None:
    lexical = make_config(tmp_path)
    knowledge = service.tenant().engine.knowledge
    knowledge.config = lexical
    with pytest.raises(NotFoundError, match=r"only words are matched"):
        embed(openai)


def test_documents_without_vectors_leave_no_embedder_until_they_are_gone(
    client: TestClient, service: Service, model: TransformersModel, tmp_path: Path
) -> None:
    (tmp_path / "lake.md").write_text("The lake is deep.", encoding="utf-8")
    with KnowledgeBase.open(make_config(tmp_path)) as by_words:
        by_words.add([tmp_path / "lake.md"])
    knowledge = service.tenant().engine.knowledge
    twin = service.tenant().engine.configured(service.config).knowledge
    request = {"model": NAME, "input": "a lake"}

    def is_listed() -> bool:
        return NAME in {one["id"] for one in client.get("/v1/models").json()["data"]}

    assert not is_listed()
    assert client.post("/v1/embeddings", json=request).status_code == 404
    assert knowledge.search("lake", 1)[0].similarity is None
    assert client.delete("/v1/documents/1").status_code == 200
    assert is_listed()
    assert client.post("/v1/embeddings", json=request).status_code == 200
    knowledge.add([tmp_path / "lake.md"])
    for one in (knowledge, twin):
        assert one.search("lake", 1)[0].similarity is not None
    assert twin.embedder is knowledge.embedder is not None
    assert twin.retriever is knowledge.retriever


def test_a_cancelled_request_stops_within_a_batch(
    service: Service, embedder: HashingEmbedder
) -> None:
    request = embeddings.EmbeddingRequest(model=NAME, input=["a"] * 100)
    asked = iter([False, True])
    caller = Caller("key")
    events = embeddings._events(service, caller, service.tenant(), request, lambda: next(asked))
    assert len(list(events)) == 2
    assert embedder.num_encoded == embeddings.BATCH_SIZE
    assert service.budgets.num_tokens("key") == 100


@pytest.mark.real
def test_the_real_embedder(openai: OpenAI, service: Service) -> None:
    minilm = SentenceTransformerEmbedder(pull(NAME).folder, device="cpu")
    service.loaded.embedder = minilm
    response = embed(openai)
    got = np.array([one.embedding for one in response.data], dtype=np.float32)
    assert np.allclose(got, minilm.embed_passages(TEXTS), atol=1e-5)
    assert response.usage.prompt_tokens == sum(minilm.count_tokens(TEXTS))
    with pytest.raises(BadRequestError, match="reads 256"):
        embed(openai, input="word " * 300)
