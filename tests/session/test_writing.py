"""Passages that are injected into the answers of a conversation, also ahead of the question."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from readahead.engine import Engine
from readahead.evaluation.lossless import is_lossless, verify
from readahead.lm.generate import generate
from readahead.lm.model import TransformersModel
from readahead.lm.sample import SamplingParams
from readahead.reply import Reply
from readahead.retrieval.base import Filter
from readahead.session import Session
from readahead.speculation.retrieval.inject import Injecting
from readahead.speculation.retrieval.written import Written
from readahead.trace import Trace
from readahead.types import Answer, Passage
from tests.session.test_conversation import ask, opened
from tests.session.test_session import until

FIRST = "What does the lamp of the lighthouse burn?"
SECOND = "And who is its keeper?"
SKIPPED = "Does the lamp of the lighthouse burn whale oil?"
OTHER = "When does the bakery sell rye bread?"
ALWAYS = {
    "inject__enabled": True,
    "inject__threshold": 0.0,
    "inject__min_similarity": -1.0,
    "inject__max_injections": 1,
    "inject__max_tokens_each": 90,
    "inject__max_tokens": 90,
    "inject__cool_down_tokens": 0,
    "inject__jump": 0.0,
}
AHEAD = {
    "enabled": True,
    "threshold": 0,
    "threshold_question": 0,
    "min_typing_s": 0,
    "debounce_s": 0,
    "rest_s": 0.05,
    "step_tokens": 16,
    "decode_ahead_tokens": 4,
    "num_suggestions": 0,
}


def always(folder: Path, model: TransformersModel, **flags: object) -> Engine:
    """Return an engine whose every answer gets a passage, as soon as one is asked for."""
    return opened(folder, model, **(ALWAYS | flags))


@pytest.fixture
def engine(tmp_path: Path, model: TransformersModel) -> Engine:
    return always(tmp_path, model)


@pytest.fixture
def ahead(engine: Engine) -> Engine:
    """Return the same, but what is typed is read ahead."""
    prefetch = engine.config.prefetch.model_copy(update=AHEAD)
    engine.config = engine.config.model_copy(update={"prefetch": prefetch})
    return engine


@pytest.fixture
def late(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Return an engine whose answers get a passage within them, not before."""
    monkeypatch.setattr(Injecting, "_begins", lambda self: False)
    generation = engine.config.generation.model_copy(update={"max_new_tokens": 40})
    engine.config = engine.config.model_copy(update={"generation": generation})
    return engine


def ids(session: Session) -> list[str]:
    return [passage.id for passage in session._conversation.context.passages]


def attributes(engine: Engine, answer: Answer) -> dict[str, list[dict[str, object]]]:
    return engine.knowledge.store.trace(answer.trace_id)["attributes"]  # type: ignore[return-value]


def counters(engine: Engine, answer: Answer) -> dict[str, int]:
    return engine.knowledge.store.trace(answer.trace_id)["counters"]  # type: ignore[return-value]


def injected(engine: Engine, answer: Answer) -> list[object]:
    log = attributes(engine, answer)["inject"]
    return [id for asked in log for id in asked.get("injected", [])]  # type: ignore[attr-defined]


def test_what_is_injected_stands_behind_what_was_shown_and_is_followed(engine: Engine) -> None:
    with Session(engine) as session:
        answers = [ask(session, question) for question in (FIRST, SECOND)]
        first, second = session.turns
        assert [injected(engine, answer) for answer in answers] == [["4.1.0"], ["5.1.0"]]
        assert [p.id for p in first.prompt.passages] == ["3.1.0", "4.1.0"]
        assert [p.id for p in second.prompt.passages] == ["5.1.0"]
        before = (*first.prompt.token_ids, *first.token_ids)
        assert second.prompt.token_ids[: len(before)] == before
        assert "[2] keeper.txt" in second.prompt.text
        assert "[3] tide.txt" in second.prompt.text
        assert answers[1].usage.reused_tokens >= len(before) - 1
        # Before the first token: the answer is that of a cold run over the longer prompt.
        assert all(is_lossless(engine, turn) for turn in session.turns)


@pytest.mark.parametrize("placement", ["note", "turn", "prompt"])
def test_a_turn_behind_an_answer_with_a_note_is_that_of_a_cold_run(
    late: Engine, monkeypatch: pytest.MonkeyPatch, placement: str
) -> None:
    inject = late.config.inject.model_copy(update={"placement": placement})
    late.config = late.config.model_copy(update={"inject": inject})
    with Session(late) as session:
        answer = ask(session, FIRST)
        assert injected(late, answer) == ["4.1.0"]
        first = session.turns[0]
        assert [p.id for p in first.injected] == ["4.1.0"] * (placement != "prompt")
        assert [p.id for p in first.passages] == ids(session) == ["3.1.0", "4.1.0"]
        held = session._prefetcher._readings.on(session._conversation.context)
        assert held is not None
        assert held.cache.length == len(held.token_ids)
        monkeypatch.setattr(Injecting, "_may_inject", lambda self: False)
        answer = ask(session, SECOND)
        second = session.turns[1]
        before = (*first.prompt.token_ids, *first.token_ids)
        assert second.prompt.token_ids[: len(before)] == before
        assert second.prompt.passages == ()  # both of them are in context
        assert answer.usage.reused_tokens >= len(before) - 1
        assert is_lossless(late, second)


def test_what_comes_behind_a_note_is_that_of_a_cold_run(late: Engine) -> None:
    with Session(late) as session:
        answer = ask(session, FIRST)
        turn = session.turns[0]
        written = late.target.tokenizer.decode(list(turn.token_ids))
        assert "[2] keeper.txt\nThe keeper" in written
        begin = len(turn.token_ids)
        while not late.target.tokenizer.decode(list(turn.token_ids[:begin])).endswith("Answer: "):
            begin -= 1
        (*_, asked) = attributes(late, answer)["inject"]
        begin += int(str(asked["at_token"]))  # what was out already is read again behind the note
        read = (*turn.prompt.token_ids, *turn.token_ids[:begin])
        params = SamplingParams(max_new_tokens=len(turn.token_ids) - begin)
        (cold,) = generate(late.target, [read], params)
        assert cold.token_ids == turn.token_ids[begin:]


def test_a_question_whose_search_is_skipped_is_judged_by_what_is_in_context(
    engine: Engine,
) -> None:
    with Session(engine) as session:
        ask(session, FIRST)
        answer = ask(session, SKIPPED)
        (asked,) = attributes(engine, answer)["inject"]
        query = engine.knowledge.search(SKIPPED, 1)[0]
        signals = asked["signals"]
        assert isinstance(signals, dict)
        assert query.passage.id == "3.1.0"
        assert signals["similarity"] == pytest.approx(query.similarity, abs=1e-5)
        assert counters(engine, answer)["retrievals_skipped"] == 1
        assert set(injected(engine, answer)) & set(ids(session)[:2]) == set()
        assert answer.usage.retrievals == 1  # the injection's own


def test_nothing_is_shown_twice_in_a_conversation(engine: Engine) -> None:
    with Session(engine) as session:
        for question in (FIRST, SECOND, SKIPPED, "And what else of it?"):
            ask(session, question)
        assert len(ids(session)) == len(set(ids(session))) == 4


def test_a_question_that_rests_gets_its_passages_ahead(ahead: Engine) -> None:
    with Session(ahead) as session:
        session.type(FIRST)
        until(lambda: session.status.num_answer_tokens == 4)
        answer = ask(session, FIRST)
        assert injected(ahead, answer) == ["4.1.0"]
        assert answer.usage.retrievals == 0
        assert counters(ahead, answer)["retrievals_ahead"] >= 2
        assert counters(ahead, answer)["injections"] == 1
        assert is_lossless(ahead, session.turns[0])
        told = attributes(ahead, answer)["prefetch"]
        assert told["num_answer_tokens_ahead"] == 4  # type: ignore[call-overload]
        assert told["num_useful_tokens"] > len(session.turns[0].prompt.token_ids) - 60  # type: ignore[call-overload]
        session.type(SECOND)
        until(lambda: session.status.num_answer_tokens == 4)
        ask(session, SECOND)
        assert is_lossless(ahead, session.turns[1])
        assert session._worker.fault is None


def test_a_branch_that_is_dropped_leaves_nothing_behind(ahead: Engine) -> None:
    with Session(ahead) as session:
        session.type(FIRST)
        until(lambda: session.status.num_answer_tokens == 4)
        assert session._prefetcher.ahead is not None
        assert session._prefetcher.ahead.has_injected
        inject = ahead.config.inject.model_copy(update={"threshold": 1.0})
        ahead.config = ahead.config.model_copy(update={"inject": inject})
        answer = ask(session, OTHER)
        assert injected(ahead, answer) == []
        assert "injections" not in counters(ahead, answer)
        assert [one["id"] for one in attributes(ahead, answer)["passages"]] == ["6.1.0"]
        assert ids(session) == ["6.1.0"]
        assert "[1] bread.txt" in session.turns[0].prompt.text
        assert is_lossless(ahead, session.turns[0])


def test_a_branch_without_an_answer_leaves_nothing_in_the_trace(ahead: Engine) -> None:
    with Session(ahead) as session:
        session.type(FIRST)
        until(lambda: session.status.num_answer_tokens == 4)
        ahead.knowledge.remove(["lamp.txt", "keeper.txt", "tide.txt", "bread.txt"])
        answer = ask(session, FIRST)
        assert answer.abstained
        assert "inject" not in attributes(ahead, answer)


def test_typing_on_drops_what_was_injected(ahead: Engine) -> None:
    with Session(ahead) as session:
        for end in ("?", " at night?", " at night in winter?"):
            session.type(FIRST[:-1] + end)
            until(lambda: session.status.num_answer_tokens == 4)
        answer = ask(session, FIRST[:-1] + " at night in winter?")
        assert counters(ahead, answer)["injections"] == 1
        assert len(attributes(ahead, answer)["inject"]) == 1
        assert len(ids(session)) == 2
        assert is_lossless(ahead, session.turns[0])


@pytest.mark.parametrize("after", range(1, 30, 4))
def test_a_cancelled_answer_leaves_the_session_usable(
    late: Engine, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    with Session(late) as session:
        asked = iter(range(after))
        *_, answer = session.submit(FIRST, cancelled=lambda: next(asked, None) is None)
        assert isinstance(answer, Answer)
        assert answer.finish_reason == "cancelled"
        follow(late, session, monkeypatch)


@pytest.mark.parametrize("num_events", [1, 2, 6, 12])
def test_a_listener_who_leaves_can_go_on(
    late: Engine, monkeypatch: pytest.MonkeyPatch, num_events: int
) -> None:
    with Session(late) as session:
        stream = session.submit(FIRST)
        for _ in range(num_events):
            next(stream)
        stream.close()
        follow(late, session, monkeypatch)


def test_who_leaves_before_all_that_was_written_came_out_can_go_on(
    late: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a sentence that may become a refusal is held."""
    monkeypatch.setattr(Injecting, "_is_held", lambda self, start: True)
    monkeypatch.setattr(Injecting, "_consider", lambda self, moment: None)
    monkeypatch.setattr(Written, "sentence_start", lambda self: max(0, len(self.tokens) - 3))
    with Session(late) as session:
        stream = session.submit(FIRST)
        next(stream)
        stream.close()
        follow(late, session, monkeypatch)


def follow(engine: Engine, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask what follows a turn that was ended, and compare it with a cold run."""
    held = session._prefetcher._readings.on(session._conversation.context)
    assert held is not None
    assert held.cache.length == len(held.token_ids)
    monkeypatch.setattr(Injecting, "_may_inject", lambda self: False)
    ask(session, SECOND)
    assert is_lossless(engine, session.turns[1])


def test_a_document_whose_passage_was_injected_takes_all_of_it_along(late: Engine) -> None:
    """Neither its trace nor what was read of it outlives it."""
    with Session(late) as session:
        answer = ask(session, FIRST)
        ask(session, SECOND)  # keeps in the tree what was read before it
        assert any("4.1.0" in label for label in late.reader.tree.labels())
        assert [one["id"] for one in attributes(late, answer)["passages"]] == ["3.1.0", "4.1.0"]
        late.knowledge.remove(["keeper.txt"])
        assert answer.trace_id not in str(late.knowledge.store.traces())
        ask(session, FIRST)
        assert not any("4.1.0" in label for label in late.reader.tree.labels())
        assert "Brightwater" not in session.turns[-1].prompt.text


def test_a_saved_session_holds_what_was_injected(late: Engine, tmp_path: Path) -> None:
    with Session(late) as session:
        ask(session, FIRST)
        session.save(tmp_path / "saved.json")
        with Session.load(late, tmp_path / "saved.json") as loaded:
            assert loaded.turns == session.turns
            assert loaded._conversation.context == session._conversation.context


def test_a_shortened_passage_is_saved_as_it_was(tmp_path: Path, model: TransformersModel) -> None:
    engine = always(tmp_path, model)
    text = b"Gulls nest all along the shore and feed on fish and crabs. "
    text += b"The lighthouse lamp is kept by Ada. "
    engine.knowledge.add(["-"], stdin=text * 4, stdin_name="keeper.txt")
    with Session(engine) as session:
        ask(session, FIRST)
        assert session.turns[0].prompt.passages[1].start > 0
        session.save(tmp_path / "saved.json")
        with Session.load(engine, tmp_path / "saved.json") as loaded:
            assert loaded.turns == session.turns


def test_a_filter_holds_for_what_is_injected(engine: Engine) -> None:
    with Session(engine, filter=Filter(documents=("lamp.txt", "tide.txt"))) as session:
        ask(session, FIRST)
        assert set(ids(session)) == {"3.1.0", "5.1.0"}


def test_switched_off_nothing_is_asked(engine: Engine) -> None:
    with Session(engine, inject=False) as session:
        answer = ask(session, FIRST)
        assert "inject" not in attributes(engine, answer)
        with session.fork() as twin:
            assert twin._injects is False


def test_what_verify_compares_has_nothing_injected(ahead: Engine) -> None:
    report = verify(ahead, [FIRST, OTHER])
    assert report.num_identical == 2
    assert "inject" not in str(ahead.knowledge.store.traces())


def test_what_was_injected_can_be_cited(ahead: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    extended: list[tuple[str, ...]] = []
    whole = Reply.extend

    def extend(self: Reply, passages: Sequence[Passage], *, in_front: bool = False) -> None:
        extended.append(tuple(passage.id for passage in passages))
        assert not in_front
        whole(self, passages, in_front=in_front)

    monkeypatch.setattr(Reply, "extend", extend)
    with Session(ahead) as session:
        session.type(FIRST)
        until(lambda: session.status.num_answer_tokens == 4)
        assert extended == []  # a branch tells nobody
        ask(session, FIRST)
    assert extended == [("4.1.0",)]


def test_what_is_injected_ahead_is_read_in_small_steps(ahead: Engine) -> None:
    with Session(ahead) as session:
        prefetcher, request, trace = session._prefetcher, session._request, Trace("ask")
        config = prefetcher._config
        prefetcher._config = config.model_copy(update={"decode_ahead_tokens": 0})
        assert prefetcher.finish(FIRST, request, trace=trace)
        prefetcher._config = config
        branch = prefetcher.ahead
        assert branch is not None
        branch.step()
        assert branch.has_injected
        num_unread, num_stops = len(branch.unread), 0
        assert num_unread > 4 * 16
        while branch.unread:
            assert branch.reading.token_ids == branch.token_ids[: branch.reading.cache.length]
            stop = partial(next, iter([False]), True)
            assert not prefetcher.finish(FIRST, request, cancelled=stop, trace=trace)
            num_stops += 1
        assert num_stops >= num_unread / 16
        ask(session, FIRST)
        assert ids(session) == ["3.1.0", "4.1.0"]
        assert is_lossless(ahead, session.turns[0])
