"""Who leaves while it waits, over a real port: its request never runs, and its place is free."""

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from readahead.config import Config
from readahead.server.state import Service
from readahead.trace import Trace
from tests.server.conftest import make_config

ASKED = [{"role": "user", "content": "How deep is Lake Baikal?"}]
SHORT = {"max_tokens": 4, "temperature": 0}
CHAT = ("chat/completions", {"model": "readahead", "messages": ASKED})
BARE_CHAT = ("chat/completions", {"model": "tiny", "messages": ASKED, **SHORT})
COMPLETION = ("completions", {"model": "tiny", "prompt": "The tide", **SHORT})
LONG = {**COMPLETION[1], "prompt": [[66] * 2000] * 60, "stream": True}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return make_config(tmp_path, server__max_running=1, server__max_queued=1)


def sent(url: str, path: str, body: dict[str, object]) -> socket.socket:
    """Return the connection to which a request was sent; to close it is to leave."""
    address, content = urlsplit(url), json.dumps(body)
    connection = socket.create_connection((address.hostname or "", address.port or 0), 20)
    connection.sendall(
        f"POST /v1/{path} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n{content}".encode()
    )
    return connection


def wait_until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < end_s, "it never happened"
        time.sleep(0.002)


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(("path", "body"), [CHAT, BARE_CHAT, COMPLETION])
def test_who_leaves_the_queue_never_runs_and_frees_its_place(
    served: str,
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    body: dict[str, object],
    is_stream: bool,
) -> None:
    ran: list[Trace] = []
    monkeypatch.setattr(service.metrics, "saw", ran.append)
    admission, asked = service.admission, {**body, "stream": is_stream}
    with sent(served, COMPLETION[0], LONG) as running:
        wait_until(lambda: admission.num_running == 1)
        with sent(served, path, asked):
            wait_until(lambda: admission.num_queued == 1)
        wait_until(lambda: admission.num_queued == 0)
        with sent(served, path, asked) as last:  # 429, if the place were taken still
            wait_until(lambda: admission.num_queued == 1)
            assert (admission.num_running, ran) == (1, [])
            running.close()
            assert last.recv(100).startswith(b"HTTP/1.1 200")
            wait_until(lambda: admission.num_running == 0)
    assert [trace.counters["prompt_tokens"] == 60 * 2000 for trace in ran] == [True, False]
    assert admission.num_queued == 0
