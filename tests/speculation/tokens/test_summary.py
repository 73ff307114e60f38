import json

import pytest

from readahead.speculation.tokens.base import Kind, Round
from readahead.speculation.tokens.governor import FixedPacer, Governor
from readahead.speculation.tokens.summary import summary
from readahead.speculation.tokens.tally import Tally
from readahead.trace import Span, Trace


def test_seconds_and_passages_come_from_the_trace() -> None:
    trace = Trace("ask", speculation=Tally(num_rounds=3).to_json())
    with trace.span("retrieve", passages=["1.1.0"], num_tokens=40, is_fallback=False):
        pass
    with trace.span("drafter_prefill", num_tokens=55):
        pass
    for _ in range(2):
        with trace.step("verify"):
            pass
    told = summary(trace, "paper")
    assert (told["mode"], told["num_rounds"]) == ("paper", 3)
    assert told["read"] == {
        "passages": ["1.1.0"],
        "num_tokens": 40,
        "is_fallback": False,
        "num_prompt_tokens": 55,
    }
    seconds = told["seconds"]
    assert isinstance(seconds, dict)
    assert seconds["verify_s"] == pytest.approx(trace.total_s("verify"))
    assert seconds["retrieval_s"] > 0
    assert seconds["draft_s"] == 0


def test_a_governor_tells_what_it_believes_and_a_fixed_number_nothing() -> None:
    trace, governor, copy = Trace("ask"), Governor(), Kind("lookup", 7)
    governor.saw(Round((), 0, 0.0, 1.0, 1.0))
    governor.gain_s(copy, 1.0, 0)
    told = json.loads(json.dumps(summary(trace, "exact", governor)))
    assert told["governor"]["lookup"]["acceptance"] == pytest.approx(governor.rate(copy))
    assert told["governor"]["lookup"]["speed_up"] > 1
    assert "governor" not in summary(trace, "exact", FixedPacer(4))


def test_a_refresh_counts_for_itself_alone() -> None:
    trace = Trace("ask")
    trace.spans = [
        Span("retrieve", 0.0, 1.0, busy_s=1.0),
        Span("drafter_prefill", 1.0, 3.0, busy_s=2.0),
        Span("draft", 3.0, 20.0, busy_s=4.0),
        Span("refresh", 8.0, 14.0, busy_s=6.0),
        Span("retrieve", 8.0, 10.0, busy_s=2.0),
        Span("drafter_prefill", 10.0, 14.0, busy_s=4.0),
    ]
    assert summary(trace, "exact")["seconds"] == {
        "retrieval_s": 1.0,
        "prefill_s": 0.0,
        "drafter_prefill_s": 2.0,
        "draft_s": 4.0,
        "verify_s": 0.0,
        "refresh_s": 6.0,
    }


def test_a_refresh_that_changed_nothing_leaves_what_is_read() -> None:
    for changed, expected in ((False, ["1", "2"]), (True, ["2", "3"])):
        trace = Trace("ask")
        with trace.span("retrieve", passages=["1", "2"]):
            pass
        with trace.span("refresh") as refresh:
            with trace.span("retrieve", passages=["2", "3"]):
                pass
            refresh.attributes["changed"] = changed
        read = summary(trace, "exact")["read"]
        assert isinstance(read, dict)
        assert read["passages"] == expected


def test_a_request_that_ended_before_drafting_has_a_summary() -> None:
    assert summary(Trace("ask"), "exact")["read"] == {"num_prompt_tokens": 0}
