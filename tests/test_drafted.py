"""Answers by drafts, through the engine: what is answered, when it is not, and what steps in."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import LlamaForCausalLM

from readahead.config import load_config
from readahead.drafted import UNCERTAIN, UNCERTAIN_CHINESE
from readahead.engine import Engine
from readahead.errors import BackendError, NotFound
from readahead.knowledge import KnowledgeBase
from readahead.lm.base import Generation, Scored
from readahead.lm.model import TransformersModel
from readahead.reply import CUT_OFF
from readahead.retrieval.base import Filter
from readahead.retrieval.store import Store
from readahead.speculation.answers.breaker import Breaker
from readahead.speculation.answers.outcome import CLEARLY_LACKING
from readahead.speculation.answers.speculate import Speculator
from readahead.types import Citation
from tests.conftest import make_tokenizer
from tests.retrieval.support import HashingEmbedder
from tests.speculation.answers.scripted import Scripted, silent

QUESTION = "When was the lamp of Skerry first lit?"
DOCUMENTS = {
    "keeper.txt": "The lamp of Skerry was first lit in 1846, wrote the keeper.",
    "register.txt": "The lamp of Skerry was first lit in 1846, the register says.",
    "legend.txt": "The lamp of Skerry was first lit in 1852, a legend tells.",
    "oil.txt": "The lamp of Skerry burned whale oil.",
}


def opened(folder: Path, model: TransformersModel, **flags: object) -> Engine:
    """Return an engine over the documents above; the tiny Llama answers plainly."""
    given = {name.replace("__", "."): value for name, value in flags.items()}
    settings = {"kb": folder / "kb", "generation.max_new_tokens": 3}
    drafts = {"drafts.threshold": 0.0, "drafts.adaptive": False}
    config = load_config({**settings, **drafts, **given})
    knowledge = KnowledgeBase(Store.open(config.kb), config, HashingEmbedder())
    for name, text in DOCUMENTS.items():
        knowledge.add(["-"], stdin=text.encode(), stdin_name=name)
    return Engine(knowledge, model)


def first_year(prompt: str) -> str:
    """Return the first year that a prompt tells, as a draft."""
    found = re.search(r"\b1[89]\d\d\b", prompt)
    return found[0] if found else "I do not know."


def scripted(engine: Engine, drafter: Any, target: Any = None) -> Engine:
    """Let these models draft and verify."""
    engine.speculator = Speculator(drafter, target or drafter, engine.config.drafts)
    return engine


@dataclass
class Failing(Scripted):
    """Raises at every call, or by chance."""

    rate: float = 1.0
    chance: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    num_calls: int = 0

    def _may_fail(self) -> None:
        self.num_calls += 1
        if self.chance.random() < self.rate:
            raise BackendError("The device is lost.")

    def generate(self, *arguments: Any, **more: Any) -> list[Generation]:
        self._may_fail()
        return super().generate(*arguments, **more)

    def score(self, *arguments: Any, **more: Any) -> list[Scored]:
        self._may_fail()
        return super().score(*arguments, **more)


@pytest.fixture
def engine(tmp_path: Path, model: TransformersModel) -> Engine:
    return scripted(opened(tmp_path, model, drafts__also=0.99), Scripted(first_year))


def notes(engine: Engine, question: str = QUESTION, **more: Any) -> tuple[str, Sequence[str]]:
    """Return which method answered, and what it notes."""
    answer = engine.ask(question, method="drafts", **more)
    return answer.method, answer.notes


@pytest.mark.parametrize("preset", ["fast", "accurate"])
def test_the_answer_of_most_passages_is_given(
    tmp_path: Path, model: TransformersModel, preset: str
) -> None:
    engine = opened(tmp_path, model, drafts__preset=preset, drafts__also=0.999)
    *events, answer = scripted(engine, Scripted(first_year)).stream(QUESTION, method="drafts")
    assert not isinstance(answer, str | Citation)
    assert (answer.method, answer.abstained) == ("drafts", False)
    assert answer.text.startswith("1846")
    assert "".join(event for event in events if isinstance(event, str)) == answer.text
    audit: Any = answer.audit
    best, other = audit["candidates"]
    assert answer.confidence == best["probability"] > other["probability"]
    assert {one["document"] for one in best["evidence"]} == {"keeper.txt", "register.txt"}
    trace: Any = engine.knowledge.store.trace(answer.trace_id)
    assert trace["attributes"]["method"] == "drafts"
    assert trace["attributes"]["drafts"] == json.loads(json.dumps(answer.audit))


def test_citations_resolve_exactly(engine: Engine) -> None:
    answer = engine.ask(QUESTION, method="drafts")
    assert answer.citations
    for citation in answer.citations:
        stored = engine.knowledge.document(citation.document).text
        assert stored[citation.start : citation.end] == citation.text
        assert "1846" in citation.text
    for candidate in answer.audit["candidates"]:  # type: ignore[attr-defined]
        for one in candidate["evidence"]:
            stored = engine.knowledge.document(one["document"]).text
            assert stored[one["start"] : one["end"]] == one["text"]


@pytest.mark.parametrize(
    ("question", "said"), [(QUESTION, UNCERTAIN), ("Skerry 的灯何时点亮？", UNCERTAIN_CHINESE)]
)
def test_an_abstention_tells_what_was_looked_at(
    tmp_path: Path, model: TransformersModel, question: str, said: str
) -> None:
    engine = opened(tmp_path, model, drafts__threshold=1.0)
    answer = scripted(engine, Scripted(first_year)).ask(question, method="drafts")
    assert (answer.text, answer.abstained, answer.citations) == (said, True, ())
    (note,) = answer.notes
    assert "over 4 passages the best answer, “1846”, is right with probability" in note
    assert "below 1.00 (drafts.threshold); it stands in 2 of the passages." in note


def test_an_abstention_names_what_passages_lack(tmp_path: Path, model: TransformersModel) -> None:
    engine = scripted(opened(tmp_path, model, drafts__threshold="lenient"), Scripted(first_year))
    asked = "Which year saw the founding of the observatory in Ravna?"
    answer = engine.ask(asked, method="drafts")
    assert answer.abstained
    assert answer.audit["lacking"] > CLEARLY_LACKING  # type: ignore[operator]
    assert re.search(
        r"The passages do not seem to hold the answer: the best has \d+% of the question's words, "
        r"the nearest is as close in meaning as 0\.\d\d\.$",
        answer.notes[0],
    )
    answer = engine.ask("塔拉夫纳的天文台是哪一年建立的？ lamp", method="drafts")
    assert answer.audit["lacking"] == 0  # in another language nothing is known


def test_drafts_without_an_answer_abstain(engine: Engine) -> None:
    answer = scripted(engine, Scripted(silent)).ask(QUESTION, method="drafts")
    assert (answer.abstained, answer.confidence) == (True, 0.0)
    assert answer.notes == ("None of 4 drafts over 4 passages holds an answer.",)
    json.dumps(answer.audit, allow_nan=False)


def test_drafts_that_are_all_cut_off_blame_their_limit_not_the_passages(
    tmp_path: Path, model: TransformersModel
) -> None:
    engine = opened(tmp_path, model, drafts__max_new_tokens=4)
    long = Scripted(lambda prompt: "lighthouses and their keepers")
    answer = scripted(engine, long).ask(QUESTION, method="drafts")
    assert answer.abstained
    assert answer.notes == (
        "All of 4 drafts over 4 passages were cut off at their limit (drafts.max_new_tokens).",
    )


def test_several_answers_are_given_where_passages_support_them(
    tmp_path: Path, model: TransformersModel
) -> None:
    engine = scripted(opened(tmp_path, model, drafts__also=0.0), Scripted(first_year))
    answer = engine.ask(QUESTION, method="drafts")
    assert re.fullmatch(r"- 1846 \[\d\].*\n- 1852 \[\d\].*", answer.text)
    assert answer.notes == ("The passages support 2 different answers.",)
    assert {citation.document for citation in answer.citations} >= {"legend.txt"}


def test_without_a_hit_nobody_is_asked(engine: Engine) -> None:
    drafter = Failing(first_year)
    answer = scripted(engine, drafter).ask(
        QUESTION, method="drafts", filter=Filter(documents=("nothing.md",))
    )
    assert (answer.abstained, answer.method, drafter.num_calls) == (True, "drafts", 0)


@pytest.mark.parametrize("preset", ["fast", "accurate"])
def test_a_cancelled_request_stops_within_one_step(
    tmp_path: Path,
    model: TransformersModel,
    monkeypatch: pytest.MonkeyPatch,
    preset: str,
) -> None:
    engine = opened(tmp_path, model, drafts__preset=preset).load("drafts")
    forward, num_steps = TransformersModel.forward, 0

    def counted(*arguments: Any, **more: Any) -> Any:
        nonlocal num_steps
        num_steps += 1
        return forward(*arguments, **more)

    monkeypatch.setattr(TransformersModel, "forward", counted)
    engine.ask(QUESTION, method="drafts")
    assert (num_all := num_steps) > 6
    last = 0

    def cancelled() -> bool:
        return num_steps >= last

    for last in range(1, num_all, max(1, num_all // 5)):
        num_steps = 0
        answer = engine.ask(QUESTION, method="drafts", cancelled=cancelled)
        assert num_steps == last  # asked before each step
        assert (answer.finish_reason, answer.text) == ("cancelled", "")
        assert engine.breaker.state == "closed"


def test_what_takes_too_long_is_answered_plainly(tmp_path: Path, model: TransformersModel) -> None:
    engine = opened(tmp_path, model, drafts__timeout_s=1e-9)
    answer = engine.ask(QUESTION, method="drafts")
    assert answer.method == "plain"
    assert answer.notes[0] == (
        "Answered plainly, because drafting took longer than 1e-09 s (raise drafts.timeout_s, or "
        "lower drafts.num_drafts)."
    )
    assert answer.text == engine.ask(QUESTION).text
    trace: Any = engine.knowledge.store.trace(answer.trace_id)
    assert trace["attributes"]["method"] == "plain"
    assert (answer.audit["drafts"], answer.audit["candidates"]) == ([], [])
    assert str(answer.audit["fell_back"]) in answer.notes[0]


def test_what_was_drafted_before_the_time_ran_out_is_kept(
    tmp_path: Path, model: TransformersModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = opened(tmp_path, model)
    clock = [0.0]
    monkeypatch.setattr("readahead.drafted.time.monotonic", lambda: clock[0])

    def slowly(prompt: str) -> str:
        clock[0] += 25.0
        return first_year(prompt)

    answer = scripted(engine, Scripted(slowly)).ask(QUESTION, method="drafts")
    audit: Any = answer.audit
    assert (answer.method, len(audit["drafts"])) == ("plain", 4)
    assert {draft["answer"] for draft in audit["drafts"]} >= {"1846", "1852"}
    assert audit["fell_back"].startswith("drafting took longer than 60 s")
    trace: Any = engine.knowledge.store.trace(answer.trace_id)
    assert trace["attributes"]["drafts"] == json.loads(json.dumps(audit))
    ids = [passage["id"] for passage in trace["attributes"]["passages"]]
    assert len(ids) == len(set(ids)) == len(DOCUMENTS)
    engine.knowledge.remove(["legend.txt"])  # a draft shows it, the answer does not
    with pytest.raises(NotFound):
        engine.knowledge.store.trace(answer.trace_id)


def test_parts_that_were_answered_before_one_failed_are_kept(engine: Engine) -> None:
    def breaks(prompt: str) -> str:
        if "Orrin" in prompt:
            raise BackendError("The device is lost.")
        return first_year(prompt)

    audit: Any = scripted(engine, Scripted(breaks)).ask(COMPARED, method="drafts").audit
    first, second = audit["steps"]
    assert first["candidates"][0]["selected"]
    assert (second["question"], second["drafts"]) == ("How old is the lamp of Orrin?", [])
    assert (audit["drafts"], audit["fell_back"]) == ([], "drafting failed: The device is lost")


def test_a_fault_is_told_by_its_name_and_logged_in_full(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(prompt: str) -> str:
        raise OSError("no /home/someone/secret")

    answer = scripted(engine, Scripted(breaks)).ask(QUESTION, method="drafts")
    assert answer.notes[0] == "Answered plainly, because drafting failed: OSError."
    trace = json.dumps(engine.knowledge.store.trace(answer.trace_id))
    assert "secret" not in trace + json.dumps(answer.audit)
    assert "OSError: no /home/someone/secret" in caplog.text


def test_after_three_failures_drafting_rests_and_is_tried_again(engine: Engine) -> None:
    clock = [0.0]
    engine.breaker = Breaker(3, 30.0, now_s=lambda: clock[0])
    drafter = Failing(first_year)
    scripted(engine, drafter)
    for _ in range(3):
        method, (note, *_) = notes(engine)
        assert method == "plain"
        assert note == "Answered plainly, because drafting failed: The device is lost."
    assert (drafter.num_calls, engine.breaker.state) == (3, "open")
    method, (note, *_) = notes(engine)
    assert method == "plain"
    assert note.startswith("Answered plainly, because drafting rests after failures (drafting ")
    assert drafter.num_calls == 3
    clock[0] = 31.0
    assert notes(engine)[0] == "plain"
    assert (drafter.num_calls, engine.breaker.state) == (4, "open")
    clock[0], drafter.rate = 62.0, 0.0
    assert notes(engine)[0] == "drafts"
    assert engine.breaker.state == "closed"


def test_abstentions_of_one_client_end_drafting_for_nobody(engine: Engine) -> None:
    scripted(engine, Scripted(silent))
    assert [engine.ask(QUESTION, method="drafts").abstained for _ in range(4)] == [True] * 4
    assert engine.breaker.state == "closed"
    assert notes(scripted(engine, Scripted(first_year)))[0] == "drafts"


def test_markers_of_a_drafter_are_no_part_of_its_answer(engine: Engine) -> None:
    scripted(engine, Scripted(lambda prompt: f"{first_year(prompt)} [1]"))
    answer = engine.ask(QUESTION, method="drafts")
    assert answer.audit["candidates"][0]["answer"] == "1846"  # type: ignore[index]
    for one in answer.citations:
        assert "1846" in one.text
    answer = scripted(engine, Scripted(lambda _: "[1, 2]")).ask(QUESTION, method="drafts")
    assert (answer.text, answer.abstained) == (UNCERTAIN, True)


def test_a_question_too_long_for_the_drafter_is_no_failure_of_a_part(engine: Engine) -> None:
    drafter = Scripted(first_year, max_context_tokens=100)
    method, (note, *_) = notes(scripted(engine, drafter))
    assert method == "plain"
    assert note.startswith("Answered plainly, because drafting refused: The question takes ")
    assert (engine.breaker.state, engine.breaker.reason) == ("closed", "")


COMPARED = "Which is older, the lamp of Skerry or the lamp of Orrin?"


def test_a_comparison_is_answered_in_steps(engine: Engine) -> None:
    answer = engine.ask(COMPARED, method="drafts")
    audit: Any = answer.audit
    assert audit["is_combined"]
    asked = [step["question"] for step in audit["steps"]]
    assert asked == ["How old is the lamp of Skerry?", "How old is the lamp of Orrin?"]
    assert answer.notes[0].startswith("Answered in 2 steps: How old is the lamp of Skerry? 1846;")
    assert answer.usage.retrievals == 2
    best = audit["candidates"][0]["probability"]
    steps = [step["candidates"][0]["probability"] for step in audit["steps"]]
    assert answer.confidence == min(best, *steps)
    trace: Any = engine.knowledge.store.trace(answer.trace_id)
    ids = [passage["id"] for passage in trace["attributes"]["passages"]]
    assert len(ids) == len(set(ids)) == len(DOCUMENTS)


def test_a_depth_of_none_splits_nothing(tmp_path: Path, model: TransformersModel) -> None:
    engine = scripted(opened(tmp_path, model, drafts__max_depth=0), Scripted(first_year))
    answer = engine.ask(COMPARED, method="drafts")
    assert answer.audit["steps"] == []
    assert answer.usage.retrievals == 1


def test_a_removed_document_takes_its_drafts_along(engine: Engine) -> None:
    answer = engine.ask(QUESTION, method="drafts")
    engine.knowledge.remove(["legend.txt"])
    with pytest.raises(NotFound):
        engine.knowledge.store.trace(answer.trace_id)


@pytest.mark.parametrize(("preset", "num_calls"), [("fast", 1), ("accurate", 2)])
def test_requests_are_answered_though_parts_fail(
    tmp_path: Path, llama: LlamaForCausalLM, preset: str, num_calls: int
) -> None:
    """At 8 % of calls: drafts or, where a call failed or drafting rests, a plain answer."""
    engine = opened(
        tmp_path,
        TransformersModel(llama, make_tokenizer(), name="tiny"),  # it prefills in large steps
        drafts__preset=preset,
        drafts__retry_after_s=0.0,
        traces__keep=1,
        generation__max_new_tokens=1,
    )
    parts = Failing(first_year, rate=0.08, chance=np.random.default_rng(1))
    scripted(engine, parts)
    only = Filter(documents=("keeper.txt",))
    methods = []
    for _ in range(500):
        before = parts.num_calls
        answer = engine.ask(QUESTION, method="drafts", filter=only)
        assert answer.text and answer.finish_reason != "cancelled"
        methods.append(answer.method)
        if answer.method == "drafts":
            assert "1846" in answer.text
            assert parts.num_calls == before + num_calls
        else:
            assert answer.notes[0].startswith("Answered plainly, because drafting ")
    assert 0.7 * 0.08 * num_calls < methods.count("plain") / 500 < 1.5 * 0.08 * num_calls


def test_what_drafts_read_and_wrote_is_used(tmp_path: Path, model: TransformersModel) -> None:
    engine = opened(tmp_path, model)
    answer = engine.ask(QUESTION, method="drafts")
    drafts = answer.audit["drafts"]
    assert isinstance(drafts, list)
    assert answer.usage.prompt_tokens == sum(draft["num_prompt_tokens"] for draft in drafts) > 0
    assert answer.usage.completion_tokens == sum(draft["num_tokens"] for draft in drafts) > 0


def test_a_plain_answer_after_drafts_is_told_its_own_length(
    tmp_path: Path, model: TransformersModel
) -> None:
    answer = opened(tmp_path, model, drafts__timeout_s=1e-6).ask(QUESTION, method="drafts")
    assert answer.method == "plain"
    assert CUT_OFF.format(3) in answer.notes
