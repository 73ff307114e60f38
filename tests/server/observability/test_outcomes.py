"""What traces come to; the traces are those of real requests to the tiny model, or cut down."""

import pytest

from readahead.server.observability.outcomes import (
    abstention_of,
    drafts_of,
    guess_of,
    has_fallen_back,
    method_of,
    rounds_of,
)
from readahead.server.state import Service
from readahead.session import Session
from readahead.trace import Trace

QUESTION = "How deep is Lake Baikal?"


def traced(service: Service, question: str, method: str) -> Trace:
    traces: list[Trace] = []
    engine = service.tenant().engine
    engine.knowledge.on_trace = traces.append
    engine.ask(question, method=method)
    return traces[-1]


@pytest.mark.parametrize("method", ["plain", "drafts", "rapid"])
def test_the_method_is_one_of_a_few(service: Service, method: str) -> None:
    assert method_of(traced(service, QUESTION, method)) == method
    assert method_of(Trace("ask", method="x" * 1000)) == "other"


def test_rapid_tells_its_rounds(service: Service) -> None:
    trace = traced(service, QUESTION, "rapid")
    told = trace.attributes["speculation"]
    assert isinstance(told, dict)
    rounds = rounds_of(trace)
    assert len(rounds) == told["num_drafted_rounds"]
    assert sum(drafted for drafted, _ in rounds) == told["num_draft_tokens"]
    assert sum(accepted for _, accepted in rounds) == told["num_accepted_tokens"]


def test_drafts_are_counted_each_once(service: Service) -> None:
    trace = traced(service, QUESTION, "drafts")
    audit = trace.attributes["drafts"]
    assert isinstance(audit, dict)
    outcomes = drafts_of(trace)
    assert outcomes.total() == len(audit["drafts"]) + audit["num_saved_drafts"] > 0
    assert not has_fallen_back(trace)


def test_drafts_of_parts_are_counted_with_their_faults() -> None:
    def audit(*drafts: dict[str, object], steps: object = ()) -> dict[str, object]:
        return {
            "fell_back": "",
            "num_saved_drafts": 1,
            "drafts": list(drafts),
            "candidates": [{"selected": True}, {"selected": False}],
            "steps": steps,
        }

    drafts: list[dict[str, object]] = [
        {"fault": "", "candidate": place} for place in (0, 0, 1, None)
    ]
    part = audit({"fault": "echo", "candidate": None})
    trace = Trace("ask", drafts=audit(*drafts, steps=[part]))
    assert drafts_of(trace) == {"selected": 2, "rejected": 2, "echo": 1, "saved": 2}


def test_what_was_typed_comes_to_a_guess_kept_or_dropped(service: Service) -> None:
    traces: list[Trace] = []
    engine = service.tenant().engine
    engine.knowledge.on_trace = traces.append
    for typed in (QUESTION, "When was the Eiffel Tower finished?"):
        with Session(engine) as session:
            session.type(typed)
            while not session.status.num_answer_tokens:
                pass
            list(session.submit(QUESTION))
    with Session(engine) as session:
        list(session.submit(QUESTION))
    assert [guess_of(trace) for trace in traces] == ["kept", "dropped", ""]


@pytest.mark.parametrize(
    ("num_new", "num_kept", "num_useful", "outcome"),
    [
        (3, 3, 0, "kept"),
        (3, 2, 10, "partly"),
        (3, 0, 10, "partly"),
        (3, 0, 0, "dropped"),
        (0, 0, 10, "kept"),
        (0, 0, 0, "dropped"),
    ],
)
def test_a_guess_is_judged_by_its_passages(
    num_new: int, num_kept: int, num_useful: int, outcome: str
) -> None:
    told = {
        "guessed": ["1.1.0"],
        "num_new_passages": num_new,
        "num_kept_passages": num_kept,
        "num_useful_tokens": num_useful,
    }
    assert guess_of(Trace("ask", prefetch=told)) == outcome


def test_an_answer_says_why_there_is_none(service: Service) -> None:
    assert abstention_of(traced(service, "zzz qqq", "plain")) == "nothing_found"
    assert abstention_of(traced(service, QUESTION, "plain")) == ""


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"method": "plain"}, "declined"),
        ({"method": "prefetch"}, "declined"),
        ({"method": "drafts", "drafts": {"candidates": []}}, "no_draft"),
        ({"method": "drafts", "drafts": {"candidates": [{}]}}, "uncertain"),
    ],
)
def test_reasons_to_abstain(attributes: dict[str, object], reason: str) -> None:
    trace = Trace("ask", passages=[{"id": "1.1.0"}], **attributes)
    assert abstention_of(trace) == ""
    trace.attributes["abstained"] = True
    assert abstention_of(trace) == reason
