import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from readahead.config import Config
from readahead.lm.generate import Piece
from readahead.reply import Reply
from readahead.server.observability.families import FAMILIES, PREFIX, VLLMS
from readahead.server.observability.metrics import table
from readahead.server.state import Service
from readahead.session import Session
from readahead.trace import Trace
from tests.server.clients import sent, wait_until
from tests.server.conftest import make_config

QUESTION = "How deep is Lake Baikal?"
NOWHERE = "zzz qqq"
ASKED = [{"role": "user", "content": QUESTION}]
COMPLETIONS, CHATS = "/v1/completions", "/v1/chat/completions"
SHORT = {"max_tokens": 4, "temperature": 0}  # drawn tokens may have no text
COMPLETION: dict[str, object] = {"model": "tiny", "prompt": "The tide", **SHORT}
LONG = {**COMPLETION, "prompt": [[66] * 2000] * 60}
ONE_AT_A_TIME = {"server__max_running": 1, "server__heartbeat_s": 0.05}
DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture
def config(tmp_path: Path, request: pytest.FixtureRequest) -> Config:
    return make_config(tmp_path, **getattr(request, "param", {}))


class Read:
    """What ``/metrics`` says, by name and labels."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = {
            (sample.name.removeprefix(PREFIX), *sample.labels.values()): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def __getitem__(self, key: str | tuple[str, ...]) -> float:
        return self.samples.get((key,) if isinstance(key, str) else key, 0.0)


def read(client: TestClient) -> Read:
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/plain")
    return Read(response.text)


def test_every_metric_is_there_from_the_start_with_the_type_and_labels_it_is_said_to_have(
    client: TestClient,
) -> None:
    found = read(client).families
    for family in FAMILIES:
        name = family.full_name.removesuffix("_total")
        assert found[name].type == family.kind, name
        assert found[name].documentation == family.about


def test_an_answer_is_counted(service: Service, client: TestClient) -> None:
    answer = service.tenant().engine.ask(QUESTION)
    seen = read(client)
    assert seen["request_success_total", answer.finish_reason] == 1
    assert seen["prompt_tokens_total"] == answer.usage.prompt_tokens
    assert seen["generation_tokens_total"] == answer.usage.completion_tokens
    assert seen["computed_tokens_total"] == answer.usage.computed_tokens
    assert seen["time_to_first_token_seconds_sum", "plain"] == answer.timing.ttft_s
    assert seen["e2e_request_latency_seconds_sum", "plain"] == answer.timing.e2e_s
    assert seen["retrieval_seconds_sum", "plain"] == answer.timing.retrieval_s > 0
    assert seen["request_prefill_time_seconds_sum", "plain"] == answer.timing.prefill_s > 0
    decode_s = answer.timing.e2e_s - answer.timing.ttft_s
    assert seen["request_decode_time_seconds_sum", "plain"] == pytest.approx(decode_s)
    assert seen["request_queue_time_seconds_count", "plain"] == 1
    assert seen["request_queue_time_seconds_sum", "plain"] == 0  # nothing came through a queue
    assert 0 < seen["model_wait_seconds_sum", "plain"] < answer.timing.ttft_s
    assert seen["prefix_cache_queries_total"] == 0  # a plain answer asks no cache
    assert seen["documents"] == 3


@pytest.mark.parametrize("config", [ONE_AT_A_TIME], indirect=True)
@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("prefetch", CHATS, {"model": "readahead", "messages": ASKED}),
        (
            "drafts",
            CHATS,
            {"model": "readahead", "messages": ASKED, "readahead": {"method": "drafts"}},
        ),
        ("bare", CHATS, {"model": "tiny", "messages": ASKED, **SHORT}),
        ("bare", COMPLETIONS, COMPLETION),
    ],
)
def test_times_count_from_the_arrival_of_the_request(
    served: str,
    service: Service,
    client: TestClient,
    method: str,
    path: str,
    body: dict[str, object],
    is_stream: bool,
) -> None:
    admission = service.admission
    with sent(served, COMPLETIONS, LONG) as running:
        wait_until(lambda: admission.num_running == 1)
        begun_s = time.perf_counter()
        with sent(served, path, {**body, "stream": is_stream}):
            wait_until(lambda: admission.num_queued == 1)
            queued_s = time.perf_counter()
            seen = read(client)
            assert (seen["num_requests_running"], seen["num_requests_waiting"]) == (1, 1)
            time.sleep(0.2)
            least_s = time.perf_counter() - queued_s
            running.close()
            wait_until(lambda: read(client)["e2e_request_latency_seconds_count", method] == 1)
            most_s = time.perf_counter() - begun_s
    seen = read(client)
    queue_s, ttft_s, e2e_s = (
        seen[f"{name}_seconds_sum", method]
        for name in ("request_queue_time", "time_to_first_token", "e2e_request_latency")
    )
    assert least_s < queue_s < ttft_s <= e2e_s < most_s
    decode_s = seen["request_decode_time_seconds_sum", method]
    assert decode_s == pytest.approx(e2e_s - ttft_s)


@pytest.mark.parametrize("config", [ONE_AT_A_TIME], indirect=True)
def test_every_choice_counts_from_the_arrival(service: Service, client: TestClient) -> None:
    body = {"model": "readahead", "messages": ASKED, "n": 3, "temperature": 1, "seed": 1}
    begun_s = time.perf_counter()
    answers = client.post(CHATS, json=body).json()["readahead"]["choices"]
    most_s = time.perf_counter() - begun_s
    seen, own_s = read(client), [answer["timing"]["e2e_s"] for answer in answers]
    assert seen["e2e_request_latency_seconds_count", "prefetch"] == 3
    so_far_s = [sum(own_s[: place + 1]) for place in range(3)]
    assert sum(so_far_s) < seen["e2e_request_latency_seconds_sum", "prefetch"] < 3 * most_s


@pytest.mark.parametrize("method", ["plain", "drafts", "rapid"])
def test_the_time_between_two_pieces_is_measured(
    service: Service, client: TestClient, method: str
) -> None:
    answer = service.tenant().engine.ask(QUESTION, method=method)
    num = read(client)["inter_token_latency_seconds_count"]
    if method == "plain":
        assert num == answer.usage.completion_tokens - 1 > 0
    elif method == "rapid":
        assert num + 1 == answer.speculation["num_rounds"] != 1
    else:
        assert num == 0  # it comes whole


def test_marker_and_rest_of_a_sentence_come_with_the_token_that_ends_it(
    service: Service, client: TestClient
) -> None:
    engine, trace = service.tenant().engine, Trace("ask", method="plain")
    passages = [hit.passage for hit in engine.knowledge.search(QUESTION, 3)]
    texts = ("It is the deepest lake", ". It", " is 1,642", " metres deep.", " Really", ".")

    def pieces() -> Iterator[Piece]:
        for text in texts:
            time.sleep(0.005)
            yield Piece(text, (1,), finish_reason="stop" if text == "." else None)

    events = list(Reply(QUESTION, passages, trace, engine.config).events(pieces()))
    assert len([event for event in events if isinstance(event, str)]) > len(texts)
    service.saw(trace)
    seen = read(client)
    assert seen["inter_token_latency_seconds_count"] == len(texts) - 1
    assert seen["inter_token_latency_seconds_bucket", "0.0025"] == 0


def test_the_time_between_pieces_of_the_bare_target_is_measured_choice_by_choice(
    client: TestClient,
) -> None:
    chat: dict[str, object] = {"model": "tiny", "messages": ASKED, **SHORT}
    for path, body in ((COMPLETIONS, COMPLETION), (CHATS, chat)):
        before = read(client)["inter_token_latency_seconds_count"]
        answer = client.post(path, json={**body, "n": 3}).json()
        num_gaps = read(client)["inter_token_latency_seconds_count"] - before
        assert num_gaps == answer["usage"]["completion_tokens"] - 3


def test_what_was_read_ahead_is_counted_as_kept_or_wasted(
    service: Service, client: TestClient
) -> None:
    engine, counters = service.tenant().engine, Counter[str]()

    def saw(trace: Trace) -> None:
        counters.update(trace.counters)
        service.saw(trace)

    engine.knowledge.on_trace = saw
    for typed in (QUESTION, "When was the Eiffel Tower finished?"):
        with Session(engine) as session:
            session.type(typed)
            while not session.status.num_answer_tokens:
                pass
            list(session.submit(QUESTION))
    seen = read(client)
    assert seen["prefetch_guesses_total", "kept"] == 1
    assert seen["prefetch_guesses_total", "dropped"] == 1
    num_used, num_wasted = (seen[f"prefetch_{kind}_tokens_total"] for kind in ("reused", "wasted"))
    assert num_wasted == counters["wasted_tokens"] > 0
    assert num_used + num_wasted == counters["computed_ahead_tokens"] > num_wasted
    assert seen["prefix_cache_queries_total"] == counters["prompt_tokens"]
    assert seen["prefix_cache_hits_total"] == counters["reused_tokens"] < counters["prompt_tokens"]
    assert seen["kv_cache_bytes"] == engine.reader.tree.num_bytes > 0


def test_what_sessions_hold_is_told(service: Service, client: TestClient) -> None:
    assert read(client)["session_cache_bytes"] == 0
    for tenant in (service.tenant(), service.tenant("b")):
        tenant.engine.knowledge.add(["-"], stdin=b"Lake Baikal is deep.", stdin_name="deep.txt")
        config = tenant.engine.config
        still = config.prefetch.model_copy(update={"enabled": False})
        engine = tenant.engine.configured(config.model_copy(update={"prefetch": still}))
        assert list(tenant.sessions.open(Session(engine)).submit(QUESTION))
    held = [service.tenant(name).sessions.num_bytes for name in ("", "b")]
    assert min(held) > 0
    assert read(client)["session_cache_bytes"] == sum(held)


def test_draft_tokens_are_counted_by_position(service: Service, client: TestClient) -> None:
    rounds = [[0.1, 3, 2, "lookup"], [0.2, 0, 0, ""], [0.3, 4, 4, "model"], [0.4, 2, 0, "lookup"]]
    service.saw(Trace("ask", method="rapid", speculation={"rounds": rounds}))
    seen = read(client)
    assert seen["spec_decode_num_drafts_total"] == 3
    assert seen["spec_decode_num_draft_tokens_total"] == 9
    assert seen["spec_decode_num_accepted_tokens_total"] == 6
    at = [seen["spec_decode_num_accepted_tokens_per_pos_total", str(place)] for place in range(5)]
    assert at == [2, 2, 1, 1, 0]


def test_drafts_are_counted_by_what_came_of_them(service: Service, client: TestClient) -> None:
    answer = service.tenant().engine.ask(QUESTION, method="drafts")
    seen = read(client)
    drafts = [value for (name, *_), value in seen.samples.items() if name == "drafts_total"]
    written = answer.audit["drafts"]
    assert isinstance(written, list) and sum(drafts) >= len(written) > 0
    assert seen["drafter_tokens_total"] > 0
    num_read = sum(draft["num_prompt_tokens"] for draft in written)
    assert seen["prompt_tokens_total"] == answer.usage.prompt_tokens >= num_read > 0
    assert seen["generation_tokens_total"] == answer.usage.completion_tokens > 0
    assert seen["drafts_fallbacks_total"] == 0


def test_an_abstention_is_counted_with_its_reason(service: Service, client: TestClient) -> None:
    service.tenant().engine.ask(NOWHERE)
    assert read(client)["abstentions_total", "plain", "nothing_found"] == 1


def test_an_answer_that_nobody_waited_for_is_no_success(
    service: Service, client: TestClient
) -> None:
    events = service.tenant().engine.stream(QUESTION)
    next(events)
    events.close()
    seen = read(client)
    assert not [key for key in seen.samples if key[0] == "request_success_total"]
    assert seen["computed_tokens_total"] > 0  # but it has cost something


def test_an_answer_that_was_cancelled_says_nothing_of_latency(
    service: Service, client: TestClient
) -> None:
    calls = iter([False] * 25)
    service.tenant().engine.ask(QUESTION, cancelled=lambda: next(calls, True))
    seen = read(client)
    assert seen["request_success_total", "cancelled"] == 1
    assert seen["e2e_request_latency_seconds_count", "plain"] == 0


def test_errors_are_counted_by_status(client: TestClient) -> None:
    client.post("/v1/search", json={})
    client.get("/v1/nowhere")
    client.get("/nowhere")
    seen = read(client)
    assert seen["request_failure_total", "400"] == 1
    assert seen["request_failure_total", "404"] == 1


def test_who_waits_and_who_runs_is_told(service: Service, client: TestClient) -> None:
    service.admission.num_running = 5
    assert read(client)["num_requests_running"] == 5
    assert read(client)["num_requests_waiting"] == 0  # for one that waits see above


def test_no_label_comes_from_a_request(service: Service, client: TestClient) -> None:
    engine = service.tenant("acme").engine
    engine.ask(QUESTION)
    for attributes in ({"method": "Baikal"}, {"method": QUESTION, "finish_reason": "stop"}):
        service.saw(Trace("ask", e2e_s=1.0, **({"finish_reason": "stop"} | attributes)))
    client.get("/v1/Baikal", headers={"X-Request-Id": "Baikal"})
    assert not re.search("(?i)baikal|acme", client.get("/metrics").text)


def test_two_services_count_apart(service: Service, client: TestClient) -> None:
    other = Service(service.config, service.loaded.target)
    other.saw(Trace("ask", method="plain", e2e_s=1.0, finish_reason="stop"))
    other.close()
    assert read(client)["request_success_total", "stop"] == 0


def test_a_fault_in_counting_costs_no_answer(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    service.saw(Trace("ask", speculation={"rounds": [None]}))
    assert "could not be counted" in caplog.text


def test_it_is_counted_by_many_threads(service: Service, client: TestClient) -> None:
    def count() -> None:
        for _ in range(500):
            service.saw(Trace("ask", method="plain", e2e_s=0.1, finish_reason="stop"))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(client)["request_success_total", "stop"] == 2000


def test_openmetrics_is_spoken_to_those_who_ask(client: TestClient) -> None:
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    response = client.get("/metrics", headers=accept)
    assert response.headers["Content-Type"].startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")


def test_the_documentation_has_the_table_of_all() -> None:
    assert table() in (DOCS / "operations.md").read_text(encoding="utf-8")


def test_names_that_are_vllms_are_told_from_our_own() -> None:
    names = {family.name for family in FAMILIES}
    assert names > VLLMS
    assert "| `readahead_request_queue_time_seconds` | vLLM | histogram | `method` |" in table()
    assert "| `readahead_kv_cache_bytes` | ours | gauge |" in table()


def test_jobs_are_counted_by_how_far_they_are(service: Service, client: TestClient) -> None:
    files = {"files": ("sea.md", b"# Dead Sea\n\nThe Dead Sea is salty.\n")}
    job = client.post("/v1/documents", files=files).json()
    while client.get(f"/v1/jobs/{job['id']}").json()["status"] != "done":
        pass
    assert read(client)["jobs", "done"] == 1
    assert read(client)["documents"] == 4
