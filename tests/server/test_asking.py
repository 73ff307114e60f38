"""Who waits is kept company, and who leaves meanwhile never runs; over a real port."""

import socket
from pathlib import Path

import pytest

from readahead.config import Config
from readahead.server.state import Service
from readahead.server.stream import BEAT, DONE
from readahead.trace import Trace
from tests.server.clients import sent, wait_until
from tests.server.conftest import make_config

ASKED = [{"role": "user", "content": "How deep is Lake Baikal?"}]
SHORT = {"max_tokens": 4, "temperature": 0}
CHAT = ("/v1/chat/completions", {"model": "readahead", "messages": ASKED})
BARE_CHAT = ("/v1/chat/completions", {"model": "tiny", "messages": ASKED, **SHORT})
COMPLETION = ("/v1/completions", {"model": "tiny", "prompt": "The tide", **SHORT})
TOO_LONG = {"model": "tiny", "prompt": [66] * 100_000, "stream": True}
LONG = {**COMPLETION[1], "prompt": [[66] * 2000] * 60, "stream": True}


@pytest.fixture(params=[15.0])
def config(tmp_path: Path, request: pytest.FixtureRequest) -> Config:
    flags = {"server__max_running": 1, "server__max_queued": 1}
    return make_config(tmp_path, server__heartbeat_s=request.param, **flags)


@pytest.mark.parametrize(
    ("config", "is_stream"), [(15, False), (15, True), (0.02, True)], indirect=["config"]
)
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


def read_until(connection: socket.socket, ending: bytes) -> bytes:
    """Return what comes, up to ``ending``."""
    read = b""
    while not read.endswith(ending):
        piece = connection.recv(1)
        assert piece, f"it ended: {read!r}"
        read += piece
    return read


@pytest.mark.parametrize("config", [0.05], indirect=True)
@pytest.mark.parametrize(("path", "body"), [CHAT, BARE_CHAT, COMPLETION])
def test_who_waits_for_a_stream_hears_that_it_goes_on(
    served: str, service: Service, path: str, body: dict[str, object]
) -> None:
    with sent(served, COMPLETION[0], LONG) as running:
        wait_until(lambda: service.admission.num_running == 1)
        with sent(served, path, {**body, "stream": True}) as waiting:
            head = read_until(waiting, BEAT)
            assert head.startswith(b"HTTP/1.1 200") and b"data: {" not in head
            read_until(waiting, BEAT)
            assert service.admission.num_queued == 1
            running.close()
            assert b"data: {" in read_until(waiting, DONE)


@pytest.mark.parametrize("config", [0.05], indirect=True)
def test_what_is_found_wrong_behind_the_queue_is_the_last_event(
    served: str, service: Service
) -> None:
    with sent(served, COMPLETION[0], LONG) as running:
        wait_until(lambda: service.admission.num_running == 1)
        with sent(served, COMPLETION[0], TOO_LONG) as waiting:
            read_until(waiting, BEAT)
            running.close()
            assert b'"type": "invalid_request_error"' in read_until(waiting, b"}}\n\n")


def test_what_is_found_wrong_at_once_is_the_status(served: str) -> None:
    with sent(served, COMPLETION[0], TOO_LONG) as asking:
        assert asking.recv(100).startswith(b"HTTP/1.1 400")
