"""Real servers in processes of their own, with the tiny model."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from readahead.server.run import only_server
from tests.cli.conftest import Cli

KEY = "a key that somebody chose"
LONG = {"READAHEAD_GENERATION__MAX_NEW_TOKENS": "600"}
NUM_STREAMS = 8


class Served:
    """A server, and how to talk to it."""

    def __init__(self, process: subprocess.Popen[str], told: dict[str, Any]) -> None:
        self.process = process
        self.told = told
        self.opened: list[http.client.HTTPConnection | http.client.HTTPResponse] = []

    def request(self, method: str, path: str, body: object = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(urlsplit(self.told["url"]).netloc, timeout=60)
        self.opened.append(connection)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        response = connection.getresponse()
        self.opened.append(response)
        return response

    def stream(self) -> http.client.HTTPResponse:
        """Return a stream that has begun to answer."""
        message = {"role": "user", "content": "How often does the tide turn?"}
        body = {"model": "readahead", "messages": [message], "stream": True}
        response = self.request("POST", "/v1/chat/completions", body)
        assert response.status == 200
        assert response.readline().startswith(b"data:")
        return response

    def end(self, *signals: int) -> tuple[int, str, str]:
        for number in signals:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


@contextmanager
def serving(target: Path, *arguments: str, **variables: str) -> Iterator[Served]:
    """Run ``readahead serve`` until the ``with`` body has ended."""
    command = [sys.executable, "-m", "readahead", "serve", "--target", str(target), "--port", "0"]
    with subprocess.Popen(
        [*command, "--json", *arguments],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A job in the background ignores interrupts, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            assert process.stdout
            server = Served(process, json.loads(process.stdout.readline()))
            try:
                yield server
            finally:
                for opened in server.opened:
                    opened.close()
        finally:
            process.kill()


def test_it_serves_until_a_signal_and_cuts_off_what_takes_too_long(kb: Path, target: Path) -> None:
    limits = {"READAHEAD_SERVER__DRAIN_S": "0"}
    with serving(target, READAHEAD_API_KEY=KEY, **limits, **LONG) as server:
        url = server.told["url"]
        assert server.told == {"url": url, "kb": ".readahead", "target": str(target)} | {
            "needs_key": True
        }
        assert server.request("GET", "/health").status == 200
        assert server.request("GET", "/ready").status == 200
        assert (kb / ".serve.lock").read_text() == url
        # They take turns: the last needs longer than the second that it is given, on any machine.
        streams = [server.stream() for _ in range(NUM_STREAMS)]
        status, out, err = server.end(signal.SIGTERM)
        assert any(b'"code": "draining"' in stream.read() for stream in streams)
    assert (status, out) == (0, "")
    assert err.startswith(f"Loading {target} …\n")
    assert "traceback" not in err.lower() and KEY not in err


def test_running_answers_finish_and_new_ones_do_not_begin(kb: Path, target: Path) -> None:
    with serving(target, **LONG) as server:
        stream = server.stream()
        server.process.send_signal(signal.SIGINT)
        deadline_s = time.monotonic() + 10
        while (refused := server.request("GET", "/v1/traces")).status == 200:
            assert time.monotonic() < deadline_s
        assert refused.status == 503
        assert json.loads(refused.read())["error"]["code"] == "draining"
        rest = stream.read()
        assert b'"finish_reason"' in rest and rest.endswith(b"data: [DONE]\n\n")
        status, _, err = server.end()
    assert status == 0
    assert "Running answers finish; a second signal ends them.\n" in err
    assert "Traceback" not in err


def test_a_second_signal_ends_it_at_once(kb: Path, target: Path) -> None:
    with serving(target, **LONG) as server:
        server.stream()
        server.process.send_signal(signal.SIGINT)
        while server.request("GET", "/v1/traces").status == 200:
            pass
        begun_s = time.monotonic()
        status, _, err = server.end(signal.SIGINT)
        assert time.monotonic() - begun_s < 2
    assert status == -signal.SIGINT
    assert "Traceback" not in err


def test_what_cannot_be_served_is_said_in_a_line(cli: Cli, kb: Path, target: Path) -> None:
    model = ("--target", target)
    outcome = cli("serve", *model, "--host", "0.0.0.0")
    assert outcome.status == 2
    assert outcome.error.startswith("Others could reach 0.0.0.0 (0.0.0.0), and there is no API")
    outcome = cli("serve", *model, "--host", "nowhere.invalid", "--json")
    assert outcome.status == 2 and outcome.json["error"]["type"] == "InputError"
    assert "'server.port' is not usable" in cli("serve", *model, "--port", 70_000).error
    with only_server(kb, "http://127.0.0.1:1"):
        outcome = cli("serve", *model, "--port", 0)
    assert outcome.status == 2
    assert outcome.error.startswith("Another server has .readahead already: http://127.0.0.1:1.")


def test_a_key_that_is_too_short_is_not_shown(
    cli: Cli, kb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READAHEAD_API_KEY", "hunter2")
    outcome = cli("serve")
    assert outcome.status == 2
    assert "needs 16 or more characters" in outcome.error and "hunter2" not in outcome.error


def test_a_missing_extra_is_named(kb: Path) -> None:
    code = "import sys; sys.modules['uvicorn'] = None; from readahead.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "serve"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == (
        "error: The package 'uvicorn' is not installed. "
        "Install it with: pip install 'readahead[server]'\n"
    )
