import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from readahead.engine import Engine
from readahead.errors import NotFound
from readahead.server.conversing import Sessions
from readahead.server.problems import Problem
from readahead.server.served import TYPING_S, ServedSession
from readahead.server.state import Service
from readahead.session import Session
from tests.session.test_session import until

QUESTION = "How deep is the lake?"


class Clock:
    """Tells the seconds that a test says."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def engine(service: Service) -> Engine:
    return service.tenant().engine


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock, service: Service) -> Iterator[Sessions]:
    """Return some that are closed before the knowledge base is, which their guesses use."""
    sessions = Sessions(3, 60.0, clock)
    yield sessions
    sessions.close()


def opened(sessions: Sessions, engine: Engine, clock: Clock, num: int) -> list[ServedSession]:
    """Open some, a second after each other."""
    found = []
    for _ in range(num):
        found.append(sessions.open(Session(engine)))
        clock.now_s += 1
    return found


def test_ids_cannot_be_guessed(sessions: Sessions, engine: Engine, clock: Clock) -> None:
    ids = {session.id for session in opened(sessions, engine, clock, 3)}
    assert len(ids) == 3
    assert all(len(id) >= 32 for id in ids)  # 24 random bytes


def test_one_is_found_by_its_id(sessions: Sessions, engine: Engine, clock: Clock) -> None:
    first, second = opened(sessions, engine, clock, 2)
    assert sessions.get(first.id) is first
    assert list(sessions) == [first, second]
    with pytest.raises(NotFound, match="no such session"):
        sessions.get(first.id[:-1])


def test_the_one_idle_longest_makes_room(sessions: Sessions, engine: Engine, clock: Clock) -> None:
    first, second, third = opened(sessions, engine, clock, 3)
    first.type("How deep")
    (fourth,) = opened(sessions, engine, clock, 1)
    assert list(sessions) == [first, third, fourth]
    with pytest.raises(NotFound):
        next(second.submit("How deep?"))


def test_one_that_is_answering_stays(sessions: Sessions, engine: Engine, clock: Clock) -> None:
    first, second, third = opened(sessions, engine, clock, 3)
    with closing(first.submit("How deep is the lake?")) as events:
        next(events)
        clock.now_s += 10
        (fourth,) = opened(sessions, engine, clock, 1)
        assert list(sessions) == [first, third, fourth]
        others = [session.submit("How deep is the lake?") for session in (third, fourth)]
        for other in others:
            next(other)
        with pytest.raises(Problem, match="All 3 sessions are answering") as caught:
            sessions.open(Session(engine))
        assert (caught.value.status, caught.value.headers["Retry-After"]) == (429, "5")
        for other in others:
            other.close()
    assert not second.is_answering


def test_an_idle_one_is_forgotten(sessions: Sessions, engine: Engine, clock: Clock) -> None:
    first, second = opened(sessions, engine, clock, 2)
    clock.now_s += 59.0  # 61 and 60 since they were used
    with pytest.raises(NotFound):
        sessions.get(first.id)
    assert list(sessions) == [second]
    sessions.get(second.id)
    sessions.expire()
    assert list(sessions._sessions) == [second.id]
    with pytest.raises(NotFound):
        next(first.submit("How deep?"))


def test_one_that_is_answering_is_not_idle(
    sessions: Sessions, engine: Engine, clock: Clock
) -> None:
    (session,) = opened(sessions, engine, clock, 1)
    with closing(session.submit("How deep is the lake?")) as events:
        next(events)
        clock.now_s += 1000
        sessions.expire()
        assert sessions.get(session.id) is session


def test_a_removed_one_is_gone(sessions: Sessions, engine: Engine, clock: Clock) -> None:
    first, second = opened(sessions, engine, clock, 2)
    sessions.remove(first.id)
    assert list(sessions) == [second]
    with pytest.raises(NotFound):
        sessions.remove(first.id)


def test_finding_one_does_not_wait_for_the_model(
    sessions: Sessions, engine: Engine, clock: Clock
) -> None:
    """One is being closed whose guess waits for the model; who types in another must not."""
    quick = engine.config.prefetch.model_copy(update={"min_typing_s": 0.0, "debounce_s": 0.0})
    hasty = engine.configured(engine.config.model_copy(update={"prefetch": quick}))
    first, second = opened(sessions, hasty, clock, 2)
    free, is_held = threading.Event(), threading.Event()

    def hold() -> None:
        is_held.set()
        free.wait()

    holding = threading.Thread(target=engine.turns.run, args=(hold,))
    holding.start()
    is_held.wait()
    first.type("How deep is the lake?")
    until(lambda: engine.turns._thread._work_queue.qsize() > 0)
    closing_it = threading.Thread(target=sessions.remove, args=(first.id,))
    closing_it.start()
    closing_it.join(0.1)
    assert closing_it.is_alive()
    assert sessions.get(second.id) is second
    second.type("How")
    free.set()
    holding.join()
    closing_it.join()


def held_by(*sessions: ServedSession) -> list[bool]:
    """Return which of them hold anything, once what was decided is done."""
    session = sessions[0]._about
    assert isinstance(session, Session)
    session._engine.turns.run(lambda: None)
    return [one.num_bytes > 0 for one in sessions]


def answered(session: ServedSession, question: str = QUESTION) -> None:
    assert list(session.submit(question))


@pytest.fixture
def quiet(engine: Engine) -> Engine:
    """Return an engine that reads nothing ahead."""
    prefetch = engine.config.prefetch.model_copy(update={"enabled": False})
    return engine.configured(engine.config.model_copy(update={"prefetch": prefetch}))


def test_those_idle_longest_give_their_memory_back(quiet: Engine, clock: Clock) -> None:
    budgets = [10**9]
    with closing(Sessions(5, 600.0, clock, budget_bytes=lambda: budgets[-1])) as sessions:
        first, second, third = opened(sessions, quiet, clock, 3)
        for session in (second, first, third):
            answered(session)
            clock.now_s += 1
        assert held_by(first, second, third) == [True] * 3
        assert sessions.num_bytes == sum(one.num_bytes for one in (first, second, third))
        budgets.append(first.num_bytes + third.num_bytes)
        sessions.expire()
        assert held_by(first, second, third) == [True, False, True]
        budgets.append(10**9)
        answered(second, "Where is the tower?")  # goes on; now the first is idle longest
        clock.now_s += 1
        budgets.append(second.num_bytes + third.num_bytes)
        sessions.expire()
        assert held_by(first, second, third) == [False, True, True]
        budgets.append(0)
        answered(third)  # after each answer, too
        assert held_by(first, second, third) == [False] * 3
        assert [len(one.said) for one in (first, second, third)] == [1, 2, 2]


def test_one_that_answers_or_is_typed_into_keeps_its_memory(quiet: Engine, clock: Clock) -> None:
    budgets = [10**9]
    with closing(Sessions(5, 600.0, clock, budget_bytes=lambda: budgets[-1])) as sessions:
        typed, answering, cleared = opened(sessions, quiet, clock, 3)
        for session in (typed, answering, cleared):
            answered(session)
        budgets.append(0)
        typed.type("And where")
        cleared.type("And")
        cleared.type(" ")
        with closing(answering.submit("And the tower?")) as events:
            next(events)
            clock.now_s += TYPING_S - 1
            sessions.expire()
            assert held_by(typed, cleared) == [True, False]
            assert answering.release() == 0
        clock.now_s += 1  # the line was left as it is
        sessions.expire()
        assert held_by(typed, answering, cleared) == [False] * 3


def test_many_threads_open_and_close(sessions: Sessions, engine: Engine) -> None:
    def use() -> None:
        for _ in range(20):
            session = sessions.open(Session(engine))
            session.type("How deep is the lake?")

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(sessions)) == 3
