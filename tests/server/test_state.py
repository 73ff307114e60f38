"""Tenants share nothing but the models."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from readahead.lm.model import TransformersModel
from readahead.server.state import MAX_BRIEF, Service
from tests.retrieval.support import Asked
from tests.server.conftest import TEXTS, make_config
from tests.server.routes.test_sessions import NUM_THREADS, busy_model, call

QUESTION = "How deep is Lake Baikal?"
Request = Callable[..., Any]


@pytest.fixture
def as_tenant(service: Service, client: TestClient, tmp_path: Path) -> Callable[[str], Request]:
    """Return what makes requests for a tenant; each has documents of its own, of the same text."""
    keys = {}
    for tenant in ("blue", "red"):
        keys[tenant] = service.keys.add(f"key-of-{tenant}", tenant=tenant)
        file = tmp_path / f"{tenant}.md"
        file.write_text(TEXTS["lake.md"], encoding="utf-8")
        assert service.tenant(tenant).engine.knowledge.add([file]).added == 1

    def of(tenant: str) -> Request:
        def request(method: str, path: str, status: int = 200, **more: Any) -> Any:
            headers = {"Authorization": f"Bearer {keys[tenant]}"}
            response = client.request(method, path, headers=headers, **more)
            assert response.status_code == status, response.text
            return response.json()

        return request

    return of


def ask(request: Request) -> dict[str, Any]:
    """Return what the answer says of itself."""
    body = {"model": "readahead", "messages": [{"role": "user", "content": QUESTION}]}
    told = request("POST", "/v1/chat/completions", json=body)["readahead"]
    assert isinstance(told, dict)
    return told


def test_no_time_tells_what_another_tenant_has_read(as_tenant: Callable[[str], Request]) -> None:
    blue, red = as_tenant("blue"), as_tenant("red")
    assert ask(blue)["usage"]["reused_tokens"] == 0
    assert ask(blue)["usage"]["reused_tokens"] > 0
    assert ask(red)["usage"]["reused_tokens"] == 0


def test_each_tenant_finds_its_own_documents(as_tenant: Callable[[str], Request]) -> None:
    for tenant in ("blue", "red"):
        request = as_tenant(tenant)
        hits = request("POST", "/v1/search", json={"query": "deepest lake tower water", "k": 50})
        assert {Path(hit["document"]).name for hit in hits["hits"]} == {f"{tenant}.md"}
        listed = request("GET", "/v1/documents")
        assert [Path(document["name"]).name for document in listed["data"]] == [f"{tenant}.md"]
    of_red = {"query": "lake", "documents": [listed["data"][0]["name"]]}
    as_tenant("red")("POST", "/v1/search", json=of_red)
    as_tenant("blue")("POST", "/v1/search", 404, json=of_red)


def test_traces_belong_to_a_tenant(as_tenant: Callable[[str], Request]) -> None:
    blue, red = as_tenant("blue"), as_tenant("red")
    id = ask(blue)["trace_id"]
    blue("GET", f"/v1/traces/{id}")
    red("GET", f"/v1/traces/{id}", 404)
    assert len(blue("GET", "/v1/traces")["data"]) == 1
    assert red("GET", "/v1/traces")["data"] == []


def test_sessions_belong_to_a_tenant(as_tenant: Callable[[str], Request]) -> None:
    blue, red = as_tenant("blue"), as_tenant("red")
    id = blue("POST", "/v1/sessions", json={})["id"]
    assert red("GET", "/v1/sessions")["data"] == []
    for method, path in (
        ("GET", f"/v1/sessions/{id}"),
        ("GET", f"/v1/sessions/{id}/status"),
        ("DELETE", f"/v1/sessions/{id}"),
    ):
        red(method, path, 404)
    red("POST", f"/v1/sessions/{id}/typing", 404, json={"text": QUESTION})
    body = {
        "model": "readahead",
        "messages": [{"role": "user", "content": QUESTION}],
        "readahead": {"session": id},
    }
    red("POST", "/v1/chat/completions", 404, json=body)
    blue("POST", "/v1/chat/completions", json=body)


def test_their_folders_lie_apart(service: Service) -> None:
    folders = [service.folder(name) for name in ("", "blue", "red")]
    assert len(set(folders)) == 3
    assert folders[1].relative_to(service.config.kb) == Path("tenants/blue")
    engines = [service.tenant(name).engine for name in ("", "blue", "red")]
    assert len({id(engine.knowledge.store) for engine in engines}) == 3
    assert len({id(engine.loaded) for engine in engines}) == 1
    assert service.tenant("blue").engine is engines[1]


def test_they_share_the_embedder_and_no_query(
    service: Service, model: TransformersModel, tmp_path: Path
) -> None:
    lake = tmp_path / "lake.md"
    assert service.tenant("words").engine.knowledge.add([lake]).added == 1  # without vectors
    shared = Service(make_config(tmp_path, retrieval__mode="hybrid"), model)
    shared.loaded.embedder = embedder = Asked()
    blue, red, words = (shared.tenant(name).engine.knowledge for name in ("blue", "red", "words"))
    assert blue.embedder is not None and red.embedder is not None and words.embedder is None
    for knowledge in (blue, blue, red):
        knowledge.search(QUESTION, 3)
    assert embedder.queries == [
        QUESTION,
        QUESTION,
    ]  # no time tells red of blue
    shared.close()


def chat(**more: object) -> dict[str, object]:
    return {"model": "readahead", "messages": [{"role": "user", "content": QUESTION}], **more}


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("way", ["prefetch", "plain", "drafts", "tiny"])
def test_a_key_spends_what_its_answers_use(
    service: Service, client: TestClient, way: str, n: int
) -> None:
    headers = {"Authorization": f"Bearer {service.keys.add('ann')}"}
    named = {"model": way} if way == "tiny" else {"readahead": {"method": way}}
    body = chat(n=n, temperature=0.0 if way == "drafts" else 1.0, **named)
    response = client.post("/v1/chat/completions", json=body, headers=headers)
    assert response.status_code == 200, response.text
    assert service.budgets.num_tokens("ann") == response.json()["usage"]["total_tokens"]


@pytest.mark.parametrize("extension", [{}, {"method": "plain"}, {"session": ""}])
def test_who_leaves_early_has_spent_as_well(
    service: Service, served: str, extension: dict[str, str]
) -> None:
    headers = {"Authorization": f"Bearer {service.keys.add('ann')}"}
    with httpx2.Client(base_url=served, headers=headers, timeout=60) as client:
        if "session" in extension:
            extension = {"session": client.post("/v1/sessions", json={}).json()["id"]}
        body = chat(stream=True, max_tokens=1000, readahead=extension)
        with client.stream("POST", "/v1/chat/completions", json=body) as response:
            assert response.status_code == 200
            next(response.iter_lines())
    deadline_s = time.monotonic() + 20
    while not service.budgets.num_tokens("ann"):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_requests_that_wait_for_the_model_keep_no_question_from_the_queue(
    service: Service, served: str
) -> None:
    """They have taken all places of the routes that may wait for it."""
    asked = chat(max_tokens=2)
    with ThreadPoolExecutor(NUM_THREADS + 1) as pool, busy_model(service):
        waiting = [pool.submit(call, served, "", "/v1/sessions") for _ in range(NUM_THREADS)]
        time.sleep(0.3)
        answer = pool.submit(call, served, "", "/v1/chat/completions", **asked)
        deadline_s = time.monotonic() + 20
        while not service.admission.num_running:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        assert not any(one.done() for one in waiting)
    assert answer.result()["usage"]["completion_tokens"] == 2


def test_a_tenant_that_is_being_opened_keeps_no_other_waiting(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, is_opening, go_on = service.tenant(), threading.Event(), threading.Event()
    plain = service.folder

    def slow(name: str) -> Path:
        is_opening.set()
        assert go_on.wait(30)
        return plain(name)

    monkeypatch.setattr(service, "folder", slow)
    with ThreadPoolExecutor(2) as pool:
        opening = pool.submit(service.tenant, "slow")
        assert is_opening.wait(30)
        seen = pool.submit(lambda: (service.tenant(), service.open_tenants()))
        try:
            assert seen.result(20) == (own, [own])
        finally:
            go_on.set()
        assert opening.result() in service.open_tenants()


@pytest.mark.parametrize(
    "called",
    [
        "POST /v1/search",
        "POST /v1/sessions",
        "DELETE /v1/sessions/none",
        "DELETE /v1/documents/1",
    ],
)
def test_what_may_wait_for_a_model_is_bounded(
    service: Service, client: TestClient, called: str
) -> None:
    service.brief.num_running, service.brief._max_queued = MAX_BRIEF, 0
    method, path = called.split()
    response = client.request(method, path, json={"query": "a"} if "search" in path else None)
    assert (response.status_code, response.json()["error"]["code"]) == (429, "queue_full")
