"""A deleted document is in no cache: not of the engine, not of any conversation."""

import gc
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from readahead.engine import Engine
from readahead.errors import NotFound
from readahead.lm.model import TransformersModel
from readahead.retrieval.base import Filter
from readahead.session import DocumentChat, Session
from readahead.session.answering import METHOD
from readahead.session.conversation import REMOVED
from readahead.session.document_chat import CHANGED
from readahead.types import Answer
from tests.conftest import make_tokenizer
from tests.session.test_session import QUICK, submit, until
from tests.test_engine import open_engine

SECRET = "quixotic-flamingo"
OTHER = "what does a lamp burn?"
QUESTION = "who keeps the vault key?"
TOKENIZER = make_tokenizer()
_SKIPPED = (type, ModuleType, CodeType, TransformersModel)


@pytest.fixture
def engine(tmp_path: Path, model: TransformersModel) -> Iterator[Engine]:
    engine = open_engine(tmp_path, model, prefetch__num_suggestions=0, **QUICK)
    add(engine, f"# Vault\n\nThe {SECRET} keeps the vault key.\n")
    engine.load()
    yield engine
    engine.close()


def add(engine: Engine, text: str) -> None:
    engine.knowledge.add(["-"], stdin=text.encode(), stdin_name="vault.md")


def remove(engine: Engine) -> None:
    engine.knowledge.remove(["vault.md"])
    engine.forget_stale()


def held(root: object) -> list[str]:
    """Return where the secret is within reach of ``root``, as text or as tokens."""
    secret_ids = ",".join(map(str, TOKENIZER.encode(SECRET)))
    seen, found = {id(root)}, []
    pending: deque[tuple[object, str]] = deque([(root, type(root).__name__)])
    while pending:
        value, path = pending.popleft()
        if isinstance(value, str) and SECRET in value:
            found.append(path)
        if isinstance(value, tuple | list) and value and all(type(item) is int for item in value):
            found += [path] if secret_ids in ",".join(map(str, value)) else []
            continue
        for other in referents(value):
            if id(other) not in seen and not isinstance(other, _SKIPPED):
                seen.add(id(other))
                pending.append((other, f"{path}.{type(other).__name__}"))
    return found


def referents(value: object) -> list[Any]:
    if isinstance(value, FunctionType):  # not its globals
        return [*(value.__closure__ or ()), *(value.__defaults__ or ())]
    return gc.get_referents(value)


def test_an_idle_session_forgets_at_once(engine: Engine) -> None:
    with Session(engine) as session, Session(engine) as typing, Session(engine) as other:
        submit(session, QUESTION)
        submit(other, OTHER)
        typing.type(QUESTION)
        until(lambda: typing.status.num_answer_tokens > 0)
        assert held(session) and held(typing)
        assert engine.reader.tree.num_bytes
        remove(engine)
        # Engine and sessions reach each other, so this is all of them.
        assert held(session) == []
        assert SECRET not in str(typing.status)
        turn = session.turns[0]
        assert (turn.question, turn.prompt.token_ids) == (QUESTION, ())
        answer = submit(session, OTHER)
        assert REMOVED in answer.notes
        assert REMOVED not in submit(other, OTHER).notes
        until(lambda: typing.status.num_answer_tokens > 0)  # for what is left
        assert held(session) == []


def test_a_guess_that_was_dropped_before_is_not_held_either(engine: Engine) -> None:
    with Session(engine) as session:
        submit(session, OTHER)
        session.type(QUESTION)
        until(lambda: session.status.num_answer_tokens > 0)
        engine.knowledge.add(["-"], stdin=b"News.", stdin_name="news.txt")  # another change
        session.type("")
        engine.turns.run(session.refresh)
        engine.knowledge.remove(["vault.md"])
        engine.forget_stale()
        assert held(session) == []


def test_a_session_that_answers_forgets_when_it_ends(engine: Engine) -> None:
    with Session(engine) as session:
        events = session.submit(QUESTION)
        while not isinstance(next(events), str):
            pass
        remove(engine)
        *_, answer = events
        assert isinstance(answer, Answer)
        del answer
        assert held(session) == []
        assert REMOVED in submit(session, OTHER).notes


def test_a_session_whose_answer_is_not_read_to_its_end_forgets_too(engine: Engine) -> None:
    with Session(engine) as session:
        events = session.submit(QUESTION)
        next(events)
        remove(engine)
        events.close()
        del events
        assert held(session) == []


@pytest.mark.parametrize("method", ["plain", "rapid"])
def test_an_answer_that_runs_leaves_nothing_behind(engine: Engine, method: str) -> None:
    about = Filter(documents=("vault.md",))
    events = engine.stream(QUESTION, method=method, filter=about)
    next(events)
    remove(engine)
    list(events)
    del events
    assert held(engine) == []


def test_the_tokenizer_forgets_too(engine: Engine) -> None:
    with Session(engine) as session:
        submit(session, QUESTION)
        assert held(engine.target.tokenizer)
        remove(engine)
        assert held(engine.target.tokenizer) == []


def test_what_is_read_while_its_document_goes_is_not_kept(engine: Engine) -> None:
    read = engine.reader.read

    def late(*given: Any, **named: Any) -> Any:
        remove(engine)  # after the search, before the reading
        return read(*given, **named)

    engine.reader.read = late  # type: ignore[method-assign]
    engine.ask(QUESTION, method="rapid", filter=Filter(documents=("vault.md",)))
    engine.reader.read = read  # type: ignore[method-assign]
    assert engine.reader.tree.num_bytes  # of what stands before the document
    assert held(engine) == []


def test_what_a_guess_forgets_while_a_question_is_asked_is_not_shown(engine: Engine) -> None:
    with Session(engine) as session:
        answering = session._answering
        find = answering._found

        def meanwhile(question: str, trace: Any) -> Any:
            found = find(question, trace)
            engine.knowledge.remove(["vault.md"])
            engine.turns.run(session._refresh)  # by a guess that has not seen the question yet
            return found

        answering._found = meanwhile  # type: ignore[method-assign]
        submit(session, QUESTION)
        assert "vault.md" not in {passage.document for passage in session.turns[0].passages}
        del answering._found
    assert held(engine) == []


def test_a_conversation_about_a_document_forgets_it(engine: Engine) -> None:
    chat = DocumentChat(engine, "vault.md")
    *_, answer = chat.submit(QUESTION)
    del answer
    assert held(chat)
    remove(engine)
    assert held(chat) == []
    with pytest.raises(NotFound):
        list(chat.submit(QUESTION))
    add(engine, "# Vault\n\nNobody keeps the vault key.\n")
    *_, answer = chat.submit(QUESTION)
    assert isinstance(answer, Answer) and CHANGED in answer.notes


def test_a_conversation_that_answers_about_a_document_forgets_it_when_it_ends(
    engine: Engine,
) -> None:
    chat = DocumentChat(engine, "vault.md")
    events = chat.submit(QUESTION)
    next(events)
    remove(engine)
    list(events)
    del events
    assert held(chat) == []


def test_what_is_replaced_is_not_read_from_a_cache_again(engine: Engine) -> None:
    with Session(engine) as session:
        answer = submit(session, QUESTION)
        labels = {f"{passage.id}" for passage in session.turns[0].passages}
        assert answer.method == METHOD and labels <= engine.reader.tree.labels()
        add(engine, "# Vault\n\nThe mayor keeps the vault key.\n")
        engine.forget_stale()
        stale = engine.knowledge.store.stale_test()
        assert not any(map(stale, engine.reader.tree.labels()))
        assert session.turns[0].passages  # what it was told can be looked up still
        assert REMOVED in submit(session, OTHER).notes


def test_sessions_that_are_gone_are_not_asked(engine: Engine) -> None:
    with Session(engine) as session:
        submit(session, QUESTION)
    refresh: Callable[[], None] = session.refresh
    assert len(engine._memories) == 1
    del session, refresh
    gc.collect()
    assert len(engine._memories) == 0
    remove(engine)
