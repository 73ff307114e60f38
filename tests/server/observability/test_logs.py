import asyncio
import http.client
import io
import json
import logging
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from readahead.config import Config
from readahead.lm.model import TransformersModel
from readahead.reply import Event
from readahead.server.app import create_app
from readahead.server.observability.logs import (
    JsonFormatter,
    RequestLog,
    _request_id,
    written,
)
from readahead.server.observability.serving import served as request_served
from readahead.server.routes import chat
from readahead.server.state import Caller, Service
from tests.server.clients import sent
from tests.server.conftest import make_config

DOCS = Path(__file__).parents[3] / "docs"
QUESTION = "How deep is Lake Baikal?"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def config(tmp_path: Path, request: pytest.FixtureRequest) -> Config:
    return make_config(tmp_path, server__max_running=getattr(request, "param", 8))


class Log:
    """What was logged, line by line."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    def lines(self, message: str = "") -> list[dict[str, object]]:
        parsed = [json.loads(line) for line in self.text.splitlines()]
        return [line for line in parsed if not message or line["message"] == message]


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log()
    with written(log.stream):
        yield log


def test_one_line_a_request_with_the_template_of_its_route(client: TestClient, log: Log) -> None:
    response = client.get("/v1/traces/secret-id-of-somebody")
    assert response.status_code == 404
    (line,) = log.lines("request")
    assert datetime.fromisoformat(str(line["time"])).utcoffset() is not None
    assert line["level"] == "info"
    assert line["method"] == "GET"
    assert line["route"] == "/v1/traces/{id}"
    assert line["status"] == 404
    assert line["key"] == line["tenant"] == ""
    seconds = line["seconds"]
    assert isinstance(seconds, float) and 0 < seconds < 60
    assert line["request_id"] == response.headers["X-Request-Id"]
    assert "secret-id" not in log.text


def test_a_path_without_a_route_is_not_told(client: TestClient, log: Log) -> None:
    client.get("/Baikal?q=Baikal")
    assert log.lines("request")[0]["route"] == ""
    assert "Baikal" not in log.text


def test_probes_are_quiet_as_long_as_all_is_well(client: TestClient, log: Log) -> None:
    for path in ("/health", "/metrics", "/ready"):
        assert client.get(path).status_code == 200
    assert log.lines() == []
    client.post("/health")
    assert log.lines("request")[0]["status"] == 405


def test_a_chat_is_logged_without_its_text_but_with_its_tokens(
    client: TestClient, log: Log
) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    body = {"model": "readahead", "messages": messages, "readahead": {"method": "plain"}}
    response = client.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    (line,) = log.lines("request")
    assert line["tokens"] == response.json()["usage"]["total_tokens"] > 0
    assert line["trace_id"] == response.json()["readahead"]["trace_id"]
    assert "Baikal" not in log.text
    assert log.lines("answer") == []


def test_the_documentation_shows_a_line_as_it_is(client: TestClient, log: Log) -> None:
    client.get("/v1/traces")
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    shown = json.loads(page.split("```json\n")[1].split("\n```")[0])
    assert list(shown) == list(log.lines("request")[0])


def test_text_is_logged_where_the_settings_ask_for_it(
    tmp_path: Path, model: TransformersModel, log: Log
) -> None:
    (tmp_path / "lake.md").write_text("Lake Baikal is 1,642 metres deep.", encoding="utf-8")
    service = Service(make_config(tmp_path, server__log_text=True), model)
    service.tenant().engine.knowledge.add([tmp_path / "lake.md"])
    answer = service.tenant().engine.ask(QUESTION)
    service.close()
    (line,) = log.lines("answer")
    assert (line["question"], line["answer"]) == (QUESTION, answer.text)
    assert line["trace_id"] == answer.trace_id


def test_the_bare_target_leaves_no_trace_and_no_text_to_name(
    tmp_path: Path, model: TransformersModel, log: Log
) -> None:
    service = Service(make_config(tmp_path, server__log_text=True), model)
    with TestClient(create_app(service), base_url="http://127.0.0.1") as client:
        chat = {"model": model.name, "messages": [{"role": "user", "content": QUESTION}]}
        texts = {"model": model.name, "prompt": QUESTION}
        for path, body in (("chat/completions", chat), ("completions", texts)):
            response = client.post(f"/v1/{path}", json=body | {"max_tokens": 3})
            assert response.status_code == 200, response.text
    service.close()
    assert log.lines("answer") == []
    for line in log.lines("request"):
        assert isinstance(line["tokens"], int) and line["tokens"] > 3
        assert line["trace_id"] == ""


@pytest.mark.parametrize(
    ("given_id", "is_taken"),
    [("abc-1.2_X", True), ("x" * 64, True), ("x" * 65, False), ("a b", False), ("é", False)],
)
def test_a_harmless_id_is_taken(client: TestClient, given_id: str, is_taken: bool) -> None:
    response = client.get("/health", headers={b"X-Request-Id": given_id.encode()})
    assert (response.headers["X-Request-Id"] == given_id) is is_taken


@given(st.text())
def test_no_id_breaks_a_line_or_a_header(given_id: str) -> None:
    raw = given_id.encode("utf-8", "surrogatepass")
    one = _request_id(Headers(raw=[(b"x-request-id", raw)]))
    assert one.isascii() and one.isprintable() and 0 < len(one) <= 64


def scope(path: str = "/v1/x") -> Scope:
    return {"type": "http", "method": "GET", "path": path, "headers": [], "state": {}}


async def nothing() -> Message:
    return {"type": "http.disconnect"}


def serve(app: RequestLog) -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(app(scope(), nothing, send))
    return sent


def test_a_fault_is_answered_without_and_logged_with_its_traceback(
    service: Service, log: Log
) -> None:
    app = create_app(service)

    @app.get("/v1/fault")
    def fail() -> None:
        try:
            int(QUESTION)
        except ValueError as error:
            raise KeyError(QUESTION) from error

    with TestClient(app, base_url="http://127.0.0.1") as client:
        response = client.get("/v1/fault")
    assert response.status_code == 500
    assert "test_logs" not in response.text and "Baikal" not in response.text
    (fault,) = log.lines("fault")
    assert fault["request_id"] == response.headers["X-Request-Id"]
    told = str(fault["traceback"])
    assert "in fail" in told and "ValueError" in told and "KeyError" in told
    assert "Baikal" not in log.text
    (line,) = log.lines("request")
    assert (line["status"], line["level"]) == (500, "info")


def test_a_fault_behind_the_beginning_of_a_response_cuts_the_connection(log: Log) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError

    failures: list[int] = []
    with pytest.raises(ValueError):
        serve(RequestLog(app, failures.append))
    assert failures == [500]
    assert log.lines("request")[0]["status"] == 500


def test_who_is_cut_off_at_the_end_is_told_so(log: Log) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise asyncio.CancelledError

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(RequestLog(app, lambda status: None)(scope(), nothing, send))
    assert sent[0]["status"] == 503
    assert json.loads(sent[1]["body"])["error"]["code"] == "draining"
    assert log.lines("request")[0]["status"] == 503


def test_who_asks_is_told_by_name(log: Log) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["caller"] = Caller("laptop", "acme")
        logging.getLogger("readahead.server").info("within")
        await send({"type": "http.response.start", "status": 204, "headers": []})

    (message,) = serve(RequestLog(app, lambda status: None))
    within, request = log.lines()
    assert (request["key"], request["tenant"]) == ("laptop", "acme")
    assert within["request_id"] == request["request_id"]
    assert dict(message["headers"])[b"x-request-id"].decode() == request["request_id"]


def test_a_client_that_leaves_is_no_fault(log: Log) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        return  # without a response

    failures: list[int] = []
    serve(RequestLog(app, failures.append))
    assert failures == [499]
    assert [line["level"] for line in log.lines()] == ["info"]


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_client_that_leaves_its_answer_is_told_from_one_that_reads_it(
    served: str, service: Service, log: Log, is_stream: bool
) -> None:
    body = {"model": "tiny", "prompt": [[66] * 2000] * 60, "stream": is_stream}
    with closing(http.client.HTTPConnection(urlsplit(served).netloc, timeout=30)) as client:
        client.request("POST", "/v1/completions", json.dumps(body), JSON)
        if is_stream:
            assert client.getresponse().status == 200
        until(lambda: service.admission.num_running == 1)
    until(lambda: bool(log.lines("request")))
    (line,) = log.lines("request")
    assert (line["status"], line["level"]) == (499, "info")
    assert log.lines("fault") == []
    with closing(http.client.HTTPConnection(urlsplit(served).netloc, timeout=30)) as client:
        client.request("POST", "/v1/completions", json.dumps(body | {"prompt": "The"}), JSON)
        assert client.getresponse().read()
    until(lambda: len(log.lines("request")) == 2)
    assert log.lines("request")[1]["status"] == 200


@pytest.mark.parametrize("config", [1], indirect=True)
def test_the_time_in_the_queue_is_told_of_those_who_got_a_place_and_of_those_who_left(
    served: str, service: Service, log: Log
) -> None:
    body = {"model": "readahead", "messages": [{"role": "user", "content": QUESTION}]}
    long = {"model": "tiny", "prompt": [[66] * 2000] * 60}
    with sent(served, "/v1/completions", long) as running:
        until(lambda: service.admission.num_running == 1)
        with sent(served, "/v1/chat/completions", body):
            until(lambda: service.admission.num_queued == 1)
            time.sleep(0.1)
        until(lambda: service.admission.num_queued == 0)
        with sent(served, "/v1/chat/completions", body) as waiting:
            until(lambda: service.admission.num_queued == 1)
            time.sleep(0.1)
            running.close()
            assert waiting.recv(10)
    until(lambda: len(log.lines("request")) == 3)
    seconds = {line["status"]: line["queue_s"] for line in log.lines("request")[:1]}
    answered = next(line for line in log.lines("request") if line["status"] == 200)
    trace = service.tenant().engine.knowledge.store.trace(str(answered["trace_id"]))
    attributes = trace["attributes"]
    assert isinstance(attributes, dict)
    assert answered["queue_s"] == pytest.approx(attributes["queue_s"], abs=1e-3)
    for queue_s in (seconds[499], answered["queue_s"]):
        assert isinstance(queue_s, float) and 0.1 < queue_s < 30


def until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def test_requests_at_the_same_time_keep_their_ids() -> None:
    seen: list[bool] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0)
        one = request_served()
        seen.append(one is not None and one.id == scope["state"]["request_id"])

    async def send(message: Message) -> None:
        pass

    async def many() -> None:
        served_app = RequestLog(app, lambda status: None)
        await asyncio.gather(*(served_app(scope(), nothing, send) for _ in range(8)))

    asyncio.run(many())
    assert seen == [True] * 8
    assert request_served() is None


def test_a_stream_that_breaks_off_is_a_failure(
    service: Service, client: TestClient, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*asked: object) -> Generator[Event]:
        yield "Lake"
        raise RuntimeError(QUESTION)

    monkeypatch.setattr(chat, "answer_events", broken)
    messages = [{"role": "user", "content": QUESTION}]
    response = client.post(
        "/v1/chat/completions",
        json={"model": "readahead", "messages": messages, "stream": True},
    )
    assert response.status_code == 200
    assert '"error"' in response.text.split("\n\n")[-2]
    assert log.lines("request")[0]["status"] == 500
    assert 'request_failure_total{status="500"} 1.0' in client.get("/metrics").text
    assert "Baikal" not in log.text


@given(st.text(), st.text())
def test_whatever_is_logged_is_one_line_of_json(message: str, field: str) -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "%s", (message,), None)
    record.fields = {"field": field, "other": object()}
    line = JsonFormatter().format(record)
    assert len(line.splitlines()) == 1 and line.isascii()
    assert json.loads(line)["message"] == message


def test_what_errors_say_is_told_where_text_may_be() -> None:
    try:
        int(QUESTION)
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "fault", None, sys.exc_info())
    assert QUESTION in JsonFormatter(with_text=True).format(record)
    assert "Baikal" not in JsonFormatter().format(record)


def test_uvicorns_own_access_log_is_silent(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("uvicorn"), "propagate", True)  # as `serve` leaves it
    logging.getLogger("uvicorn.access").info("GET /Baikal")
    logging.getLogger("uvicorn.error").error("odd")
    assert [line["message"] for line in log.lines()] == ["odd"]


def test_loggers_are_as_before_afterwards() -> None:
    root, own = logging.getLogger(), logging.getLogger("readahead.server")
    before = root.handlers, own.level
    with written(io.StringIO()):
        assert root.handlers != before[0]
    assert (root.handlers, own.level) == before
    assert not logging.getLogger("uvicorn.access").disabled


def test_the_app_has_the_log_outside_of_its_guard(service: Service, config: Config) -> None:
    app = create_app(service)
    assert isinstance(app, FastAPI)
    with TestClient(app, base_url="http://elsewhere.example") as client:
        response = client.get("/v1/models")
    assert response.status_code == 403
    assert response.headers["X-Request-Id"]
