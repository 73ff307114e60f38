from collections.abc import Iterator

import pytest
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from readahead.server.guard.headers import SECURE, Headers


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer, fail, or fail half-way."""
    if scope["path"] == "/fails":
        raise ZeroDivisionError("secret")
    if scope["path"] == "/half":

        def half() -> Iterator[str]:
            yield "half"
            raise ZeroDivisionError("secret")

        await StreamingResponse(half())(scope, receive, send)
    kept = {"Cache-Control": "max-age=60", "Content-Security-Policy": "default-src *"}
    await PlainTextResponse("hello", headers=kept)(scope, receive, send)


@pytest.fixture
def client() -> TestClient:
    return TestClient(Headers(app))


@pytest.mark.parametrize("path", ["/", "/v1/models", "/static/app.js", "/fails"])
def test_every_response_has_them(client: TestClient, path: str) -> None:
    response = client.get(path)
    for name, value in SECURE.items():
        assert response.headers.get_list(name) == [value]
    kept = "max-age=60" if path.startswith("/static/") else "no-store"
    assert response.headers.get_list("cache-control") == [kept]


def test_the_policy_allows_nothing_from_elsewhere() -> None:
    policy = SECURE["Content-Security-Policy"]
    allowed = {word for rule in policy.split(";") for word in rule.split()[1:]}
    assert allowed == {"'none'", "'self'", "data:"}
    assert policy.startswith("default-src 'none'") and "script-src 'self';" in policy


def test_a_fault_is_told_without_what_it_was(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    response = client.get("/fails")
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "fault"
    assert "secret" not in response.text
    assert "ZeroDivisionError: secret" in caplog.text


def test_a_fault_half_way_cuts_the_response(client: TestClient) -> None:
    with pytest.raises(ZeroDivisionError):
        client.get("/half")
