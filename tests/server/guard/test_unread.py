import asyncio
import json
import time
from pathlib import Path

import pytest
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from readahead.config import Config
from readahead.server.guard import unread
from readahead.server.guard.unread import DROP_BYTES, Unread
from readahead.server.state import Service
from tests.server.clients import connected, head
from tests.server.conftest import make_config

MOST = 100_000
UPLOAD = "multipart/form-data; boundary=b0und"
PART = b'--b0und\r\nContent-Disposition: form-data; name="files"; filename="a.%s"\r\n\r\n'
LEFT = 700_000  # of a body, once the answer is there: more than all buffers on the way hold


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return make_config(tmp_path, server__max_body_bytes=MOST, server__max_upload_bytes=MOST)


@pytest.mark.parametrize(
    ("path", "kind", "begin", "is_chunked", "status"),
    [
        ("/v1/search", "application/json", b"", False, 413),
        ("/v1/search", "application/json", b"x" * (MOST + 1), True, 413),
        ("/v1/documents", UPLOAD, PART % b"md" + b"x" * (MOST + 1), True, 413),
        ("/v1/documents", UPLOAD, PART % b"exe", True, 415),
        ("/v1/documents", "text/plain", b"", True, 415),
        ("/v1/traces", "application/json", b"", False, 401),
    ],
)
def test_who_still_sends_sees_the_answer(
    served: str,
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    kind: str,
    begin: bytes,
    is_chunked: bool,
    status: int,
) -> None:
    monkeypatch.setattr(unread, "DROP_S", 30.0)
    if status == 401:
        service.keys.add("ann")
    length = {"Content_Length": len(begin) + LEFT}
    framing: dict[str, object] = {"Transfer_Encoding": "chunked"} if is_chunked else {**length}
    with connected(served) as connection:
        connection.sendall(head(served, path, Content_Type=kind, **framing))
        connection.sendall(framed(begin, is_chunked))
        time.sleep(0.2)  # by now it is answered, and would be closed
        for _ in range(10):
            connection.sendall(framed(b"x" * (LEFT // 10), is_chunked))
        connection.sendall(b"0\r\n\r\n" if is_chunked else b"")
        answer = b""
        while received := connection.recv(2**16):
            answer += received
    first, _, body = answer.partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nconnection: close\r\n" in (first + b"\r\n").lower()
    assert json.loads(body)["error"]["code"]


def framed(content: bytes, is_chunked: bool) -> bytes:
    """Return a piece of a body as it is sent."""
    if not is_chunked or not content:
        return content
    return b"%x\r\n%s\r\n" % (len(content), content)


def test_who_asks_before_it_sends_sends_nothing(served: str) -> None:
    with connected(served) as connection:
        expecting = {"Content_Length": MOST + 1, "Expect": "100-continue"}
        connection.sendall(head(served, "/v1/search", **expecting))
        assert connection.recv(2**16).startswith(b"HTTP/1.1 413 ")


class Sender:
    """Sends the same piece, without end or a number of times; counts what was taken."""

    def __init__(self, piece: bytes, num_pieces: int | None = None, pause_s: float = 0.0) -> None:
        self._piece = piece
        self._left = num_pieces
        self._pause_s = pause_s
        self.num_bytes = 0
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        await asyncio.sleep(self._pause_s)
        self.num_bytes += len(self._piece)
        if self._left is not None:
            self._left -= 1
        return {"type": "http.request", "body": self._piece, "more_body": self._left != 0}

    async def send(self, message: Message) -> None:
        self.sent.append(message)


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    await JSONResponse("no", 401)(scope, receive, send)


def ask(sender: Sender, **headers: str) -> None:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "path": "/", "method": "POST", "headers": raw}
    asyncio.run(Unread(refuse)(scope, sender.receive, sender.send))


def test_nobody_is_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = Sender(b"x" * 2**16)
    ask(fast, transfer_encoding="chunked")
    assert fast.num_bytes == DROP_BYTES
    monkeypatch.setattr(unread, "DROP_S", 0.05)
    silent = Sender(b"x", pause_s=60.0)
    ask(silent, content_length="10")
    assert silent.num_bytes == 0
    slow = Sender(b"x", pause_s=0.01)
    ask(slow, content_length="1000000")
    assert slow.num_bytes < 100
    for sender in (fast, silent, slow):
        assert (b"connection", b"close") in sender.sent[0]["headers"]
        # All of the answer is there before the first byte is dropped.
        assert (sender.sent[1]["body"], sender.sent[1]["more_body"]) == (b'"no"', True)
        assert sender.sent[2] == {"type": "http.response.body"}


def test_a_connection_whose_body_has_come_stays_open() -> None:
    for headers in ({}, {"content_length": "0"}):
        sender = Sender(b"x")
        ask(sender, **headers)
        assert sender.num_bytes == 0
        assert b"connection" not in dict(sender.sent[0]["headers"])
    sender = Sender(b"x", num_pieces=3)

    async def read_first(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            pass
        await refuse(scope, receive, send)

    scope = {"type": "http", "headers": [(b"content-length", b"3")]}
    asyncio.run(Unread(read_first)(scope, sender.receive, sender.send))
    assert sender.num_bytes == 3
    assert b"connection" not in dict(sender.sent[0]["headers"])
