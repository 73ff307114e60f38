"""A conversation on real threads: typed ahead, answered as a cold run would."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readahead.engine import Engine
from readahead.errors import BackendError, ContextOverflow, InputError, NotFound
from readahead.evaluation.lossless import is_lossless
from readahead.lm import generate
from readahead.lm.model import TransformersModel
from readahead.lm.prompt import build_prompt
from readahead.lm.sample import SamplingParams
from readahead.reply import PACKED
from readahead.session import Session
from readahead.session.conversation import OVERFLOW
from readahead.session.worker import FAULTY
from readahead.speculation.retrieval.prefetch import Prefetcher
from readahead.types import Answer, Passage
from tests.conftest import make_llama, make_tokenizer
from tests.test_engine import QUESTION, open_engine

QUICK = {
    "prefetch__threshold": 0,
    "prefetch__threshold_question": 0,
    "prefetch__min_typing_s": 0,
    "prefetch__debounce_s": 0,
    "prefetch__rest_s": 0.05,
    "prefetch__step_tokens": 16,
}


@pytest.fixture
def engine(tmp_path: Path, model: TransformersModel) -> Engine:
    return open_engine(tmp_path, model, **QUICK)


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with Session(engine) as opened:
        yield opened
        assert opened._worker.fault is None


def until(is_so: Callable[[], bool], timeout_s: float = 20.0) -> None:
    end_s = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < end_s, "it never happened"
        time.sleep(0.002)


def submit(session: Session, question: str) -> Answer:
    *events, answer = session.submit(question)
    assert isinstance(answer, Answer)
    assert "".join(event for event in events if isinstance(event, str)) == answer.text
    return answer


def trace_of(engine: Engine, answer: Answer) -> dict[str, dict[str, object]]:
    return engine.knowledge.store.trace(answer.trace_id)  # type: ignore[return-value]


def shown(engine: Engine, answer: Answer) -> list[Passage]:
    listed = trace_of(engine, answer)["attributes"]["passages"]
    assert isinstance(listed, list)
    return [engine.knowledge.store.passage(passage["id"]) for passage in listed]


def cold(engine: Engine, question: str, answer: Answer) -> str:
    """Return what a cold run over the same passages in the same order says."""
    passages = shown(engine, answer)
    tokenizer = engine.target.tokenizer
    prompt = build_prompt(tokenizer, question, passages, max_tokens=1900)
    params = SamplingParams(max_new_tokens=40)
    return generate.generate(engine.target, [prompt.token_ids], params)[0].text


def test_typed_ahead_or_not_the_answer_is_the_same(engine: Engine, session: Session) -> None:
    for end in range(4, len(QUESTION) + 1, 3):
        session.type(QUESTION[:end])
    session.type(QUESTION)
    until(lambda: session.status.num_answer_tokens == 16)
    assert session.status.passages[0] == "Tides"
    answer = submit(session, QUESTION)
    assert answer.text == cold(engine, QUESTION, answer)
    assert answer.method == "prefetch"
    prefetch = trace_of(engine, answer)["attributes"]["prefetch"]
    assert isinstance(prefetch, dict)
    assert prefetch["num_answer_tokens_ahead"] == 16
    assert answer.usage.retrievals == 0  # found ahead, and nothing changed since


def test_a_question_that_was_not_typed_is_answered_too(engine: Engine, session: Session) -> None:
    answer = submit(session, QUESTION)
    assert answer.text == cold(engine, QUESTION, answer)
    assert answer.usage.retrievals == 1
    plain = engine.ask(QUESTION)
    assert [p.id for p in shown(engine, answer)] == [p.id for p in shown(engine, plain)]
    assert answer.text == plain.text


def test_every_stroke_counts_from_the_first_letter_on(engine: Engine, session: Session) -> None:
    for question in (QUESTION, " what does a lamp burn ?", "几点开门？"):
        for end in range(1, len(question) + 1):
            session.type(question[:end])
            time.sleep(0.005)
        submit(session, question)
        session.type("")
    assert all(is_lossless(engine, turn) for turn in session.turns)


def test_a_fault_of_a_guess_costs_no_answer(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: object, **kwargs: object) -> bool:
        raise KeyError("oops")

    monkeypatch.setattr(Prefetcher, "guess", broken)
    monkeypatch.setattr(Prefetcher, "finish", broken)
    with Session(engine) as session:
        session.type(QUESTION)
        until(lambda: session._worker.fault is not None)
        assert session.status.reason == "a fault: KeyError"
        assert "KeyError: 'oops'" in caplog.text
        answer = submit(session, QUESTION)
        assert answer.text == engine.ask(QUESTION).text
        session.type("")
        session.type(QUESTION)  # harmless
        assert session.status.reason == FAULTY


def test_typing_returns_at_once_whatever_the_worker_does(session: Session) -> None:
    free = threading.Event()
    taken = threading.Thread(target=session._engine.turns.run, args=(free.wait,))
    taken.start()
    began_s = time.monotonic()
    for end in range(1, len(QUESTION)):
        session.type(QUESTION[:end])
    assert time.monotonic() - began_s < 0.5
    free.set()
    taken.join()


def test_a_guess_that_was_wrong_leaves_no_trace_in_the_answer(
    engine: Engine, session: Session
) -> None:
    session.type("what does a lamp burn at night?")
    until(lambda: session.status.num_answer_tokens > 0)
    answer = submit(session, QUESTION)
    assert answer.text == cold(engine, QUESTION, answer)
    counters = trace_of(engine, answer)["counters"]
    assert counters["wasted_tokens"] > 0  # type: ignore[operator]


def test_switched_off_nothing_is_done_ahead(tmp_path: Path, model: TransformersModel) -> None:
    engine = open_engine(tmp_path, model, prefetch__enabled=False)
    with Session(engine) as session:
        session.type(QUESTION)
        assert session._worker._thread is None
        answer = submit(session, QUESTION)
    assert answer.text == engine.ask(QUESTION).text


def test_a_running_answer_is_not_slowed_by_typing(engine: Engine, session: Session) -> None:
    stream = session.submit(QUESTION)
    next(stream)
    session.type("what does a lamp burn at night?")
    time.sleep(0.15)  # rested and due, had there been no answer
    assert session.status.num_tokens == 0
    assert session._prefetcher.num_computed_tokens == 0
    for _ in stream:
        pass
    until(lambda: session.status.num_tokens > 0)  # now


def test_who_stops_listening_can_go_on(engine: Engine, session: Session) -> None:
    stream = session.submit(QUESTION)
    next(stream)
    stream.close()
    session.type("what does a lamp burn?")
    until(lambda: session.status.num_answer_tokens > 0)
    answer = submit(session, "what does a lamp burn?")
    assert answer.finish_reason in {"length", "stop"}


def test_a_cancelled_answer_stops_within_one_step(session: Session) -> None:
    stop = threading.Event()
    pieces = []
    for event in session.submit(QUESTION, cancelled=stop.is_set):
        pieces.append(event)
        stop.set()
    assert isinstance(pieces[-1], Answer)
    assert pieces[-1].finish_reason == "cancelled"
    assert pieces[-1].usage.completion_tokens <= 3


def test_turns_follow_each_other_on_one_cache(engine: Engine, session: Session) -> None:
    """Each answer is what a cold reading of the whole conversation gives."""
    for question in (QUESTION, "and what does it do at night?", "what does the moon do?"):
        session.type(question)
        until(lambda: session.status.num_answer_tokens > 0)
        submit(session, question)
    turns = session.turns
    assert [is_lossless(engine, turn) for turn in turns] == [True] * 3
    for earlier, later in pairwise(turns):
        before = (*earlier.prompt.token_ids, *earlier.token_ids)
        assert later.prompt.token_ids[: len(before)] == before
        assert not set(ids(later.prompt.passages)) & set(ids(earlier.prompt.passages))


def ids(passages: Sequence[Passage]) -> list[str]:
    return [passage.id for passage in passages]


def test_a_document_that_is_removed_is_never_shown_again(engine: Engine, session: Session) -> None:
    session.type("what does a lamp burn?")
    until(lambda: session.status.num_answer_tokens > 0)
    engine.knowledge.remove(["lamps.txt"])
    answer = submit(session, "what does a lamp burn?")
    assert {p.document for p in shown(engine, answer)} == {"tides.md"}
    assert all(not label.startswith("2.") for label in engine.reader.tree.labels())
    assert answer.text == cold(engine, "what does a lamp burn?", answer)


def test_a_conversation_that_shows_a_removed_document_begins_anew(
    engine: Engine, session: Session
) -> None:
    submit(session, "what does a lamp burn?")
    assert any(p.document == "lamps.txt" for p in session._conversation.context.passages)
    engine.knowledge.remove(["lamps.txt"])
    answer = submit(session, QUESTION)
    assert answer.text == cold(engine, QUESTION, answer)
    assert all(p.document == "tides.md" for p in session._conversation.context.passages)


def test_an_empty_knowledge_base_says_so(tmp_path: Path, model: TransformersModel) -> None:
    engine = open_engine(tmp_path, model, **QUICK)
    engine.knowledge.remove(["lamps.txt", "tides.md"])
    with Session(engine) as session:
        session.type(QUESTION)
        time.sleep(0.1)
        answer = submit(session, QUESTION)
    assert answer.abstained
    assert answer.usage.computed_tokens == 0


@pytest.mark.parametrize("question", ["", "  \n"])
def test_a_blank_question_is_refused(session: Session, question: str) -> None:
    session.type(question)
    with pytest.raises(InputError, match="blank"):
        submit(session, question)


def test_a_question_too_long_for_the_context_is_an_error_and_the_session_goes_on(
    tmp_path: Path,
) -> None:
    small = make_llama(max_position_embeddings=600)
    engine = open_engine(tmp_path, TransformersModel(small, make_tokenizer()), **QUICK)
    with Session(engine) as session:
        session.type("why " * 300)
        time.sleep(0.1)
        with pytest.raises(ContextOverflow):
            submit(session, "why " * 300)
        answer = submit(session, QUESTION)
        assert answer.text


def test_closing_ends_the_worker(engine: Engine) -> None:
    session = Session(engine)
    session.type(QUESTION)
    worker = session._worker._thread
    assert worker is not None
    session.close()
    assert not worker.is_alive()
    session.type("more")  # harmless
    session.close()


def test_two_sessions_share_what_was_read(engine: Engine, session: Session) -> None:
    submit(session, QUESTION)
    with Session(engine) as other:
        answer = submit(other, QUESTION)
        assert answer.usage.reused_tokens > 0.5 * answer.usage.prompt_tokens
        assert answer.text == cold(engine, QUESTION, answer)


def test_no_budget_still_answers(tmp_path: Path, model: TransformersModel) -> None:
    engine = open_engine(tmp_path, model, cache__budget_bytes=0, **QUICK)
    with Session(engine) as session:
        session.type(QUESTION)
        until(lambda: session.status.num_answer_tokens > 0)
        answer = submit(session, QUESTION)
    assert answer.text == cold(engine, QUESTION, answer)


lines = st.lists(
    st.sampled_from(["how often does", "the tide", "turn?", "what", "a lamp burns?", "moon", " "]),
    max_size=6,
)


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    lines=lines, pauses=st.lists(st.sampled_from([0, 0.003, 0.02, 0.08]), min_size=6, max_size=6)
)
def test_any_typing_at_any_pace_gives_the_answer_of_a_cold_run(
    engine: Engine, lines: list[str], pauses: list[float]
) -> None:
    with Session(engine) as session:
        text = ""
        for line, pause_s in zip(lines, pauses, strict=False):
            text += line + " "
            session.type(text)
            time.sleep(pause_s)
        question = text if text.strip() else QUESTION
        answer = submit(session, question)
        assert answer.text == cold(engine, question.strip(), answer)
        assert session._worker.fault is None


def test_a_second_question_waits_for_the_end_of_the_first(session: Session) -> None:
    stream = session.submit(QUESTION)
    next(stream)
    with pytest.raises(InputError, match="answering already"):
        submit(session, "what does a lamp burn?")
    stream.close()
    assert submit(session, "what does a lamp burn?").text


def test_an_answer_that_never_began_can_be_followed(engine: Engine, session: Session) -> None:
    answer = list(session.submit(QUESTION, cancelled=lambda: True))[-1]
    assert isinstance(answer, Answer)
    assert answer.usage.completion_tokens == 0
    submit(session, "and what does it do at night?")
    assert is_lossless(engine, session.turns[1])


def test_an_engine_that_is_closed_first_is_said_in_one_line(engine: Engine) -> None:
    with Session(engine) as session:
        session.type(QUESTION)
        engine.turns.close()
        with pytest.raises(InputError, match="closed"):
            submit(session, QUESTION)


def test_what_was_removed_is_not_ready_any_more(engine: Engine, session: Session) -> None:
    session.type("what does a lamp burn?")
    until(lambda: bool(session.status.passages))
    engine.knowledge.remove(["lamps.txt"])
    assert session.status.passages == ()


def test_a_trace_of_what_was_removed_meanwhile_is_not_kept(
    engine: Engine, session: Session
) -> None:
    for stream in (session.submit("what does a lamp burn?"), engine.stream("does a lamp burn?")):
        next(stream)
        engine.knowledge.remove(["lamps.txt"])
        *_, answer = stream
        assert isinstance(answer, Answer)
        with pytest.raises(NotFound):
            engine.knowledge.store.trace(answer.trace_id)
        engine.knowledge.add(["-"], stdin=b"A lamp burns oil.", stdin_name="lamps.txt")


def test_a_fault_in_the_middle_of_a_guess_costs_no_answer(
    engine: Engine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(session, QUESTION)
    session.type("and what does the moon do to the water?")
    until(lambda: session.status.num_answer_tokens > 0)
    whole, calls = engine.target.forward, [0]

    def failing(*args: object, **kwargs: object) -> object:
        calls[0] += 1
        if calls[0] == 2:
            raise RuntimeError("oops")
        return whole(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(engine.target, "forward", failing)
    session.type("and what burns oil at night in a lamp by the sea?")
    until(lambda: session._worker.fault is not None)
    monkeypatch.setattr(engine.target, "forward", whole)
    submit(session, "and what does the moon do to the water?")
    assert is_lossless(engine, session.turns[1])
    session._worker.fault = None


def test_an_answer_that_failed_is_not_followed(
    engine: Engine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = engine.target.forward

    def failing(*args: object, **kwargs: object) -> object:
        raise BackendError("The device is lost.")

    monkeypatch.setattr(engine.target, "forward", failing)
    with pytest.raises(BackendError):
        submit(session, QUESTION)
    assert not session.turns
    monkeypatch.setattr(engine.target, "forward", whole)
    assert submit(session, QUESTION).text == engine.ask(QUESTION).text
    assert is_lossless(engine, session.turns[0])


def test_a_half_typed_line_is_read_again_once_documents_have_changed(
    engine: Engine, session: Session
) -> None:
    session.type("what does a lamp burn at ")
    until(lambda: len(session.status.passages) > 0)
    engine.knowledge.remove(["tides.md"])
    engine.forget_stale()
    until(lambda: len(session.status.passages) > 0)


def test_a_guess_that_finds_its_documents_changed_begins_anew(
    engine: Engine, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm, is_held, has_changed = session._prefetcher.warm, threading.Event(), threading.Event()

    def held(*args: object, **kwargs: object) -> bool:
        if not has_changed.is_set():
            is_held.set()
            has_changed.wait(20)
            return False
        return warm(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(session._prefetcher, "warm", held)
    session.type("what does a lamp burn at ")
    assert is_held.wait(20)  # before, the settled line would be guessed for once more
    assert session.status.passages
    engine.knowledge.remove(["tides.md"])
    assert not session.status.passages
    has_changed.set()
    until(lambda: len(session.status.passages) > 0)


def test_an_answer_tells_what_was_done_ahead_for_it(engine: Engine, session: Session) -> None:
    session.type(QUESTION)
    until(lambda: session.status.num_answer_tokens > 0)
    guessed = submit(session, QUESTION)
    told = guessed.speculation["prefetch"]
    assert isinstance(told, dict)
    assert told["guessed"] == [passage.id for passage in session.turns[0].passages]
    assert told["num_kept_passages"] == len(told["guessed"])
    assert told["num_answer_tokens_ahead"] > 0
    assert told["computed_ahead_tokens"] >= told["num_useful_tokens"] > 0
    assert told["wasted_tokens"] < told["computed_ahead_tokens"]
    assert told["retrievals_ahead"] > 0
    assert engine.ask(QUESTION).speculation == {}


def test_what_is_followed_counts_for_what_is_typed_already(engine: Engine) -> None:
    said, asked = (QUESTION, "Twice a day."), "Why does the sea do so?"
    with Session(engine) as session:
        session.type(asked)
        until(lambda: session.status.num_answer_tokens > 0)
        session.follow([said])
        answer = submit(session, asked)
        assert is_lossless(engine, session.turns[1])
    with Session(engine) as session:
        session.follow([said])
        assert submit(session, asked).text == answer.text
        events = session.submit(QUESTION)
        next(events)
        with pytest.raises(InputError, match="answering already"):
            session.follow([said])
        events.close()


def test_packed_prefixes_are_told_in_the_answer(tmp_path: Path, model: TransformersModel) -> None:
    flags = {**QUICK, "cache__storage": "int8", "cache__budget_bytes": 80_000, "retrieval__k": 1}
    engine = open_engine(tmp_path, model, **flags)
    with Session(engine) as session:
        notes: list[str] = []
        for question in (QUESTION, "what does a lamp burn?", "what does the moon do?") * 3:
            notes += submit(session, question).notes
            session._conversation.forget()
            session._prefetcher.reset()
    assert engine.reader.tree.steps["packed"] > 0
    assert PACKED in notes


def test_a_question_can_follow_what_was_said_elsewhere(engine: Engine) -> None:
    with Session(engine) as session:
        session.follow([(QUESTION, "Twice a day [1].")])
        assert [turn.question for turn in session.turns] == [QUESTION]
        assert session.turns[0].text == "Twice a day."
        behind = submit(session, "Why does it do so?")
    with Session(engine) as session:
        alone = submit(session, "Why does it do so?")
    assert behind.usage.prompt_tokens > alone.usage.prompt_tokens


def test_what_does_not_fit_is_not_followed(engine: Engine) -> None:
    long = ("What? " * 100, "That. " * 100)
    with Session(engine) as session:
        session.follow([long, long, (QUESTION, "Twice.")])
        assert len(session.turns) == 3
        assert "".join(session.turns[-1].prompt.text).count("What?") == 100
    with Session(engine) as session:
        session.follow([("What? " * 1000, "")])
        assert session.turns == ()
        assert OVERFLOW in submit(session, QUESTION).notes


def test_a_question_may_be_answered_otherwise_than_it_was_begun_ahead(
    engine: Engine, session: Session
) -> None:
    session.type(QUESTION)
    until(lambda: session.status.num_answer_tokens > 0)
    params = SamplingParams(max_new_tokens=4, temperature=1.5, seed=3)
    *_, answer = session.submit(QUESTION, params=params)
    assert isinstance(answer, Answer)
    tokenizer = engine.target.tokenizer
    prompt = build_prompt(tokenizer, QUESTION, shown(engine, answer), max_tokens=1900)
    assert answer.text == generate.generate(engine.target, [prompt.token_ids], params)[0].text
    assert answer.usage.reused_tokens > 0


@pytest.mark.parametrize("num_tokens", [5, 60])
def test_an_answer_begun_ahead_may_be_asked_for_in_another_length(
    engine: Engine, session: Session, num_tokens: int
) -> None:
    session.type(QUESTION)
    until(lambda: session.status.num_answer_tokens == 16)
    params = SamplingParams(max_new_tokens=num_tokens)
    *_, answer = session.submit(QUESTION, params=params)
    assert isinstance(answer, Answer)
    prompt = build_prompt(engine.target.tokenizer, QUESTION, shown(engine, answer), max_tokens=1900)
    plain = generate.generate(engine.target, [prompt.token_ids], params)[0]
    assert (answer.text, answer.finish_reason) == (plain.text, plain.finish_reason)
    prefetch = trace_of(engine, answer)["attributes"]["prefetch"]
    assert isinstance(prefetch, dict)
    assert prefetch["num_answer_tokens_ahead"] == min(16, num_tokens)
    submit(session, "and what does the moon do?")  # behind the answer as it was given
    assert session.turns[1].prompt.token_ids[len(prompt.token_ids) :][:num_tokens] == (
        plain.token_ids
    )
    assert is_lossless(engine, session.turns[1])
