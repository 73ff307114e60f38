import asyncio
import base64
import itertools
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fastapi.routing import APIRoute
from openai import AuthenticationError, OpenAI, RateLimitError
from openai.types.chat import ChatCompletionUserMessageParam
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from readahead.errors import ConfigError
from readahead.lm.model import TransformersModel
from readahead.server.app import ROUTERS, create_app
from readahead.server.guard.headers import SECURE
from readahead.server.guard.middleware import CHALLENGE, Guard
from readahead.server.state import Caller, Service
from tests.server.conftest import make_config

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
OTHER_PATHS = (
    *("/openapi.json", "/docs", "/redoc", "/static/app.js", "/static/x", "/nothing", "/v1"),
    *(
        "/health/",
        "//health",
        "/health/x",
        "/HEALTH",
        "/health%2f",
        "/health;x",
        "/v1/%2e%2e/health",
    ),
)
DEEP = (600, 900, 970, 100_000)
ASKED = [{"role": "user", "content": "How deep is Lake Baikal?"}]


def routes() -> list[APIRoute]:
    """Return all routes of all routers."""
    return [r for module in ROUTERS for r in module.router.routes if isinstance(r, APIRoute)]


PATHS = sorted({re.sub(r"{[^}]*}", "x", route.path) for route in routes()} - {"/health"})


@pytest.fixture
def key(service: Service) -> str:
    return service.keys.add("ann")


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def test_the_walk_sees_the_routes() -> None:
    assert {"/v1/chat/completions", "/v1/search", "/v1/sessions/x/typing", "/"} <= set(PATHS)
    assert len(PATHS) >= 10


def test_every_route_needs_the_key(client: TestClient, key: str) -> None:
    for path, method in itertools.product([*PATHS, *OTHER_PATHS], METHODS):
        body = None if method in ("GET", "HEAD", "OPTIONS") else b"{}"
        for headers in ({}, bearer("ra-wrong"), basic("ann", "")):
            response = client.request(method, path, headers=headers, content=body)
            assert response.status_code == 401, (method, path)
            assert response.headers["www-authenticate"] == CHALLENGE
            # The body of what is refused is not read, however long it may be.
            is_cut = response.headers.get("connection") == "close"
            assert is_cut == (body is not None)
            assert {name: response.headers[name] for name in SECURE} == SECURE
            if method != "HEAD":
                error = response.json()["error"]
                assert (error["code"], error["type"]) == ("invalid_api_key", "authentication_error")


def test_with_the_key_every_route_is_reached(client: TestClient, key: str) -> None:
    for path in [*PATHS, *OTHER_PATHS]:
        response = client.get(path, headers=bearer(key), follow_redirects=False)
        assert response.status_code not in (401, 403)
        assert {name: response.headers[name] for name in SECURE} == SECURE


def test_health_needs_no_key(client: TestClient, key: str) -> None:
    for ask in (client.get, client.head):
        assert (ask("/health").status_code, ask("/ready").status_code) == (200, 401)


def test_keys_are_sent_in_several_ways(client: TestClient, key: str) -> None:
    for sent in (bearer(key), basic("", key), basic("anybody", key)):
        assert client.get("/v1/traces", headers=sent).status_code == 200
    for scheme in ("bearer", "BEARER", "Bearer "):
        headers = {"Authorization": f"{scheme} {key}"}
        assert client.get("/v1/traces", headers=headers).status_code == 200
    assert client.get(f"/v1/traces?api_key={key}").status_code == 401


def test_what_is_no_key_is_refused(client: TestClient, key: str) -> None:
    for sent in (
        *("", "Bearer", "Bearer ", "Basic", "Basic !", "Basic YQ==", "Basic /w==", "Basic w6k6"),
        *(key, f"Token {key}", f"Bearer {key} {key}", f"Bearer {key},", f"Basic {key}"),
    ):
        headers = [(b"authorization", sent.encode())]
        assert client.get("/v1/traces", headers=headers).status_code == 401, sent


def test_two_headers_of_authorization_are_none(client: TestClient, key: str) -> None:
    right = (b"authorization", f"Bearer {key}".encode())
    assert client.get("/v1/traces", headers=[right]).status_code == 200
    assert client.get("/v1/traces", headers=[right, right]).status_code == 401


def test_keys_come_and_go_while_the_server_runs(client: TestClient, service: Service) -> None:
    assert client.get("/v1/traces").status_code == 200
    key = service.keys.add("ann")
    assert client.get("/v1/traces").status_code == 401
    assert client.get("/v1/traces", headers=bearer(key)).status_code == 200
    service.keys.remove("ann")
    assert client.get("/v1/traces", headers=bearer(key)).status_code == 401
    assert client.get("/v1/traces").status_code == 401


def test_keys_that_cannot_be_read_open_nothing(
    client: TestClient, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    key = service.keys.add("ann")
    (service.config.kb / "keys.json").write_text("{")
    for headers in ({}, bearer(key)):
        response = client.get("/v1/traces", headers=headers)
        assert response.status_code == 503
        assert "keys.json" not in response.text and "keys.json" in caplog.text


def test_only_by_its_names_the_server_is_called(client: TestClient) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "", "localhost:x"):
        for path in [*PATHS, "/health"]:
            response = client.get(path, headers={"Host": host})
            assert response.status_code == 403
            assert response.json()["error"]["code"] == "host_not_allowed"
    for host in ("localhost:8321", "127.0.0.1", "[::1]:8321"):
        assert client.get("/health", headers={"Host": host}).status_code == 200


def search(client: TestClient, **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post("/v1/search", json={"query": "lake"}, headers=named).status_code


def test_pages_of_other_sites_change_nothing(client: TestClient) -> None:
    assert search(client) == 200  # no browser
    assert search(client, Origin="http://127.0.0.1", Sec_Fetch_Site="same-origin") == 200
    assert search(client, Sec_Fetch_Site="none") == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:3000", "http://[", ""):
        assert search(client, Origin=origin) == 403
    for site in ("cross-site", "same-site"):
        assert search(client, Sec_Fetch_Site=site) == 403
    assert (
        client.delete("/v1/sessions/x", headers={"Origin": "http://a.example"}).status_code == 403
    )
    assert client.get("/v1/traces", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


def test_no_other_site_may_read(client: TestClient) -> None:
    wanted = {"Origin": "http://a.example", "Access-Control-Request-Method": "POST"}
    for response in (client.options("/v1/search", headers=wanted), client.get("/", headers=wanted)):
        assert not [name for name in response.headers if name.startswith("access-control-")]


@pytest.fixture
def open_client(service: Service, model: TransformersModel) -> Iterator[TestClient]:
    """Give a client of a server that one other site may call."""
    server = service.config.server.model_copy(update={"cors_origins": ("http://a.example",)})
    service.config = service.config.model_copy(update={"server": server})
    with TestClient(create_app(service), base_url="http://127.0.0.1") as client:
        yield client


def test_a_named_site_may_call_with_a_key_of_its_own(
    open_client: TestClient, service: Service
) -> None:
    key = service.keys.add("ann")
    site = {"Origin": "http://a.example", "Sec-Fetch-Site": "cross-site"}
    names = "authorization,content-type,x-stainless-lang,x-stainless-retry-count"  # OpenAI's
    wanted = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": names}
    asked = open_client.options("/v1/search", headers=site | wanted)
    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == "http://a.example"
    assert asked.headers["access-control-allow-headers"] == names
    elsewhere = {"Origin": "http://b.example"} | wanted
    refused = open_client.options("/v1/search", headers=elsewhere)
    assert refused.status_code == 400
    assert "access-control-allow-origin" not in refused.headers
    body = {"query": "lake"}
    response = open_client.post("/v1/search", json=body, headers=site | bearer(key))
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == "http://a.example"
    assert "access-control-allow-credentials" not in response.headers
    assert "X-Request-Id" in response.headers["access-control-expose-headers"]
    assert open_client.post("/v1/search", json=body, headers=site).status_code == 401
    other = {"Origin": "http://b.example"} | bearer(key)
    response = open_client.post("/v1/search", json=body, headers=other)
    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers


def test_budgets_hold_for_what_costs(client: TestClient, service: Service) -> None:
    key = bearer(service.keys.add("ann", requests_per_minute=2, tokens_per_day=10))
    for status in (200, 200, 429):
        response = client.post("/v1/search", json={"query": "lake"}, headers=key)
        assert response.status_code == status
    assert response.json()["error"]["code"] == "requests_exhausted"
    assert 1 <= int(response.headers["retry-after"]) <= 60
    assert client.get("/v1/traces", headers=key).status_code == 200
    assert client.post("/v1/sessions/x/typing", json={"text": "a"}, headers=key).status_code == 404
    service.budgets.spend(Caller("ann"), 10)
    for path in (
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/embeddings",
        "/v1/sessions/x/typing",
    ):
        response = client.post(path, json={}, headers=key)
        assert response.status_code == 429
        assert response.json()["error"]["code"] == "tokens_exhausted"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("chat/completions", {"model": "readahead", "messages": ASKED}),
        ("chat/completions", {"model": "tiny", "messages": ASKED}),
        ("completions", {"model": "tiny", "prompt": "The tide"}),
    ],
)
def test_a_budget_that_ran_out_in_the_queue_holds(
    client: TestClient,
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    body: dict[str, object],
) -> None:
    place = service.admission.place

    @asynccontextmanager
    async def busy(caller: str) -> AsyncIterator[None]:
        async with place(caller):
            service.budgets.spend(Caller("ann"), 10)  # by who was answered meanwhile
            yield

    monkeypatch.setattr(service.admission, "place", busy)
    key = bearer(service.keys.add("ann", tokens_per_day=10))
    response = client.post(f"/v1/{path}", json=body, headers=key)
    assert response.status_code == 429
    assert response.json()["error"]["code"] == "tokens_exhausted"
    assert service.budgets.num_tokens("ann") == 10


def test_the_official_client_understands_the_refusals(served: str, service: Service) -> None:
    key = service.keys.add("ann", tokens_per_day=1)
    message: ChatCompletionUserMessageParam = {"role": "user", "content": "How deep is it?"}
    with (
        OpenAI(base_url=f"{served}/v1", api_key="wrong", max_retries=0) as client,
        pytest.raises(AuthenticationError, match="This key is not known"),
    ):
        client.chat.completions.create(model="readahead", messages=[message])
    with OpenAI(base_url=f"{served}/v1", api_key=key, max_retries=0) as client:
        client.chat.completions.create(model="readahead", messages=[message])
        with pytest.raises(RateLimitError, match="1 tokens a day") as caught:
            client.chat.completions.create(model="readahead", messages=[message])
    assert caught.value.code == "tokens_exhausted"
    assert int(caught.value.response.headers["retry-after"]) > 0


def test_once_the_end_has_begun_nothing_new_does(client: TestClient, service: Service) -> None:
    service.draining.has_begun = True
    response = client.post("/v1/search", json={"query": "lake"})
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "draining"
    assert "retry-after" in response.headers
    assert client.get("/ready").status_code == 503
    assert client.get("/health").status_code == 200


@pytest.mark.parametrize(("ends", "num_running"), [(True, 1), (False, 0)])
def test_a_request_runs_from_when_its_body_is_there(
    service: Service, ends: bool, num_running: int
) -> None:
    seen: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        seen.append(service.draining.num_running)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x", "more_body": not ends}

    async def send(message: Message) -> None:
        pass

    headers = [(b"host", b"127.0.0.1")]
    scope = {"type": "http", "path": "/v1/search", "method": "POST", "headers": headers}
    asyncio.run(Guard(app, service)(scope, receive, send))
    assert seen == [num_running]
    assert service.draining.num_running == 0


def test_no_json_is_a_fault(client: TestClient) -> None:
    bodies = [b"", b"\xff", b"null", b"[]", b"1", b'{"a":NaN}', b'{"query":' + b"1" * 5000 + b"}"]
    for depth in DEEP:
        nested = b'{"a":' * depth + b"1" + b"}" * depth
        bodies += [b"[" * depth + b"]" * depth, b'{"model":' + nested + b"}"]
        bodies.append(b'{"query":"x","metadata":' + nested + b"}")
    headers = {"Content-Type": "application/json"}
    paths = {re.sub(r"{[^}]*}", "x", r.path) for r in routes() if "POST" in (r.methods or ())}
    for path, body in itertools.product(sorted(paths), bodies):
        response = client.post(path, content=body, headers=headers)
        assert response.status_code < 500, (path, body[:40])
        assert "error" in response.json() or response.status_code < 300


def test_a_websocket_is_closed(client: TestClient) -> None:
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/v1/chat"):
        pass


def test_the_settings_name_sites_one_by_one() -> None:
    for name, value in {
        "server__cors_origins": ("*",),
        "server__allowed_hosts": ("*.example",),
    }.items():
        with pytest.raises(ConfigError, match=name.replace("__", r"\.")):
            make_config(Path(), **{name: value})
