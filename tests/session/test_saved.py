"""A conversation that is saved goes on as if it had not been; so does its fork."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readahead.engine import Engine
from readahead.errors import InputError, StoreError
from readahead.evaluation.lossless import is_lossless
from readahead.lm.model import TransformersModel
from readahead.session import Session
from readahead.session.conversation import REMOVED
from tests.conftest import make_llama, make_tokenizer
from tests.session.test_conversation import ask, documents, opened

FIRST = "What does the lamp of the lighthouse burn?"
SECOND = "And who is its keeper?"
THIRD = "And when was it lit?"


@pytest.fixture
def engine(tmp_path: Path, model: TransformersModel) -> Engine:
    return opened(tmp_path, model)


@pytest.fixture
def saved(engine: Engine, tmp_path: Path) -> Path:
    """Return a file with two turns on one topic, behind one on another."""
    with Session(engine) as session:
        for question in ("When does the bakery sell rye bread?", FIRST, SECOND):
            ask(session, question)
        session.save(tmp_path / "saved.json")
    return tmp_path / "saved.json"


def went_on(engine: Engine) -> tuple[int, ...]:
    """Return the tokens of the third answer in a session that was never saved."""
    with Session(engine) as session:
        for question in ("When does the bakery sell rye bread?", FIRST, SECOND, THIRD):
            ask(session, question)
        return session.turns[-1].token_ids


def test_a_loaded_session_goes_on_where_it_was_saved(engine: Engine, saved: Path) -> None:
    with Session.load(engine, saved) as session:
        assert [turn.question for turn in session.turns][1:] == [FIRST, SECOND]
        assert documents(session) == [["bread.txt"], ["lamp.txt"], ["keeper.txt"]]
        ask(session, THIRD)
        assert session.turns[-1].token_ids == went_on(engine)
        assert session.turns[-1].prompt.text.count("Question: ") == 3
        assert is_lossless(engine, session.turns[-1])


def test_the_file_holds_no_text_of_documents(saved: Path) -> None:
    turns = json.loads(saved.read_text())["turns"]
    assert "whale oil" not in json.dumps([{**turn, "text": ""} for turn in turns])


def test_forks_go_on_independently(engine: Engine) -> None:
    with Session(engine) as session:
        ask(session, FIRST)
        with session.fork() as twin:
            ask(twin, SECOND)
            ask(session, "When does the bakery sell rye bread?")
            assert documents(twin) == [["lamp.txt"], ["keeper.txt"]]
            assert documents(session) == [["lamp.txt"], ["bread.txt"]]
            for turn in (*twin.turns, *session.turns):
                assert is_lossless(engine, turn)


def test_a_fork_need_not_read_the_conversation_again(engine: Engine) -> None:
    with Session(engine) as session:
        ask(session, FIRST)
        first = session.turns[0]
        with session.fork() as twin:
            answer = ask(twin, SECOND)
        held = len(first.prompt.token_ids) + len(first.token_ids) - 1
        assert answer.usage.reused_tokens >= held


@pytest.mark.parametrize("change", ["remove", "replace"])
def test_turns_that_show_what_is_gone_are_not_followed(
    engine: Engine, saved: Path, change: str
) -> None:
    if change == "remove":
        engine.knowledge.remove(["lamp.txt"])
    else:
        engine.knowledge.add(["-"], stdin=b"The lamp is electric.", stdin_name="lamp.txt")
    with Session.load(engine, saved) as session:
        assert len(session.turns) == 3
        answer = ask(session, THIRD)
        assert REMOVED in answer.notes
        assert "whale oil" not in session.turns[-1].prompt.text
        assert is_lossless(engine, session.turns[-1])


def test_what_was_not_followed_once_is_never_followed(engine: Engine, saved: Path) -> None:
    engine.knowledge.remove(["lamp.txt", "keeper.txt"])
    for _ in range(2):
        with Session.load(engine, saved) as session:
            assert session._conversation.context.parts == ()
            session.save(saved)


def test_a_shortened_passage_comes_back_as_it_was(tmp_path: Path) -> None:
    small = TransformersModel(make_llama(max_position_embeddings=560), make_tokenizer())
    engine = opened(tmp_path, small)
    text = b"The lamp of the lighthouse burns whale oil. " * 8
    engine.knowledge.add(["-"], stdin=text, stdin_name="lamp.txt")
    with Session(engine) as session:
        ask(session, FIRST)
        turn = session.turns[0]
        assert turn.prompt.is_shortened
        session.save(tmp_path / "saved.json")
    with Session.load(engine, tmp_path / "saved.json") as session:
        assert session.turns[0].prompt.token_ids == turn.prompt.token_ids


def test_a_folder_is_no_place_to_save(engine: Engine, tmp_path: Path) -> None:
    with Session(engine) as session:
        for file in (tmp_path, Path(""), Path("/")):
            with pytest.raises(StoreError, match="cannot be saved"):
                session.save(file)
    assert not list(tmp_path.parent.glob("*.part"))


def test_a_fork_of_a_running_answer_stands_on_its_own(engine: Engine) -> None:
    with Session(engine) as session:
        ask(session, FIRST)
        stream = session.submit(SECOND)
        next(stream)
        with session.fork() as twin:
            list(stream)
            ask(twin, THIRD)
            assert [is_lossless(engine, turn) for turn in twin.turns] == [True, True]


def test_another_target_is_refused(engine: Engine, saved: Path) -> None:
    whole = json.loads(saved.read_text())
    saved.write_text(json.dumps({**whole, "target": "other"}))
    with pytest.raises(InputError, match="held with other"):
        Session.load(engine, saved)


@pytest.mark.parametrize("token_id", [-1, 259, 10**30, 1.5, True, "7"])
def test_a_token_that_the_target_does_not_know_is_refused(
    engine: Engine, saved: Path, token_id: object
) -> None:
    whole = json.loads(saved.read_text())
    whole["turns"][0]["token_ids"][0] = token_id
    saved.write_text(json.dumps(whole))
    with pytest.raises(InputError, match="none of the target's"):
        Session.load(engine, saved)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"format": 2}', '{"format": 1, "target": "tiny", "turns": [{}]}', "1"]
)
def test_what_is_not_a_saved_session_is_refused(engine: Engine, tmp_path: Path, text: str) -> None:
    file = tmp_path / "broken.json"
    file.write_text(text)
    with pytest.raises(InputError, match="not a saved session"):
        Session.load(engine, file)
    with pytest.raises(InputError, match="not a saved session"):
        Session.load(engine, tmp_path / "missing.json")


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(at=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_a_damaged_file_is_refused_or_read_never_a_fault(
    engine: Engine, saved: Path, at: int, byte: int
) -> None:
    data = bytearray(saved.read_bytes())
    data[at % len(data)] = byte
    damaged = saved.with_name("damaged.json")
    damaged.write_bytes(data)
    try:
        with Session.load(engine, damaged) as session:
            ask(session, THIRD)
    except InputError as error:
        assert error.remedy


def test_where_nothing_can_be_written_the_session_goes_on(engine: Engine, tmp_path: Path) -> None:
    with Session(engine) as session:
        ask(session, FIRST)
        with pytest.raises(StoreError, match="cannot be saved"):
            session.save(tmp_path / "no" / "such" / "folder.json")
        ask(session, SECOND)
