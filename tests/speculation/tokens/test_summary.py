import pytest

from readahead.speculation.tokens.decode import Tally
from readahead.speculation.tokens.summary import summary
from readahead.trace import Trace


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


def test_a_request_that_ended_before_drafting_has_a_summary() -> None:
    assert summary(Trace("ask"), "exact")["read"] == {"num_prompt_tokens": 0}
