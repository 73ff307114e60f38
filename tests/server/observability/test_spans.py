import inspect
import json
import re
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from starlette.testclient import TestClient

from readahead.errors import BackendError
from readahead.server.observability import genai, spans
from readahead.server.observability.spans import AHEAD, PREFIX, REQUEST, Spans
from readahead.server.state import Service
from readahead.session import Session
from readahead.trace import Span, Trace

QUESTION = "How deep is Lake Baikal?"
CLIENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


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
        genai.RESPONSE_ID: trace.id,
        genai.RESPONSE_FINISH_REASONS: ("length",),
        genai.RESPONSE_TIME_TO_FIRST_CHUNK: trace.attributes["ttft_s"],
        genai.USAGE_INPUT_TOKENS: trace.counters["prompt_tokens"],
        genai.USAGE_OUTPUT_TOKENS: trace.counters["completion_tokens"],
        genai.USAGE_CACHE_READ_INPUT_TOKENS: 0,
    }
    retrieval = attributes(sent.one(genai.RETRIEVAL))
    assert retrieval[genai.OPERATION_NAME] == "retrieval"
    assert attributes(sent.one("decode"))[PREFIX + "count"] == 11
    assert attributes(sent.one(REQUEST))[PREFIX + "method"] == "plain"


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
    status = sent.one("prefill").status
    assert (status.status_code, status.description) == (StatusCode.ERROR, "KeyError")


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
    assert (root.status.status_code, root.status.description) == (
        StatusCode.ERROR,
        "BackendError",
    )
    assert attributes(sent.one("chat tiny"))[genai.RESPONSE_FINISH_REASONS] == ("failed",)
    (kept,) = engine.knowledge.store.traces()
    assert kept["attributes"]["error"] == "BackendError"  # type: ignore[index]


def test_a_client_that_leaves_is_no_error(
    service: Service, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_spans", sent.spans)
    events = service.tenant().engine.stream(QUESTION)
    next(events)
    events.close()
    assert sent.one(REQUEST).status.status_code is StatusCode.UNSET
    assert attributes(sent.one("chat tiny"))[genai.RESPONSE_FINISH_REASONS] == ("cancelled",)


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
    used = set(re.findall(r"\bgenai\.([A-Z_]+)", inspect.getsource(spans)))
    assert used == {name for name in vars(genai) if name.isupper()}
    assert "gen_ai." not in inspect.getsource(spans)
