"""A session that was told to blend says so; one that was not stays exact."""

from pathlib import Path

import pytest

from readahead.engine import Engine
from readahead.evaluation.lossless import is_lossless
from readahead.lm.model import TransformersModel
from readahead.lm.watch import make_watchable
from readahead.reply import BLENDED
from readahead.session import Session
from readahead.types import Answer
from tests.conftest import make_llama, make_tokenizer
from tests.test_engine import QUESTION, open_engine

OTHER = "What burns oil in a lamp?"
MORE = "# Lamps\n\nA lamp of brass burns oil of olives, from dusk to dawn, on every sill.\n"


def asked(engine: Engine, session: Session, question: str) -> tuple[Answer, dict[str, object]]:
    """Return the answer and what its trace says of blending."""
    *_, answer = session.submit(question)
    assert isinstance(answer, Answer)
    spans = engine.knowledge.store.trace(answer.trace_id)["spans"]
    assert isinstance(spans, list)
    found = [span["attributes"] for span in spans if span["name"] == "blend"]
    return answer, found[0] if found else {}


def opened(folder: Path, model: TransformersModel, **flags: object) -> Engine:
    engine = open_engine(folder, model, prefetch__policy="exact-order", **flags)
    engine.knowledge.add(["-"], stdin=MORE.encode(), stdin_name="more.md")
    return engine


@pytest.fixture
def engine(tmp_path: Path, model: TransformersModel) -> Engine:
    return opened(tmp_path, model, cache__reuse="blend")


def test_passages_in_another_order_are_blended_and_the_answer_says_so(engine: Engine) -> None:
    with Session(engine) as session:
        first, span = asked(engine, session, OTHER)
        assert BLENDED not in first.notes
        assert (span["approximate"], span["reason"]) == (False, "it saves nothing")
    known = engine.reader.tree.num_bytes
    with Session(engine) as session:
        answer, span = asked(engine, session, QUESTION)
        assert BLENDED in answer.notes
        assert (span["approximate"], span["share"]) == (True, engine.config.cache.blend_share)
        usage = answer.usage
        assert 0 < usage.computed_tokens - usage.completion_tokens < usage.prompt_tokens
        assert usage.reused_tokens > 0
        # What follows is read on it, and says so, too.
        again, _ = asked(engine, session, "And how often does the moon pull it?")
        assert again.notes
    assert engine.reader.tree.check() == []
    assert engine.reader.tree.num_bytes >= known


def test_what_was_blended_changes_no_exact_answer_to_come(engine: Engine) -> None:
    for question in (OTHER, QUESTION):
        with Session(engine) as session:
            asked(engine, session, question)
    with Session(engine) as session:
        answer, span = asked(engine, session, OTHER)  # in the order in which it was read
        assert span["approximate"] is False
        assert BLENDED not in answer.notes
        assert is_lossless(engine, session.turns[0])


def test_a_session_is_exact_by_default(tmp_path: Path, model: TransformersModel) -> None:
    engine = opened(tmp_path, model)
    for question in (OTHER, QUESTION):
        with Session(engine) as session:
            answer, span = asked(engine, session, question)
            assert span == {}
            assert BLENDED not in answer.notes
            assert is_lossless(engine, session.turns[0])


def test_a_model_whose_attention_is_watched_can_blend(tmp_path: Path) -> None:
    watched = TransformersModel(make_llama(), make_tokenizer(), name="tiny")
    assert make_watchable(watched)
    engine = opened(tmp_path, watched, cache__reuse="blend")
    with Session(engine) as session:
        asked(engine, session, OTHER)
    with Session(engine) as session:
        answer, span = asked(engine, session, QUESTION)
        assert span["approximate"] is True, span
        assert BLENDED in answer.notes
