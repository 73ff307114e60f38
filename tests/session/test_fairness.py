"""Guesses of several sessions take turns on one model; none waits until another is done."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from readahead.engine import Engine
from readahead.evaluation.lossless import is_lossless
from readahead.lm.base import Cache
from readahead.lm.model import TransformersModel
from readahead.session import Session, worker
from readahead.session.conversation import Conversation
from readahead.session.worker import Worker
from readahead.speculation.retrieval.prefetch import Prefetcher
from tests.session.test_session import QUICK, cold, submit, until
from tests.test_engine import QUESTION, open_engine

QUESTIONS = (QUESTION, "what does a lamp burn at night?")
SLOW_S = 0.01  # a step of a model that is not as tiny


@pytest.fixture
def engine(tmp_path: Path, model: TransformersModel) -> Engine:
    return open_engine(tmp_path, model, **{**QUICK, "prefetch__num_suggestions": 0})


@pytest.fixture
def sessions(engine: Engine) -> Iterator[tuple[Session, Session]]:
    with ExitStack() as stack:
        both = stack.enter_context(Session(engine)), stack.enter_context(Session(engine))
        yield both
        assert [session._worker.fault for session in both] == [None, None]


class Seen:
    """What the model was used for.

    Attributes:
        tasks: Each with its worker, in the order in which they got the model.
        steps: The worker of each model step.
    """

    def __init__(self) -> None:
        self.tasks: list[tuple[Worker, str]] = []
        self.steps: list[Worker] = []

    @property
    def num_changes(self) -> int:
        """Return how often a step is another session's than the one before."""
        return sum(a is not b for a, b in pairwise(self.steps))


@pytest.fixture
def seen(model: TransformersModel, monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Slow the model's steps for guesses down, and see whose they are."""
    seen, do, forward = Seen(), Worker._do, model.forward

    def doing(self: Worker, task: Any, *args: Any) -> None:
        seen.tasks.append((self, task))
        monkeypatch.setattr(model, "forward", partial(slow, self))
        do(self, task, *args)
        monkeypatch.setattr(model, "forward", forward)

    def slow(worker: Worker, token_ids: torch.Tensor, cache: Cache) -> torch.Tensor:
        seen.steps.append(worker)
        time.sleep(SLOW_S)
        return forward(token_ids, cache)

    monkeypatch.setattr(Worker, "_do", doing)
    return seen


def is_ready(session: Session) -> bool:
    return session.status.num_answer_tokens == 16


def test_a_guess_goes_on_between_those_of_another_session(
    engine: Engine,
    sessions: tuple[Session, Session],
    seen: Seen,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "SLICE_S", 3 * SLOW_S)
    for session, question in zip(sessions, QUESTIONS, strict=True):
        session.type(question)
    until(lambda: is_ready(sessions[0]) and is_ready(sessions[1]))
    assert seen.num_changes >= 4  # with turns of seconds: 1
    num_tokens = [session._prefetcher.num_computed_tokens for session in sessions]
    for session, question in zip(sessions, QUESTIONS, strict=True):
        answer = submit(session, question)
        assert answer.text == cold(engine, question, answer)
        assert answer.usage.retrievals == 0
    # Nothing is read twice for the turns.
    for num_computed, session in zip(num_tokens, sessions, strict=True):
        assert num_computed < len(session.turns[0].prompt.token_ids)


def test_a_guess_that_is_alone_is_not_interrupted(
    sessions: tuple[Session, Session], seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "SLICE_S", 0.0)
    sessions[0].type(QUESTIONS[0])
    until(lambda: is_ready(sessions[0]))
    assert len(seen.steps) > 10
    assert len(seen.tasks) <= 4  # a suggestion, a guess, all of it, its answer


def test_each_turn_makes_a_step_however_slow_the_search(
    engine: Engine, sessions: tuple[Session, Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another guess waits all the time, and the search alone takes longer than a slice."""
    find: Callable[..., object] = Conversation.find

    def slow(self: Conversation, *args: object) -> object:
        time.sleep(0.02)
        return find(self, *args)

    monkeypatch.setattr(worker, "SLICE_S", 0.01)
    monkeypatch.setattr(Conversation, "find", slow)
    session = Session(engine)
    engine.turns._urgent.add("another")
    try:
        session.type(QUESTIONS[0])
        until(lambda: is_ready(session))
    finally:
        engine.turns._urgent.clear()
    answer = submit(session, QUESTIONS[0])
    assert answer.text == cold(engine, QUESTIONS[0], answer)
    session.close()


def test_a_suggestion_leaves_the_model_to_typed_text_and_goes_on_behind_it(
    tmp_path: Path, model: TransformersModel, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Prefetcher.write

    def write(self: Prefetcher, *args: Any, **kwargs: Any) -> str | None:
        """Write what the tiny model cannot."""
        written = whole(self, *args, **kwargs)
        return None if written is None else f"1. {QUESTIONS[1]}\n"

    monkeypatch.setattr(Prefetcher, "write", write)
    engine = open_engine(tmp_path, model, **QUICK)
    with Session(engine) as first, Session(engine) as second:
        submit(first, QUESTIONS[0])
        until(lambda: first._worker in seen.steps)
        second.type(QUESTIONS[1])
        until(lambda: is_ready(second))
        own = [task for by, task in seen.tasks if by is second._worker]
        until(lambda: first._worker._done.get("suggest") is not None)
        assert first.suggestions() == (QUESTIONS[1],)
        tasks = [task for _, task in seen.tasks]
        last = len(tasks) - 1 - tasks[::-1].index("suggest")
        assert tasks.index("suggest") < tasks.index(own[0]) < last
        for session, question in zip((second, first), QUESTIONS[::-1], strict=True):
            submit(session, question)
            assert is_lossless(engine, session.turns[-1])
