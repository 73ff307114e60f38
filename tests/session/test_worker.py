import threading
from pathlib import Path

import pytest
import torch

from readahead.errors import StoreError
from readahead.lm.base import Cache
from readahead.lm.model import TransformersModel
from readahead.session import Session
from readahead.session.worker import GOES_FIRST
from tests.session.test_session import QUICK, until
from tests.test_engine import QUESTION, open_engine


def test_a_settled_question_is_read_before_the_line_rests(
    tmp_path: Path, model: TransformersModel
) -> None:
    """The gate lets nothing pass, and a rest is far away."""
    settings = QUICK | {"prefetch__threshold": 1, "prefetch__rest_s": 60, "prefetch__settle_s": 0.1}
    with Session(open_engine(tmp_path, model, **settings)) as session:
        session.type(QUESTION)
        until(lambda: len(session.status.passages) > 0)
        assert session.status.num_tokens > 0
        assert session.status.num_answer_tokens <= 1  # more only once it rests


def test_no_folder_is_named_where_a_guess_fails(
    tmp_path: Path, model: TransformersModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(tmp_path, model, **QUICK)

    def failing(*args: object, **kwargs: object) -> object:
        raise StoreError(f"{tmp_path} is damaged.")

    with Session(engine) as session:
        monkeypatch.setattr(engine.knowledge, "search", failing)
        session.type(QUESTION)
        until(lambda: bool(session.status.reason))
        assert session.status.reason == "the documents cannot be read or written"


def test_what_is_being_read_is_told_while_it_is(
    tmp_path: Path, model: TransformersModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward, begun, go_on = model.forward, threading.Event(), threading.Event()

    def held(token_ids: torch.Tensor, cache: Cache) -> torch.Tensor:
        begun.set()
        assert go_on.wait(20)
        return forward(token_ids, cache)

    with Session(open_engine(tmp_path, model, **QUICK)) as session:
        monkeypatch.setattr(model, "forward", held)
        session.type(QUESTION)
        assert begun.wait(20)
        status = session.status
        go_on.set()
        assert status.fetching and not status.num_tokens
        until(lambda: session.status.num_tokens > 0 and not session.status.fetching)


def test_who_waits_for_an_answer_is_told_so(tmp_path: Path, model: TransformersModel) -> None:
    engine = open_engine(tmp_path, model, **QUICK)
    with Session(engine) as session:
        with engine.turns.answer():
            assert session.status.reason == ""
            session.type(QUESTION)
            assert session.status.reason == GOES_FIRST
        until(lambda: session.status.num_tokens > 0)
        assert session.status.reason != GOES_FIRST
