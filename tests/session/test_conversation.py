"""What the next question follows: append, skip, leave a topic, outgrow the context."""

from pathlib import Path
from typing import Any

import pytest

from readahead.engine import Engine
from readahead.evaluation.lossless import is_lossless
from readahead.lm.model import TransformersModel
from readahead.session import Session
from readahead.session.conversation import OVERFLOW, REMOVED
from readahead.types import Answer, Hit
from tests.conftest import make_llama, make_tokenizer
from tests.test_engine import open_engine

TEXTS = {
    "lamp.txt": "The lamp of the lighthouse burns whale oil through the night.",
    "keeper.txt": "The keeper of the lighthouse lamp is Ada Brightwater.",
    "tide.txt": "The tide at the harbour turns twice a day with the moon.",
    "bread.txt": "The bakery sells rye bread with caraway seeds on Fridays.",
}


def opened(folder: Path, model: TransformersModel, **flags: object) -> Engine:
    engine = open_engine(
        folder,
        model,
        retrieval__k=1,
        prefetch__enabled=False,
        generation__max_new_tokens=12,
        **flags,
    )
    engine.knowledge.remove(["tides.md", "lamps.txt"])
    for name, text in TEXTS.items():
        engine.knowledge.add(["-"], stdin=text.encode(), stdin_name=name)
    return engine


@pytest.fixture
def engine(tmp_path: Path, model: TransformersModel) -> Engine:
    return opened(tmp_path, model)


def ask(session: Session, question: str) -> Answer:
    *_, answer = session.submit(question)
    assert isinstance(answer, Answer)
    return answer


def documents(session: Session) -> list[list[str]]:
    return [[p.document for p in turn.prompt.passages] for turn in session.turns]


def test_a_follow_up_whose_passage_is_in_context_is_not_searched_for(engine: Engine) -> None:
    with Session(engine) as session:
        ask(session, "What does the lamp of the lighthouse burn?")
        answer = ask(session, "Does the lamp of the lighthouse burn whale oil?")
        assert answer.usage.retrievals == 0
        assert documents(session) == [["lamp.txt"], []]
        trace = engine.knowledge.store.trace(answer.trace_id)
        spans = {span["name"]: span for span in trace["spans"]}  # type: ignore[attr-defined]
        assert spans["topic"]["attributes"]["skip"] is True
        listed = trace["attributes"]["passages"]  # type: ignore[index]
        assert [passage["id"] for passage in listed] == ["3.1.0"]  # it is shown all the same
        assert all(is_lossless(engine, turn) for turn in session.turns)


def test_a_follow_up_gets_what_is_new_behind_what_was_said(engine: Engine) -> None:
    with Session(engine) as session:
        ask(session, "What does the lamp of the lighthouse burn?")
        answer = ask(session, "And who is its keeper?")
        assert answer.usage.retrievals == 1
        assert documents(session) == [["lamp.txt"], ["keeper.txt"]]
        first, second = session.turns
        before = (*first.prompt.token_ids, *first.token_ids)
        assert second.prompt.token_ids[: len(before)] == before
        assert answer.usage.reused_tokens >= len(before) - 1
        assert "[2] keeper.txt" in second.prompt.text
        assert is_lossless(engine, second)


def test_a_follow_up_on_what_was_said_elsewhere_is_searched_with_its_words(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    search = engine.knowledge.search

    def spy(query: str, *args: Any, **options: Any) -> list[Hit]:
        asked.append(query)
        return search(query, *args, **options)

    monkeypatch.setattr(engine.knowledge, "search", spy)
    with Session(engine) as session:
        session.follow([("Who tends the lamp of the lighthouse?", "Ada.")])
        ask(session, "And what does it burn?")
        assert asked == ["And what does it burn? tends lamp lighthouse"]
        assert documents(session)[-1] == ["lamp.txt"]
        ask(session, "When does the bakery sell rye bread?")
        assert asked[1:] == ["When does the bakery sell rye bread?"]


def test_another_topic_begins_anew(engine: Engine) -> None:
    with Session(engine) as session:
        ask(session, "What does the lamp of the lighthouse burn?")
        ask(session, "When does the bakery sell rye bread?")
        assert documents(session) == [["lamp.txt"], ["bread.txt"]]
        second = session.turns[1]
        assert "lighthouse" not in second.prompt.text
        assert is_lossless(engine, second)
        ask(session, "And what about caraway seeds in it?")
        assert session.turns[2].prompt.text.startswith(second.prompt.text)


def test_a_conversation_that_outgrows_the_context_says_so(tmp_path: Path) -> None:
    small = make_llama(max_position_embeddings=700)
    engine = opened(tmp_path, TransformersModel(small, make_tokenizer()))
    with Session(engine) as session:
        answers = [ask(session, f"And what else of the lamp, {n}?") for n in range(6)]
        noted = [OVERFLOW in answer.notes for answer in answers]
        assert noted[0] is False
        assert any(noted)
        assert all(is_lossless(engine, turn) for turn in session.turns)
        assert all(answer.citations or answer.text for answer in answers)


def test_turns_from_elsewhere_that_do_not_fit_are_missed_once(tmp_path: Path) -> None:
    small = make_llama(max_position_embeddings=1400)
    engine = opened(tmp_path, TransformersModel(small, make_tokenizer()))
    long = ("What does the lamp burn? " * 20, "Oil. " * 20)
    with Session(engine) as session:
        session.follow([long, long, ("Who tends the lamp?", "Ada.")])
        first = ask(session, "And where does she stand?")
        assert "Who tends the lamp?" in session.turns[-1].prompt.text
        assert session.turns[-1].prompt.text.count("burn?") == 20
        assert first.notes.count(OVERFLOW) == 1
        assert OVERFLOW not in ask(session, "And when?").notes


def test_a_document_that_changes_takes_its_turns_along(engine: Engine) -> None:
    with Session(engine) as session:
        ask(session, "What does the lamp of the lighthouse burn?")
        engine.knowledge.add(
            ["-"], stdin=b"The lamp of the lighthouse burns paraffin.", stdin_name="lamp.txt"
        )
        answer = ask(session, "Does the lamp of the lighthouse burn whale oil?")
        assert REMOVED in answer.notes
        assert "whale oil through" not in session.turns[1].prompt.text
        assert "paraffin" in session.turns[1].prompt.text
        assert REMOVED not in ask(session, "And who is its keeper?").notes
