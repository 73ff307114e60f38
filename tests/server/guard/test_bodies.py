import asyncio
import http.client
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from readahead.config import ServerConfig
from readahead.server.guard.bodies import FRAMING_BYTES, Bodies
from readahead.server.problems import Problem

CONFIG = ServerConfig(max_body_bytes=100, max_upload_bytes=1000)
MOST = {"/v1/search": 100, "/v1/documents": 1000 + FRAMING_BYTES}


class App:
    """Counts what it reads, as a route that hands the body on; or hides what goes wrong."""

    def __init__(self) -> None:
        self.num_chunks = 0
        self.hides = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        num_bytes = 0
        try:
            async for chunk in Request(scope, receive).stream():
                num_bytes += len(chunk)
                self.num_chunks += bool(chunk)
        except Exception:
            if not self.hides:
                raise
            await PlainTextResponse("cannot be read", 400)(scope, receive, send)
        await JSONResponse(num_bytes)(scope, receive, send)


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
def client(app: App) -> TestClient:
    return TestClient(Bodies(app, CONFIG))


def chunks(num_bytes: int) -> Iterator[bytes]:
    for start in range(0, num_bytes, 10_000):
        yield b"x" * min(10_000, num_bytes - start)


@pytest.mark.parametrize("path", MOST)
@pytest.mark.parametrize("has_length", [False, True])
def test_a_body_of_the_greatest_length_is_taken_and_no_longer_one(
    client: TestClient, path: str, has_length: bool
) -> None:
    for extra, status in ((0, 200), (1, 413)):
        length = MOST[path] + extra
        content = b"x" * length if has_length else chunks(length)
        response = client.post(path, content=content)
        assert response.status_code == status
        if extra:
            error = response.json()["error"]
            assert (error["code"], error["param"]) == ("too_long", None)
            assert f"{MOST[path]} bytes" in error["message"]
        else:
            assert response.json() == length


def test_an_upload_is_handed_on_as_it_comes(app: App) -> None:
    pending = [{"type": "http.request", "body": b"x" * 50, "more_body": n} for n in (True, False)]
    scope = {"type": "http", "path": "/v1/documents", "method": "POST", "headers": []}
    left_at_start = []

    async def receive() -> Message:
        left_at_start.append(app.num_chunks)
        return pending.pop(0)

    async def send(message: Message) -> None:
        pass

    asyncio.run(Bodies(app, CONFIG)(scope, receive, send))
    assert left_at_start == [0, 1]  # the second was taken once the route had seen the first


def test_no_route_begins_on_half_a_body(app: App) -> None:
    scope = {"type": "http", "path": "/v1/search", "method": "POST", "headers": []}
    messages: list[Message] = [
        {"type": "http.request", "body": b"x", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        raise AssertionError("nobody is there")

    asyncio.run(Bodies(app, CONFIG)(scope, receive, send))
    assert app.num_chunks == 0


def received(path: str, receive: Receive, config: ServerConfig) -> list[Message]:
    """Return what a route answers that reads its whole body."""
    scope = {"type": "http", "path": path, "method": "POST", "headers": []}
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await Request(scope, receive).body()
        except Problem as problem:  # as the application's handler does
            await problem.response(scope, receive, send)

    asyncio.run(Bodies(app, config)(scope, receive, send))
    return sent


@pytest.mark.parametrize("path", MOST)
def test_a_body_that_does_not_go_on_is_cut(path: str) -> None:
    pending: list[Message] = [{"type": "http.request", "body": b"x", "more_body": True}]

    async def receive() -> Message:
        if not pending:
            await asyncio.sleep(10)
        return pending.pop(0)

    sent = received(path, receive, ServerConfig(body_idle_s=0.05))
    assert sent[0]["status"] == 408
    assert b"body_stalled" in sent[1]["body"]


def test_a_body_that_trickles_in_is_cut_off_in_the_end() -> None:
    pieces = iter(range(200))

    async def receive() -> Message:
        await asyncio.sleep(0.02)
        has_more = next(pieces, None) is not None
        return {"type": "http.request", "body": b"x", "more_body": has_more}

    sent = received("/v1/documents", receive, ServerConfig(body_idle_s=10, body_s=0.2))
    assert sent, "all of it was taken"
    assert sent[0]["status"] == 408
    assert b"more than 0.2 s" in sent[1]["body"]


def test_who_has_sent_its_body_may_wait_for_its_answer() -> None:
    scope = {"type": "http", "path": "/v1/search", "method": "POST", "headers": []}
    pending: list[Message] = [{"type": "http.request", "body": b"x", "more_body": False}]

    async def receive() -> Message:
        if not pending:
            await asyncio.sleep(0.2)
            return {"type": "http.disconnect"}
        return pending.pop(0)

    async def send(message: Message) -> None:
        raise AssertionError("nothing is sent")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert (await receive())["type"] == "http.request"
        assert (await receive())["type"] == "http.disconnect"

    asyncio.run(Bodies(app, ServerConfig(body_idle_s=0.05))(scope, receive, send))


def test_a_route_cannot_hide_that_an_upload_is_too_long(client: TestClient, app: App) -> None:
    app.hides = True
    response = client.post("/v1/documents", content=chunks(100_000))
    assert response.status_code == 413


@pytest.mark.parametrize("length", ["-5", "1e9", "٣", "99999999999999999999", ""])
def test_a_length_that_lies_is_not_believed(client: TestClient, length: str) -> None:
    headers = [(b"content-length", length.encode())]
    response = client.post("/v1/search", content=b"x" * 101, headers=headers)
    assert response.status_code == 413


@pytest.mark.parametrize("has_length", [False, True])
def test_who_sends_too_much_is_told_and_cut_off(served: str, has_length: bool) -> None:
    chunk = b"x" * 2**16
    with closing(http.client.HTTPConnection(served.removeprefix("http://"), timeout=30)) as sender:
        sender.putrequest("POST", "/v1/search")
        if has_length:
            sender.putheader("Content-Length", str(2**30))
        else:
            sender.putheader("Transfer-Encoding", "chunked")
        sender.endheaders()
        num_bytes = 0
        with suppress(OSError):
            while num_bytes < 2**30:
                sender.send(chunk if has_length else b"%x\r\n%s\r\n" % (len(chunk), chunk))
                num_bytes += len(chunk)
        assert num_bytes < 2**26
        response = sender.getresponse()
        assert response.status == 413
        assert b"too_long" in response.read()
