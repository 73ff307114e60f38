import builtins
import json
import socket
import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from readahead.config import ServerConfig
from readahead.errors import ConfigError
from readahead.lm.model import TransformersModel
from readahead.server.observability.telemetry import is_wanted, open_telemetry
from readahead.server.state import Service
from readahead.trace import Trace
from tests.server.conftest import make_config

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
OFF, ON = ServerConfig(), ServerConfig(telemetry=True)


@pytest.mark.parametrize(
    ("config", "environment", "wanted"),
    [
        (OFF, {}, False),
        (OFF, {ENDPOINT: ""}, False),
        (OFF, {ENDPOINT: "http://localhost:4318"}, True),
        (OFF, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:4318/v1/traces"}, True),
        (OFF, {"OTEL_TRACES_EXPORTER": "console"}, True),
        (ON, {}, True),
        (ON, {"OTEL_TRACES_EXPORTER": "none"}, False),
        (ON, {ENDPOINT: "http://localhost:4318", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_it_is_sent_only_where_somebody_says_so(
    config: ServerConfig, environment: Mapping[str, str], wanted: bool
) -> None:
    assert is_wanted(config, environment) is wanted
    if not wanted:
        assert open_telemetry(config, environment) is None


def test_an_unknown_exporter_is_named() -> None:
    with pytest.raises(ConfigError, match="'zipkin', which is not known"):
        open_telemetry(OFF, {"OTEL_TRACES_EXPORTER": "zipkin"})


def test_a_missing_extra_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: object) -> object:
        if name.startswith("opentelemetry.sdk"):
            raise ImportError(name)
        return real(name, *args)  # type: ignore[arg-type]

    monkeypatch.delitem(sys.modules, "readahead.server.observability.spans", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"pip install 'readahead\[otel\]'"):
        open_telemetry(ON, {})


def test_the_console_gets_a_line_of_json_a_span(capsys: pytest.CaptureFixture[str]) -> None:
    spans = open_telemetry(OFF, {"OTEL_TRACES_EXPORTER": "console"})
    assert spans is not None
    spans.saw(Trace("ask", method="plain", target="tiny"))
    spans.close()
    out, told = capsys.readouterr()
    assert not out
    names = [json.loads(line)["name"] for line in told.splitlines()]
    assert sorted(names) == ["chat tiny", "request"]


class _Collector(BaseHTTPRequestHandler):
    """Takes spans as an OpenTelemetry collector does."""

    got: list[tuple[str, bytes]]

    def do_POST(self) -> None:
        self.got.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_server_sends_to_a_real_collector_and_flushes_at_its_end(
    tmp_path: Path, model: TransformersModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[tuple[str, bytes]] = []
    collector = HTTPServer(("127.0.0.1", 0), type("Collector", (_Collector,), {"got": got}))
    thread = threading.Thread(target=collector.serve_forever)
    thread.start()
    try:
        monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{collector.server_port}")
        service = Service(make_config(tmp_path), model)
        service.tenant().engine.ask("How deep is Lake Baikal?")
        service.close()
    finally:
        collector.shutdown()
        thread.join()
        collector.server_close()
    ((path, body),) = got
    assert path == "/v1/traces"
    assert b"chat tiny" in body and b"gen_ai.usage.input_tokens" in body
    assert b"Baikal" not in body


def test_a_receiver_that_hangs_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, answers nothing
        monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr("readahead.server.observability.spans.CLOSE_S", 0.2)
        spans = open_telemetry(OFF)
        assert spans is not None
        spans.saw(Trace("ask", method="plain", target="tiny"))
        begun_s = time.monotonic()
        spans.close()
        assert 0.2 <= time.monotonic() - begun_s < 2
