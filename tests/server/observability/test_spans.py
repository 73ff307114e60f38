import inspect
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from starlette.testclient import TestClient

from readahead.config import Config
from readahead.errors import BackendError
from readahead.lm.model import TransformersModel
from readahead.server.observability import attributes as told_of
from readahead.server.observability import genai, spans
from readahead.server.observability.attributes import PREFIX
from readahead.server.observability.spans import AHEAD, QUEUE, REQUEST, Spans
from readahead.server.state import Service
from readahead.session import Session
from readahead.trace import Span, Trace
from tests.retrieval.support import HashingEmbedder
from tests.server.clients import sent as sending
from tests.server.clients import wait_until
from tests.server.conftest import make_config

QUESTION = "How deep is Lake Baikal?"
ASKED = [{"role": "user", "content": QUESTION}]
CLIENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def config(tmp_path: Path, request: pytest.FixtureRequest) -> Config:
    return make_config(tmp_path, **getattr(request, "param", {}))


class Sent:
    """What was sent, and where it stands."""

    def __init__(self, *, with_text: bool = False) -> None:
        self._exporter = InMemorySpanExporter()
        self.spans = Spans(SimpleSpanProcessor(self._exporter), with_text=with_text)

    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span

    def parent(self, span: ReadableSpan) -> ReadableSpan | None:
        found = [
            one
            for one in self.all()
            if span.parent and one.context and one.context.span_id == span.parent.span_id
        ]
        return found[0] if found else None


@pytest.fixture
def sent() -> Iterator[Sent]:
    sent = Sent()
    yield sent
    sent.spans.close()


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def asked(service: Service, sent: Sent, question: str = QUESTION, method: str = "plain") -> Trace:
    traces: list[Trace] = []
    engine = service.tenant().engine
    engine.knowledge.on_trace = traces.append
    engine.ask(question, method=method)
    sent.spans.saw(traces[0])
    return traces[0]


def test_a_plain_answer_is_a_tree_of_spans_with_the_times_of_its_trace(
    service: Service, sent: Sent
) -> None:
    trace = asked(service, sent)
    root, chat = sent.one(REQUEST), sent.one("chat tiny")
    assert root.kind is SpanKind.SERVER and root.parent is None
    assert sent.parent(chat) is root
    for name in (genai.RETRIEVAL, "prompt", "prefill", "decode", "cite"):
        assert sent.parent(sent.one(name)) is chat
    assert len({span.context.trace_id for span in sent.all() if span.context}) == 1
    prefill = next(span for span in trace.spans if span.name == "prefill")
    told = sent.one("prefill")
    assert told.start_time and told.end_time
    assert told.start_time == pytest.approx((trace.started_at + prefill.start_s) * 1e9, abs=1e4)
    assert told.end_time - told.start_time == pytest.approx(prefill.duration_s * 1e9, abs=1e4)


def test_the_models_part_has_the_conventions_names(service: Service, sent: Sent) -> None:
    trace = asked(service, sent)
    assert attributes(sent.one("chat tiny")) == {
        genai.OPERATION_NAME: "chat",
        genai.PROVIDER_NAME: "readahead",
        genai.REQUEST_MODEL: "tiny",
        genai.RESPONSE_FINISH_REASONS: ("length",),
        genai.USAGE_INPUT_TOKENS: trace.counters["prompt_tokens"],
        genai.USAGE_OUTPUT_TOKENS: trace.counters["completion_tokens"],
        genai.USAGE_CACHE_READ_INPUT_TOKENS: 0,
    }
    retrieval = attributes(sent.one(genai.RETRIEVAL))
    assert retrieval[genai.OPERATION_NAME] == "retrieval"
    assert attributes(sent.one("decode"))[PREFIX + "count"] == 11
    assert attributes(sent.one(REQUEST))[PREFIX + "method"] == "plain"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("chat/completions", {"model": "readahead", "messages": ASKED, "max_tokens": 5}),
        ("chat/completions", {"model": "tiny", "messages": ASKED, "max_completion_tokens": 5}),
        ("completions", {"model": "tiny", "prompt": QUESTION, "max_tokens": 5}),
    ],
)
def test_what_the_client_asked_for_and_got_is_told(
    service: Service,
    client: TestClient,
    sent: Sent,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    body: dict[str, object],
) -> None:
    monkeypatch.setattr(service, "_spans", sent.spans)
    sampling = {
        "temperature": 0,
        "top_p": 0.5,
        "seed": 7,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.2,
        "n": 2,
    }
    answer = client.post(f"/v1/{path}", json={**body, **sampling}).json()
    operation = "text_completion tiny" if path == "completions" else "chat tiny"
    told = attributes(sent.named(operation)[0])
    expected = {
        genai.REQUEST_TEMPERATURE: 0.0,
        genai.REQUEST_TOP_P: 0.5,
        genai.REQUEST_SEED: 7,
        genai.REQUEST_FREQUENCY_PENALTY: 0.1,
        genai.REQUEST_PRESENCE_PENALTY: 0.2,
        genai.REQUEST_MAX_TOKENS: 5,
        genai.REQUEST_CHOICE_COUNT: 2,
        genai.RESPONSE_ID: answer["id"],
    }
    assert {name: told[name] for name in expected} == expected
    assert not {genai.REQUEST_STREAM, genai.RESPONSE_TIME_TO_FIRST_CHUNK} & told.keys()
    text = client.post(f"/v1/{path}", json={**body, "n": 1, "temperature": 0, "stream": True}).text
    told = attributes(sent.named(operation)[-1])
    first = json.loads(text.split("\n\n")[0].removeprefix("data: "))
    assert told[genai.RESPONSE_ID] == first["id"]
    assert told[genai.REQUEST_STREAM] is True
    first_s = told[genai.RESPONSE_TIME_TO_FIRST_CHUNK]
    assert isinstance(first_s, float) and first_s > 0
    assert not {genai.REQUEST_SEED, genai.REQUEST_CHOICE_COUNT} & told.keys()


def test_top_k_is_told_where_a_request_sets_it(
    service: Service, client: TestClient, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_spans", sent.spans)
    extension = {"method": "plain", "settings": {"generation.top_k": 3}}
    body = {"model": "readahead", "messages": ASKED, "readahead": extension}
    assert client.post("/v1/chat/completions", json=body).status_code == 200
    assert attributes(sent.one("chat tiny"))[genai.REQUEST_TOP_K] == 3


@pytest.mark.parametrize("config", [{"server__max_running": 1}], indirect=True)
def test_the_wait_in_the_queue_is_a_span_of_the_request(
    served: str, service: Service, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = {"model": "tiny", "prompt": [[66] * 2000] * 60}
    body = {"model": "readahead", "messages": ASKED, "stream": True}
    with sending(served, "/v1/completions", long) as running:
        wait_until(lambda: service.admission.num_running == 1)
        with sending(served, "/v1/chat/completions", body):
            wait_until(lambda: service.admission.num_queued == 1)
            time.sleep(0.1)
            monkeypatch.setattr(service, "_spans", sent.spans)
            running.close()
            wait_until(lambda: bool(sent.named("chat tiny")))
    wait_until(lambda: len(sent.named(REQUEST)) == 2)  # also of the one that was cancelled
    chat, queue = sent.one("chat tiny"), sent.named(QUEUE)[-1]
    root = sent.parent(chat)
    assert root is sent.parent(queue) and root is not None
    assert root.start_time and queue.start_time and queue.end_time and chat.start_time
    assert root.start_time == queue.start_time < queue.end_time < chat.start_time
    queue_s = attributes(root)[PREFIX + "queue_s"]
    assert isinstance(queue_s, float) and queue_s > 0.1
    assert queue.end_time - queue.start_time == pytest.approx(queue_s * 1e9, rel=1e-3)
    first_s = attributes(chat)[genai.RESPONSE_TIME_TO_FIRST_CHUNK]
    assert first_s == attributes(root)[PREFIX + "ttft_s"]
    assert isinstance(first_s, float) and first_s > queue_s


@pytest.mark.parametrize("config", [{"retrieval__mode": "hybrid"}], indirect=True)
@pytest.mark.parametrize("method", ["plain", "drafts", "rapid"])
def test_a_retrieval_is_one_span_whatever_it_takes(
    config: Config, model: TransformersModel, sent: Sent, method: str
) -> None:
    service = Service(config, model)
    service.loaded.embedder = HashingEmbedder()
    knowledge = service.tenant().engine.knowledge
    knowledge.add(["-"], stdin=b"Lake Baikal is deep.", stdin_name="deep.txt")
    trace = asked(service, sent, method=method)
    service.close()
    retrievals = [
        span for span in sent.all() if attributes(span).get(genai.OPERATION_NAME) == "retrieval"
    ]
    assert len(retrievals) == trace.counters["retrievals"]
    assert {span.name for span in retrievals} == {genai.RETRIEVAL}
    first = min(retrievals, key=lambda span: span.start_time or 0)
    parts = [sent.one("encode"), sent.one("search")]
    assert [sent.parent(part) for part in parts] == [first, first]
    assert parts[0].start_time == first.start_time and parts[1].end_time == first.end_time


def test_every_attribute_is_the_conventions_or_our_own(service: Service, sent: Sent) -> None:
    known = {value for name, value in vars(genai).items() if name.isupper()}
    for method in ("plain", "drafts", "rapid"):
        asked(service, sent, method=method)
    for span in sent.all():
        for name in attributes(span):
            assert name in known or name.startswith(PREFIX)


def test_what_was_read_ahead_stands_in_front_of_the_answer(service: Service, sent: Sent) -> None:
    engine = service.tenant().engine
    engine.knowledge.on_trace = sent.spans.saw
    with Session(engine) as session:
        session.type(QUESTION)
        while not session.status.num_answer_tokens:
            pass
        list(session.submit(QUESTION))
    ahead, chat = sent.one(AHEAD), sent.one("chat tiny")
    assert ahead.end_time == chat.start_time
    assert {sent.parent(span) for span in sent.named("guess")} == {ahead}
    assert sent.parent(sent.one("cite")) is chat
    assert attributes(sent.one(REQUEST))[PREFIX + "guess"] == "kept"
    assert "Baikal" not in "".join(span.to_json() for span in sent.all())


def test_where_nothing_was_read_ahead_no_span_says_so(service: Service, sent: Sent) -> None:
    engine = service.tenant().engine
    engine.knowledge.on_trace = sent.spans.saw
    with Session(engine) as session:
        list(session.submit(QUESTION))
    assert sent.named("prefill") and not sent.named(AHEAD)


@pytest.mark.parametrize("method", ["plain", "drafts", "rapid"])
def test_no_text_is_sent(service: Service, sent: Sent, method: str) -> None:
    trace = asked(service, sent, method=method)
    sent_json = "".join(span.to_json() for span in sent.all())
    assert "Baikal" not in sent_json
    assert str(trace.attributes["answer"])[:5] not in sent_json


def test_text_is_sent_where_the_settings_ask_for_it(service: Service) -> None:
    sent = Sent(with_text=True)
    trace = asked(service, sent)
    told = attributes(sent.one("chat tiny"))
    (message,) = json.loads(str(told[genai.INPUT_MESSAGES]))
    assert message == {"role": "user", "parts": [{"type": "text", "content": QUESTION}]}
    (message,) = json.loads(str(told[genai.OUTPUT_MESSAGES]))
    assert message["parts"][0]["content"] == trace.attributes["answer"]
    query = attributes(sent.one(genai.RETRIEVAL))[genai.RETRIEVAL_QUERY_TEXT]
    assert query == QUESTION


def test_a_failed_step_is_an_error(sent: Sent) -> None:
    trace = Trace("ask", method="plain", target="tiny")
    with pytest.raises(KeyError), trace.span("prefill", note="Baikal"):
        raise KeyError("Baikal")
    sent.spans.saw(trace)
    step = sent.one("prefill")
    assert (step.status.status_code, step.status.description) == (StatusCode.ERROR, "KeyError")
    assert attributes(step)[genai.ERROR_TYPE] == "KeyError"


def test_an_answer_that_failed_is_an_error(
    service: Service, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **more: object) -> None:
        raise BackendError("Baikal")

    monkeypatch.setattr(service, "_spans", sent.spans)
    engine = service.tenant().engine.load()
    with monkeypatch.context() as broken, pytest.raises(BackendError):
        broken.setattr(type(engine.target), "forward", fail)
        engine.ask(QUESTION)
    root = sent.one(REQUEST)
    for span in (root, sent.one("chat tiny"), sent.one("prefill")):
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description == attributes(span)[genai.ERROR_TYPE] == "BackendError"
    assert attributes(sent.one("chat tiny"))[genai.RESPONSE_FINISH_REASONS] == ("error",)
    assert all(genai.ERROR_TYPE not in attributes(span) for span in sent.named("retrieval"))
    (kept,) = engine.knowledge.store.traces()
    assert kept["attributes"]["error"] == "BackendError"  # type: ignore[index]


def test_a_client_that_leaves_is_no_error(
    service: Service, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_spans", sent.spans)
    events = service.tenant().engine.stream(QUESTION)
    next(events)
    events.close()
    for name in (REQUEST, "chat tiny"):
        assert sent.one(name).status.status_code is StatusCode.UNSET
        assert genai.ERROR_TYPE not in attributes(sent.one(name))
    assert attributes(sent.one(REQUEST))[PREFIX + "finish_reason"] == "cancelled"
    assert attributes(sent.one("chat tiny"))[genai.RESPONSE_FINISH_REASONS] == ("error",)


def test_a_span_that_never_ended_ends_with_its_trace(sent: Sent) -> None:
    trace = Trace("ask", method="plain", target="tiny", e2e_s=2.0)
    trace.spans.append(Span("prefill", 0.1))
    sent.spans.saw(trace)
    assert sent.one("prefill").end_time == sent.one(REQUEST).end_time


def test_a_completion_is_named_so(sent: Sent) -> None:
    sent.spans.saw(Trace("completion", method="bare", target="tiny"))
    assert attributes(sent.one("text_completion tiny"))[genai.OPERATION_NAME] == "text_completion"


def test_the_clients_trace_goes_on_here(
    service: Service, client: TestClient, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_spans", sent.spans)
    messages = [{"role": "user", "content": QUESTION}]
    response = client.post(
        "/v1/chat/completions",
        json={"model": "readahead", "messages": messages},
        headers={"traceparent": CLIENT, "X-Request-Id": "mine"},
    )
    assert response.status_code == 200, response.text
    root = sent.one(REQUEST)
    assert root.context and format(root.context.trace_id, "032x") in CLIENT
    assert root.parent and format(root.parent.span_id, "016x") in CLIENT
    assert attributes(root)[PREFIX + "request_id"] == "mine"
    assert attributes(root)[PREFIX + "trace_id"] == response.json()["readahead"]["trace_id"]


@pytest.mark.parametrize("header", ["", "00-zz", "x" * 10_000])
def test_a_senseless_traceparent_is_not_heeded(
    service: Service,
    client: TestClient,
    sent: Sent,
    monkeypatch: pytest.MonkeyPatch,
    header: str,
) -> None:
    monkeypatch.setattr(service, "_spans", sent.spans)
    messages = [{"role": "user", "content": QUESTION}]
    body = {"model": "readahead", "messages": messages}
    client.post("/v1/chat/completions", json=body, headers={"traceparent": header})
    assert sent.one(REQUEST).parent is None


def test_the_resource_says_what_sends(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    sent.spans.saw(Trace("ask"))
    assert sent.one(REQUEST).resource.attributes["service.name"] == "readahead"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "library")
    other = Sent()
    other.spans.saw(Trace("ask"))
    assert other.one(REQUEST).resource.attributes["service.name"] == "library"


def test_the_names_of_the_conventions_are_those_that_are_used() -> None:
    source = inspect.getsource(spans) + inspect.getsource(told_of)
    used = set(re.findall(r"\bgenai\.([A-Z_]+)", source))
    assert used == {name for name in vars(genai) if name.isupper()}
    assert "gen_ai." not in source
