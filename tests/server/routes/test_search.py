import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from readahead.config import Config
from readahead.server.app import create_app
from readahead.server.state import MAX_BRIEF, Service
from readahead.types import Hit
from tests.server.clients import wait_until
from tests.server.conftest import make_config

JSON = {"Content-Type": "application/json"}
ANY_TEXT = st.text(st.characters(exclude_categories=()), min_size=1)  # lone surrogates, too


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return make_config(tmp_path, server__max_queued=2)


def hits(client: TestClient, **body: object) -> list[dict[str, Any]]:
    # Spells lone surrogates, as JSON does.
    response = client.post("/v1/search", content=json.dumps(body), headers=JSON)
    assert response.status_code == 200, response.text
    assert response.json()["object"] == "list"
    found: list[dict[str, Any]] = response.json()["hits"]
    return found


def test_a_hit_tells_where_it_stands(client: TestClient, service: Service) -> None:
    first = hits(client, query="How deep is the lake?", k=1)[0]
    assert set(first) == {
        *("passage_id", "document", "document_id", "heading", "kind", "page"),
        *("text", "start", "end", "score"),
    }
    document = service.tenant().engine.knowledge.document(first["document_id"])
    assert document.name == first["document"]
    assert document.text[first["start"] : first["end"]] == first["text"]
    assert first["heading"] == ["Lake Baikal"]


def test_as_many_as_asked_for(client: TestClient) -> None:
    query = "lake tower 水 the is in"
    assert len(hits(client, query=query, k=1)) == 1
    assert len(hits(client, query=query)) == 3  # retrieval.k


@pytest.mark.parametrize("query", ["", " ", "\n\t\u3000"])
def test_a_blank_query_is_refused_by_name(client: TestClient, query: str) -> None:
    response = client.post("/v1/search", json={"query": query})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "query"


@pytest.mark.parametrize(
    ("param", "body"),
    [
        ("query", {}),
        ("query", {"query": 5}),
        ("query", {"query": "x" * 20_001}),
        ("k", {"query": "x", "k": 0}),
        ("k", {"query": "x", "k": 1001}),
        ("kinds.0", {"query": "x", "kinds": ["poem"]}),
        ("metadata", {"query": "x", "metadata": {str(i): i for i in range(2000)}}),
        ("limit", {"query": "x", "limit": 3}),
    ],
)
def test_what_is_wrong_is_named(client: TestClient, param: str, body: dict[str, object]) -> None:
    response = client.post("/v1/search", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


def test_a_filter_limits_by_name_and_by_id(client: TestClient) -> None:
    by_name = {hit["document_id"]: hit["document"] for hit in hits(client, query="lake tower")}
    assert len(by_name) == 2
    for id, name in by_name.items():
        for given_as in (id, name):
            found = hits(client, query="lake tower", documents=[given_as])
            assert {hit["document"] for hit in found} == {name}
    missing = client.post("/v1/search", json={"query": "lake", "documents": ["none.md"]})
    assert (missing.status_code, missing.json()["error"]["param"]) == (404, "documents")


def test_a_filter_limits_by_kind_and_metadata(client: TestClient, service: Service) -> None:
    line = b'{"text": "A lake of ink.", "metadata": {"year": 2024}}'
    service.tenant().engine.knowledge.add(["-"], stdin=line, stdin_name="more.jsonl")
    assert hits(client, query="lake", kinds=["table"]) == []
    assert len(hits(client, query="lake", kinds=["paragraph"])) == 2
    assert len(hits(client, query="lake", metadata={"year": 2024})) == 1
    assert hits(client, query="lake", metadata={"year": "2024"}) == []
    assert hits(client, query="lake", metadata={"\ud800": "\udfff"}) == []


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=ANY_TEXT, k=st.integers(1, 1000))
def test_any_string_works(client: TestClient, query: str, k: int) -> None:
    body = json.dumps({"query": query, "k": k})
    response = client.post("/v1/search", content=body, headers=JSON)
    assert response.status_code == (200 if query.strip() else 400), response.text


def test_tenants_find_their_own_documents(service: Service) -> None:
    key = service.keys.add("b", tenant="b")
    with TestClient(create_app(service), base_url="http://127.0.0.1") as client:
        client.headers["Authorization"] = f"Bearer {key}"
        assert hits(client, query="lake") == []
        service.tenant("b").engine.knowledge.add(["-"], stdin=b"Own lake.", stdin_name="own.txt")
        assert [hit["document"] for hit in hits(client, query="lake")] == ["own.txt"]


def test_a_passage_is_given_by_its_id(client: TestClient, service: Service) -> None:
    hit = hits(client, query="deepest lake")[0]
    told = client.get(f"/v1/passages/{hit['passage_id']}").json()
    assert told == {"object": "passage"} | {key: hit[key] for key in hit if key != "score"}
    service.tenant().engine.knowledge.remove([hit["document"]])
    for id in (hit["passage_id"], "9.9.9", "x", "1.1", "\u0661.1.0"):
        assert client.get(f"/v1/passages/{id}").status_code == 404, id


def test_more_than_may_wait_are_refused_and_probes_answer(
    served: str, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    num_searches = 45  # more than the server has threads for what blocks
    is_free, statuses = threading.Event(), list[int]()

    def found(*_: object, **__: object) -> list[Hit]:
        is_free.wait()
        return []

    def search() -> None:
        response = remote.post("/v1/search", json={"query": "lake"})
        statuses.append(response.status_code)
        if response.status_code == 429:
            assert response.json()["error"]["code"] == "queue_full"
            assert int(response.headers["Retry-After"]) > 0

    monkeypatch.setattr(service.tenant().engine.knowledge, "search", found)
    limits = httpx2.Limits(max_connections=60)
    with (
        httpx2.Client(base_url=served, timeout=60, limits=limits) as remote,
        ThreadPoolExecutor(num_searches) as pool,
    ):
        try:
            searches = [pool.submit(search) for _ in range(num_searches)]
            wait_until(lambda: len(statuses) == num_searches - MAX_BRIEF - 2)
            assert set(statuses) == {429}
            for path in ("/health", "/ready", "/metrics"):
                assert remote.get(path, timeout=10).status_code == 200
        finally:
            is_free.set()
        for one in searches:
            one.result()
    assert statuses.count(200) == MAX_BRIEF + 2
