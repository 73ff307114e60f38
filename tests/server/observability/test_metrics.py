import re
import threading
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from readahead.server.observability.families import FAMILIES, PREFIX
from readahead.server.observability.metrics import table
from readahead.server.state import Service
from readahead.session import Session
from readahead.trace import Trace

QUESTION = "How deep is Lake Baikal?"
NOWHERE = "zzz qqq"
DOCS = Path(__file__).parents[3] / "docs"


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
    assert seen["prefill_seconds_sum", "plain"] == answer.timing.prefill_s > 0
    assert 0 < seen["model_wait_seconds_sum", "plain"] < answer.timing.ttft_s
    assert seen["prefix_cache_queries_total"] == 0  # a plain answer asks no cache
    assert seen["documents"] == 3


def test_the_time_between_pieces_of_text_is_measured(service: Service, client: TestClient) -> None:
    engine = service.tenant().engine
    pieces = [event for event in service.metrics.timed(engine.stream(QUESTION)) if event]
    texts = [piece for piece in pieces if isinstance(piece, str)]
    assert read(client)["inter_token_latency_seconds_count"] == len(texts) - 1 > 0


def test_who_stops_reading_stops_the_answer(service: Service) -> None:
    events = service.metrics.timed(service.tenant().engine.stream(QUESTION))
    next(events)
    events.close()
    assert not service.loaded.turns.is_answering


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
    assert read(client)["num_requests_waiting"] == 0


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


def test_jobs_are_counted_by_how_far_they_are(service: Service, client: TestClient) -> None:
    files = {"files": ("sea.md", b"# Dead Sea\n\nThe Dead Sea is salty.\n")}
    job = client.post("/v1/documents", files=files).json()
    while client.get(f"/v1/jobs/{job['id']}").json()["status"] != "done":
        pass
    assert read(client)["jobs", "done"] == 1
    assert read(client)["documents"] == 4
