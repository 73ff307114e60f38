"""Spans, steps and counters of one request."""

import json
import time

import pytest

from readahead.trace import Trace


def test_spans_take_time_in_order() -> None:
    trace = Trace("ask", question="Who?")
    with trace.span("search", k=4) as search:
        assert search.end_s is None
        assert search.duration_s == 0.0
        time.sleep(0.002)
    with trace.span("decode") as decode:
        pass
    assert search.end_s is not None
    assert 0.0 <= search.start_s < search.end_s <= decode.start_s <= trace.now_s()
    assert search.duration_s == search.busy_s >= 0.002
    assert search.attributes == {"k": 4}


def test_a_span_that_raises_is_closed_and_names_the_error() -> None:
    trace = Trace("ask")
    with pytest.raises(KeyError), trace.span("search"):
        raise KeyError("x")
    (span,) = trace.spans
    assert span.end_s is not None
    assert span.attributes["error"] == "KeyError"


def test_steps_of_one_name_are_one_span() -> None:
    trace = Trace("ask")
    for _ in range(3):
        with trace.step("decode"):
            time.sleep(0.001)
        time.sleep(0.002)
    (span,) = trace.spans
    assert span.count == 3
    assert 0.003 <= span.busy_s < span.duration_s - 0.003


def test_the_gaps_between_steps_are_known() -> None:
    trace = Trace("ask")
    for _ in range(3):
        with trace.step("decode"):
            time.sleep(0.002)
        with trace.step("cite"):
            pass
    gaps_s = trace.gaps_s("decode")
    assert len(gaps_s) == 2 and min(gaps_s) >= 0.002
    assert sum(gaps_s) <= trace.spans[0].duration_s
    assert trace.gaps_s("verify") == []


def test_a_step_that_raises_is_counted() -> None:
    trace = Trace("ask")
    with pytest.raises(ValueError, match="no"), trace.step("decode"):
        raise ValueError("no")
    assert trace.spans[0].count == 1
    assert trace.spans[0].end_s is not None


def test_counters_and_totals() -> None:
    trace = Trace("ask")
    trace.count("kept")
    trace.count("kept", 2)
    assert trace.counters == {"kept": 3}
    for _ in range(2):
        with trace.span("search"):
            time.sleep(0.001)
    assert trace.total_s("search") == sum(span.busy_s for span in trace.spans) >= 0.002
    assert trace.total_s("nothing") == 0.0


def test_json_holds_everything() -> None:
    trace = Trace("ask", method="plain")
    trace.count("kept")
    with trace.span("search", k=4), trace.step("decode"):
        pass
    values = json.loads(json.dumps(trace.to_json()))
    assert (values["id"], values["kind"]) == (trace.id, "ask")
    assert values["attributes"] == {"method": "plain"}
    assert values["counters"] == {"kept": 1}
    assert [span["name"] for span in values["spans"]] == ["search", "decode"]
    assert values["spans"][0]["attributes"] == {"k": 4}
    assert values["spans"][1]["end_s"] <= values["spans"][0]["end_s"]
    assert abs(values["started_at"] - time.time()) < 60


def test_traces_have_ids_of_their_own() -> None:
    assert Trace("ask").id != Trace("ask").id
