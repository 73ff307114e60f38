"""What conversations hold beside the prefix tree is given back, and read anew."""

import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from readahead.engine import Engine
from readahead.evaluation.lossless import is_lossless
from readahead.lm.model import TransformersModel
from readahead.session import DocumentChat, Session
from readahead.types import Answer
from tests.session.test_session import QUICK, cold, submit, until
from tests.test_engine import QUESTION, open_engine

FOLLOWING = ("and what does it do at night?", "what does the moon do?")


@pytest.fixture
def engine(tmp_path: Path, model: TransformersModel) -> Engine:
    return open_engine(tmp_path, model, **{**QUICK, "prefetch__num_suggestions": 0})


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with Session(engine) as opened:
        yield opened
        assert opened._worker.fault is None


def release(session: Session) -> None:
    session.release()
    session._engine.turns.run(lambda: None)  # behind it


def test_a_session_tells_what_it_holds(engine: Engine, session: Session) -> None:
    assert session.num_bytes == 0
    submit(session, QUESTION)
    turn = session.turns[0]
    num_tokens = len(turn.prompt.token_ids) + len(turn.token_ids)
    held = session.num_bytes / engine.reader.bytes_per_token
    assert num_tokens - 1 <= held <= num_tokens
    session.close()
    assert session.num_bytes == 0


def test_what_is_given_back_is_gone(session: Session) -> None:
    session.type(QUESTION)
    until(lambda: session.status.num_answer_tokens > 0)
    submit(session, QUESTION)
    reading = session._prefetcher._readings._readings[True]
    assert reading is not None
    cache = weakref.ref(reading.cache)
    del reading
    release(session)
    gc.collect()
    assert session.num_bytes == 0
    assert cache() is None


@pytest.mark.parametrize("budget_bytes", [0, 10**9])
def test_a_conversation_goes_on_as_if_nothing_had_been_given_back(
    tmp_path: Path, model: TransformersModel, budget_bytes: int
) -> None:
    flags = {**QUICK, "prefetch__num_suggestions": 0, "cache__budget_bytes": budget_bytes}
    engine = open_engine(tmp_path, model, **flags)
    with Session(engine) as session, Session(engine) as other:
        for question in (QUESTION, *FOLLOWING):
            submit(session, question)
            submit(other, question)
            release(session)
        assert all(is_lossless(engine, turn) for turn in session.turns)
        assert [turn.token_ids for turn in session.turns] == [t.token_ids for t in other.turns]


def test_a_question_read_ahead_and_given_back_is_answered_the_same(
    engine: Engine, session: Session
) -> None:
    session.type(QUESTION)
    until(lambda: session.status.num_answer_tokens > 0)
    release(session)
    assert (session.num_bytes, session.status.num_tokens) == (0, 0)
    answer = submit(session, QUESTION)
    assert answer.text == cold(engine, QUESTION, answer)
    assert answer.usage.retrievals == 0  # what was found is known still
    trace = engine.knowledge.store.trace(answer.trace_id)
    prefetch = trace["attributes"]["prefetch"]  # type: ignore[index]
    assert prefetch["num_answer_tokens_ahead"] == 0
    assert 0 < prefetch["num_useful_tokens"] <= answer.usage.reused_tokens


def test_typing_on_reads_ahead_again(session: Session) -> None:
    session.type(QUESTION)
    until(lambda: session.status.num_answer_tokens > 0)
    release(session)
    session.type(QUESTION + " Really?")
    until(lambda: session.status.num_answer_tokens > 0)
    assert session.num_bytes > 0


def test_one_that_answers_keeps_its_memory(session: Session) -> None:
    stream = session.submit(QUESTION)
    next(stream)
    release(session)
    for _ in stream:
        pass
    assert session.num_bytes > 0


def test_giving_back_does_not_wait_for_the_model(engine: Engine, session: Session) -> None:
    submit(session, QUESTION)
    free, is_held = threading.Event(), threading.Event()

    def hold() -> None:
        is_held.set()
        free.wait()

    holding = threading.Thread(target=engine.turns.run, args=(hold,))
    holding.start()
    is_held.wait()
    session.release()
    assert session.num_bytes > 0
    free.set()
    holding.join()
    until(lambda: session.num_bytes == 0)


def test_a_closed_engine_gives_nothing_back(engine: Engine, session: Session) -> None:
    engine.turns.close()
    session.release()  # harmless


def ask(chat: DocumentChat, question: str) -> Answer:
    *_, answer = chat.submit(question)
    assert isinstance(answer, Answer)
    return answer


def test_a_conversation_about_a_document_gives_back_too(engine: Engine) -> None:
    chat, other = DocumentChat(engine, "tides.md"), DocumentChat(engine, "tides.md")
    assert chat.num_bytes == 0
    for question in (QUESTION, *FOLLOWING):
        assert ask(chat, question).text == ask(other, question).text
        assert chat.num_bytes > 0
        chat.release()
        assert chat.num_bytes == 0
    assert chat.questions == (QUESTION, *FOLLOWING)


def test_a_conversation_that_answers_about_a_document_keeps_its_memory(engine: Engine) -> None:
    chat = DocumentChat(engine, "tides.md")
    ask(chat, QUESTION)
    stream = chat.submit(FOLLOWING[0])
    next(stream)
    chat.release()
    assert chat.num_bytes > 0
    stream.close()
