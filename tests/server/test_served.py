import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from readahead.config import Config
from readahead.engine import Engine
from readahead.errors import InputError, NotFound
from readahead.lm.sample import SamplingParams
from readahead.server import served
from readahead.server.problems import Problem
from readahead.server.served import NOT_AHEAD, Place, ServedSession
from readahead.server.state import Service
from readahead.session import DocumentChat, Session
from readahead.types import Answer, Citation
from tests.server.conftest import make_config
from tests.session.test_session import QUICK, until

QUESTION = "How deep is the lake?"


@pytest.fixture
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return make_config(tmp_path_factory.mktemp("quick"), **QUICK)


@pytest.fixture
def engine(service: Service) -> Engine:
    return service.tenant().engine


@pytest.fixture
def session(engine: Engine) -> Iterator[ServedSession]:
    session = ServedSession(Session(engine), {})
    yield session
    session.close()


def lake(engine: Engine) -> str:
    return next(i.name for i in engine.knowledge.store.documents() if i.name.endswith("lake.md"))


def ask(session: ServedSession, question: str = QUESTION) -> Answer:
    *_, answer = session.submit(question)
    assert isinstance(answer, Answer)
    return answer


def test_what_was_said_is_kept(engine: Engine, session: ServedSession) -> None:
    answer = ask(session, f"  {QUESTION} ")
    (said,) = session.said
    assert (said.question, said.answer) == (QUESTION, answer.text)
    assert (said.finish_reason, said.trace_id) == (answer.finish_reason, answer.trace_id)
    hit = engine.knowledge.search(QUESTION, 1)[0]
    assert said.passages == (Place.of(hit.passage),)
    ask(session, "And the tower?")
    assert len(session.said) == 2
    assert hit.passage.id not in [place.passage_id for place in session.said[1].passages]


def test_of_what_was_said_the_last_is_kept(
    session: ServedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "NUM_KEPT", 2)
    for question in ("How deep?", "How high?", "How old?"):
        ask(session, question)
    assert [said.question for said in session.said] == ["How high?", "How old?"]
    assert session.num_said == 3


def test_a_place_has_no_words() -> None:
    citation = Citation(2, "3.1.7", "a.md", ("A", "B"), 5, 10, 14, "text")
    assert Place.of(citation) == Place("3.1.7", "a.md", ("A", "B"), 5, 10, 14, marker=2)


def test_an_answer_that_is_left_is_kept_as_far_as_it_came(session: ServedSession) -> None:
    with closing(session.submit(QUESTION)) as events:
        text = next(events)
        assert session.is_answering
    assert not session.is_answering
    (said,) = session.said
    assert (said.answer, said.finish_reason) == (text, "cancelled")
    assert len(said.passages) == 1
    assert ask(session).finish_reason != "cancelled"  # and it goes on


def test_a_question_that_cannot_be_asked_is_not_kept(session: ServedSession) -> None:
    with pytest.raises(InputError, match="blank"):
        ask(session, " ")
    assert session.said == ()
    assert not session.is_answering


def test_lone_surrogates_are_not_told_on(session: ServedSession) -> None:
    ask(session, "lake \ud800")
    assert session.said[0].question == "lake \ufffd"


def test_one_answer_at_a_time(session: ServedSession) -> None:
    with closing(session.submit(QUESTION)) as events:
        next(events)
        with pytest.raises(Problem, match="answering already") as caught:
            ask(session)
        assert (caught.value.status, caught.value.code) == (409, "session_busy")
        assert session.is_answering  # the first goes on
        *_, answer = events
        assert isinstance(answer, Answer)
    assert len(session.said) == 1


def test_a_closed_session_answers_nothing(session: ServedSession) -> None:
    assert session.retire()
    with pytest.raises(NotFound):
        ask(session)


def test_one_that_is_answering_is_not_retired(session: ServedSession) -> None:
    with closing(session.submit(QUESTION)) as events:
        next(events)
        assert not session.retire()
    assert session.retire()


def test_closing_ends_the_answer_within_one_step(session: ServedSession) -> None:
    events = session.submit(QUESTION)
    next(events)
    session.close()
    *rest, answer = events
    assert isinstance(answer, Answer)
    assert answer.finish_reason == "cancelled"
    assert answer.usage.completion_tokens <= 2


def test_it_is_idle_from_the_last_stroke_or_token_on(engine: Engine) -> None:
    now_s = 100.0
    session = ServedSession(Session(engine), {}, clock=lambda: now_s)
    now_s = 110.0
    assert session.idle_s == 10
    session.type("How")
    assert session.idle_s == 0
    with closing(session.submit(QUESTION)) as events:
        next(events)
        now_s = 150.0
        assert session.idle_s == 0
    now_s = 151.0
    assert session.idle_s == 1
    session.close()


def test_typing_is_read_ahead_for(session: ServedSession) -> None:
    session.type(QUESTION)
    until(lambda: session.status.num_answer_tokens > 0)
    assert session.status.passages == ("Lake Baikal",)
    assert ask(session).usage.retrievals == 0  # found ahead


def test_params_choose_the_tokens(session: ServedSession) -> None:
    *_, answer = session.submit(QUESTION, params=SamplingParams(max_new_tokens=3))
    assert isinstance(answer, Answer)
    assert answer.usage.completion_tokens == 3


def test_one_document_is_talked_about(engine: Engine) -> None:
    session = ServedSession(DocumentChat(engine, lake(engine)), {})
    session.type(QUESTION)
    assert (session.status.reason, session.suggestions) == (NOT_AHEAD, ())
    assert ask(session).method == "rapid"
    assert session.said[0].passages == ()
    with pytest.raises(Problem, match="as its settings say") as caught:
        next(session.submit(QUESTION, params=SamplingParams(max_new_tokens=3)))
    assert caught.value.status == 400
    session.close()


def test_many_at_once_are_answered_or_refused(session: ServedSession) -> None:
    outcomes: list[int] = []

    def one() -> None:
        try:
            ask(session)
            outcomes.append(200)
        except Problem as problem:
            outcomes.append(problem.status)

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 8
    assert set(outcomes) <= {200, 409}
    assert outcomes.count(200) == len(session.said) >= 1
