"""Questions made up between turns: a taken one starts at once, the others change nothing."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from readahead.engine import Engine
from readahead.evaluation.lossless import is_lossless
from readahead.lm.model import TransformersModel
from readahead.session import Session
from readahead.speculation.retrieval.prefetch import Prefetcher
from tests.session.test_conversation import ask, opened
from tests.session.test_session import until

FIRST = "What does the lamp of the lighthouse burn?"
KEEPER = "Who is the keeper of the lamp?"
DEAD_END = "Which zebra won the chess tournament?"


@pytest.fixture
def engine(
    tmp_path: Path, model: TransformersModel, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    """Return an engine whose random target, asked for questions, writes readable ones."""
    whole = Prefetcher.write

    def write(self: Prefetcher, *args: object, **kwargs: object) -> str | None:
        written = whole(self, *args, **kwargs)  # type: ignore[arg-type]
        return None if written is None else f"1. {KEEPER}\n2. {FIRST}\n3. {DEAD_END}\n"

    monkeypatch.setattr(Prefetcher, "write", write)
    engine = opened(tmp_path, model)
    prefetch = engine.config.prefetch.model_copy(update={"enabled": True, "rest_s": 0.05})
    engine.config = engine.config.model_copy(update={"prefetch": prefetch})
    yield engine


def test_a_taken_suggestion_starts_at_once(engine: Engine) -> None:
    with Session(engine) as session:
        assert session.suggestions() == ()
        ask(session, FIRST)
        until(lambda: session._worker._done.get("suggest") is not None)
        assert session.suggestions() == (KEEPER,)
        session.type(KEEPER)
        time.sleep(0.1)
        answer = ask(session, KEEPER)
        assert is_lossless(engine, session.turns[1])
        trace = engine.knowledge.store.trace(answer.trace_id)
        attributes = trace["attributes"]
        assert attributes["was_suggested"] is True  # type: ignore[index]
        assert attributes["prefetch"]["num_answer_tokens_ahead"] == 12  # type: ignore[index]
        assert answer.usage.retrievals == 0


def test_a_suggestion_that_is_not_taken_leaves_no_trace_in_the_answer(engine: Engine) -> None:
    with Session(engine) as session:
        ask(session, FIRST)
        until(lambda: bool(session.suggestions()))
        answer = ask(session, "And when does the tide turn?")
        assert is_lossless(engine, session.turns[1])
        assert "keeper" not in session.turns[1].prompt.text
        trace = engine.knowledge.store.trace(answer.trace_id)
        assert trace["attributes"]["was_suggested"] is False  # type: ignore[index]
        assert trace["counters"]["wasted_tokens"] > 0  # type: ignore[index]


def test_typing_interrupts_the_making_up(engine: Engine) -> None:
    with Session(engine) as session:
        stream = session.submit(FIRST)
        next(stream)
        session.type("w")  # while the answer is written
        for _ in stream:
            pass
        time.sleep(0.2)
        assert session.suggestions() == ()
        session.type("")
        until(lambda: bool(session.suggestions()))


def test_switched_off_nothing_is_made_up(engine: Engine) -> None:
    prefetch = engine.config.prefetch.model_copy(update={"num_suggestions": 0})
    engine.config = engine.config.model_copy(update={"prefetch": prefetch})
    with Session(engine) as session:
        ask(session, FIRST)
        until(lambda: session._worker._done.get("suggest") is not None)
        assert session.suggestions() == ()
        assert session._prefetcher.num_computed_tokens == 0
