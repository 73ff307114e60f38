import pytest
from starlette.testclient import TestClient

from readahead.server.app import create_app
from readahead.server.state import Service


@pytest.fixture
def ids(service: Service) -> list[str]:
    """Ask three questions and return the ids of their traces, the last first."""
    engine = service.tenant().engine
    return [engine.ask(f"How deep is lake {i}?").trace_id for i in range(3)][::-1]


def test_the_last_ones_come_first(client: TestClient, ids: list[str]) -> None:
    listed = client.get("/v1/traces").json()
    assert (listed["object"], listed["has_more"]) == ("list", False)
    assert [trace["id"] for trace in listed["data"]] == ids
    assert listed["data"][0]["question"] == "How deep is lake 2?"
    assert listed["data"][0]["method"] == "plain"
    assert listed["data"][0]["e2e_s"] > 0
    assert "spans" not in listed["data"][0]


def test_a_part_of_them(client: TestClient, ids: list[str]) -> None:
    listed = client.get("/v1/traces?limit=2").json()
    assert [trace["id"] for trace in listed["data"]] == ids[:2]
    assert listed["has_more"]
    assert not client.get("/v1/traces?limit=3").json()["has_more"]
    for limit in ("0", "1001", "many"):
        response = client.get(f"/v1/traces?limit={limit}")
        assert (response.status_code, response.json()["error"]["param"]) == (400, "limit")


def test_one_with_all_that_happened(client: TestClient, service: Service, ids: list[str]) -> None:
    trace = client.get(f"/v1/traces/{ids[0]}").json()
    assert trace == {"object": "trace", **service.tenant().engine.knowledge.store.trace(ids[0])}
    assert "decode" in [span["name"] for span in trace["spans"]]


def test_it_has_what_the_client_calls_its_request(client: TestClient) -> None:
    labels: tuple[dict[str, object], ...] = (
        {"user": "u-17", "metadata": {"build": "4"}},
        {"user": None, "metadata": {}},
    )
    for named in labels:
        for method in ("prefetch", "plain"):
            asked = {"messages": [{"role": "user", "content": "How deep is lake 5?"}], **named}
            body = {"model": "readahead", "readahead": {"method": method}, **asked}
            assert client.post("/v1/chat/completions", json=body).status_code == 200
    told = [(one["user"], one["metadata"]) for one in client.get("/v1/traces").json()["data"]]
    assert told == [(None, None)] * 2 + [("u-17", {"build": "4"})] * 2


def test_an_unknown_one(client: TestClient) -> None:
    response = client.get("/v1/traces/none")
    assert response.status_code == 404
    assert response.json()["error"]["type"] == "not_found_error"


def test_numbers_that_json_lacks(client: TestClient, service: Service) -> None:
    store = service.tenant().engine.knowledge.store
    odd = {"id": "odd", "kind": "ask", "started_at": 1.0, "attributes": {"score": -float("inf")}}
    store.add_trace(odd, keep=10)
    assert client.get("/v1/traces/odd").json()["attributes"] == {"score": None}


def test_a_tenant_sees_its_own_only(service: Service, ids: list[str]) -> None:
    key = service.keys.add("b", tenant="b")
    with TestClient(create_app(service), base_url="http://127.0.0.1") as client:
        client.headers["Authorization"] = f"Bearer {key}"
        assert client.get("/v1/traces").json()["data"] == []
        assert client.get(f"/v1/traces/{ids[0]}").status_code == 404
