"""Who leaves while it waits, over a real port: its request never runs, and its place is free."""

from pathlib import Path

import pytest

from readahead.config import Config
from readahead.server.state import Service
from readahead.trace import Trace
from tests.server.clients import sent, wait_until
from tests.server.conftest import make_config

ASKED = [{"role": "user", "content": "How deep is Lake Baikal?"}]
SHORT = {"max_tokens": 4, "temperature": 0}
CHAT = ("/v1/chat/completions", {"model": "readahead", "messages": ASKED})
BARE_CHAT = ("/v1/chat/completions", {"model": "tiny", "messages": ASKED, **SHORT})
COMPLETION = ("/v1/completions", {"model": "tiny", "prompt": "The tide", **SHORT})
LONG = {**COMPLETION[1], "prompt": [[66] * 2000] * 60, "stream": True}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return make_config(tmp_path, server__max_running=1, server__max_queued=1)


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
