"""Several questions about one document: read once, exact, left alone by what is cancelled."""

from pathlib import Path
from typing import Any

import pytest

from readahead.engine import Engine
from readahead.errors import InputError, NotFound
from readahead.lm.dialogue import Exchange, build_dialogue
from readahead.lm.generate import Piece, generate
from readahead.lm.model import TransformersModel
from readahead.lm.prompt import Prompt
from readahead.lm.sample import SamplingParams
from readahead.retrieval.base import Filter
from readahead.session import DocumentChat
from readahead.session.document_chat import CHANGED
from readahead.types import Answer
from tests.conftest import make_llama, make_tokenizer
from tests.test_rapid import NEW_TOKENS, QUESTION, open_engine

SECOND = "What does Bread do?"
THIRD = "And why do they do it?"


@pytest.fixture(scope="module")
def wide() -> TransformersModel:
    return TransformersModel(
        make_llama(max_position_embeddings=8192), make_tokenizer(), prefill_step_tokens=64
    )


@pytest.fixture(scope="module")
def other() -> TransformersModel:
    return TransformersModel(
        make_llama(seed=1, max_position_embeddings=8192), make_tokenizer(), prefill_step_tokens=64
    )


def ask(chat: DocumentChat, question: str) -> Answer:
    *_, answer = chat.submit(question)
    assert isinstance(answer, Answer)
    return answer


def trace_of(engine: Engine, answer: Answer) -> dict[str, Any]:
    return dict(engine.knowledge.store.trace(answer.trace_id))


def retrieved(engine: Engine, answer: Answer) -> str:
    """Return the text of the passage that was retrieved first for the drafter."""
    spans = {span["name"]: span for span in trace_of(engine, answer)["spans"]}
    best = spans["retrieve"]["attributes"]["passages"][0]
    return engine.knowledge.store.passage(best).text


class ByHand:
    """The same conversation by plain decoding, each prompt read from its first token on."""

    def __init__(self, engine: Engine, model: TransformersModel, max_tokens: int = 8000) -> None:
        store = engine.knowledge.store
        passages = store.passages(store.live_ids(Filter(documents=("guide.md",))))
        self._passages = sorted(passages, key=lambda passage: passage.start)
        self._model = model
        self._max_tokens = max_tokens
        self.exchanges: tuple[Exchange, ...] = ()

    def prompt(self, question: str) -> Prompt:
        dialogue = build_dialogue(
            self._model.tokenizer,
            question,
            self._passages,
            self.exchanges,
            max_tokens=self._max_tokens,
        )
        self.exchanges = dialogue.exchanges
        return dialogue.prompt

    def ask(self, question: str) -> str:
        params = SamplingParams(max_new_tokens=NEW_TOKENS)
        done = generate(self._model, [self.prompt(question).token_ids], params)[0]
        self.exchanges = (*self.exchanges, Exchange(question, done.token_ids))
        return done.text


@pytest.mark.parametrize("drafter", ["lookup", "rag", "hybrid"])
def test_each_answer_is_that_of_plain_decoding(
    tmp_path: Path, wide: TransformersModel, other: TransformersModel, drafter: str
) -> None:
    with open_engine(
        tmp_path, wide, other, tokens__drafter=drafter, tokens__num_draft_tokens=3
    ) as engine:
        chat, by_hand = DocumentChat(engine, "guide.md"), ByHand(engine, wide)
        for turn, question in enumerate((QUESTION, SECOND, THIRD), start=1):
            answer = ask(chat, question)
            assert answer.text == by_hand.ask(question)
            assert trace_of(engine, answer)["attributes"]["turn"] == turn
        assert list(chat.questions) == [QUESTION, SECOND, THIRD]


def test_the_document_and_what_was_said_are_read_once(
    tmp_path: Path, wide: TransformersModel
) -> None:
    with open_engine(tmp_path, wide) as engine:
        chat, by_hand = DocumentChat(engine, "guide.md"), ByHand(engine, wide)
        first = ask(chat, QUESTION)
        by_hand.ask(QUESTION)
        second = ask(chat, SECOND)
        # All but the last token of the first answer, what frames the second question, and it.
        known = first.usage.prompt_tokens + first.usage.completion_tokens - 1
        assert first.usage.reused_tokens == 0
        assert second.usage.reused_tokens >= known - 1
        assert second.usage.prompt_tokens == len(by_hand.prompt(SECOND).token_ids)
        assert second.usage.reused_tokens < second.usage.prompt_tokens


def test_the_drafter_reads_what_is_retrieved_for_each_question(
    tmp_path: Path, wide: TransformersModel, other: TransformersModel
) -> None:
    with open_engine(
        tmp_path, wide, other, tokens__num_draft_tokens=2, tokens__context_share=0.2
    ) as engine:
        chat = DocumentChat(engine, "guide.md")
        assert "Lamps" in retrieved(engine, ask(chat, QUESTION))
        assert "Bread" in retrieved(engine, ask(chat, SECOND))
        third = ask(chat, THIRD)  # of no passage, but for the question before it
        assert "Bread" in retrieved(engine, third)
        attributes = trace_of(engine, third)["attributes"]
        assert attributes["refers_back"]
        spans = {span["name"]: span for span in trace_of(engine, third)["spans"]}
        assert spans["drafter_prefill"]["attributes"]["num_cached_tokens"] > 0


def test_citations_of_a_later_answer_are_of_the_document(
    tmp_path: Path, wide: TransformersModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tiny model says nothing that could be cited, so its words are put into its mouth."""
    with open_engine(tmp_path, wide) as engine:
        chat, by_hand = DocumentChat(engine, "guide.md"), ByHand(engine, wide)
        ask(chat, QUESTION)
        passages = by_hand.prompt(QUESTION).passages
        number = next(n for n, p in enumerate(passages, start=1) if "Bread are told" in p.text)
        said = f"Bread are told of here [{number}]."
        monkeypatch.setattr(
            "readahead.rapid.decode.stream",
            lambda *_, **__: (piece for piece in [Piece(said, (1,), (0.0,), "stop")]),
        )
        answer = ask(chat, "Where are Bread told of?")
        (citation,) = answer.citations
        assert citation.passage_id == passages[number - 1].id
        text = engine.knowledge.document("guide.md").text
        assert text[citation.start : citation.end] == citation.text
        assert "Bread are told of here" in citation.text


class Looks:
    """Cancels at the look after the first ``num``."""

    def __init__(self, num: int) -> None:
        self.num_left = num

    def __call__(self) -> bool:
        self.num_left -= 1
        return self.num_left < 0


@pytest.mark.parametrize("num_looks", [0, 2, 9])
def test_a_cancelled_question_leaves_the_conversation_as_it_was(
    tmp_path: Path, wide: TransformersModel, other: TransformersModel, num_looks: int
) -> None:
    with open_engine(tmp_path, wide, other, tokens__num_draft_tokens=2) as engine:
        chat, by_hand = DocumentChat(engine, "guide.md"), ByHand(engine, wide)
        *_, cut = chat.submit(THIRD, cancelled=Looks(num_looks))
        assert isinstance(cut, Answer)
        assert cut.finish_reason == "cancelled"
        assert not chat.questions
        assert ask(chat, QUESTION).text == by_hand.ask(QUESTION)
        *_, cut = chat.submit(THIRD, cancelled=Looks(num_looks))
        assert list(chat.questions) == [QUESTION]
        answer = ask(chat, SECOND)
        assert answer.text == by_hand.ask(SECOND)
        assert answer.usage.reused_tokens > 0.9 * answer.usage.prompt_tokens


def test_who_stops_listening_leaves_the_conversation_as_it_was(
    tmp_path: Path, wide: TransformersModel, other: TransformersModel
) -> None:
    with open_engine(tmp_path, wide, other, tokens__num_draft_tokens=2) as engine:
        chat, by_hand = DocumentChat(engine, "guide.md"), ByHand(engine, wide)
        assert ask(chat, QUESTION).text == by_hand.ask(QUESTION)
        events = chat.submit(THIRD)
        assert isinstance(next(events), str)
        with pytest.raises(InputError, match="answering already"):
            ask(chat, SECOND)
        events.close()
        assert list(chat.questions) == [QUESTION]
        assert ask(chat, SECOND).text == by_hand.ask(SECOND)


def test_after_a_failure_all_is_read_again(tmp_path: Path) -> None:
    llama = make_llama(max_position_embeddings=8192)
    wide = TransformersModel(llama, make_tokenizer(), prefill_step_tokens=64)
    with open_engine(tmp_path, wide) as engine:
        chat, by_hand = DocumentChat(engine, "guide.md"), ByHand(engine, wide)
        assert ask(chat, QUESTION).text == by_hand.ask(QUESTION)
        hook = llama.model.layers[1].register_forward_pre_hook(lambda *_: 1 / 0)
        with hook, pytest.raises(ZeroDivisionError):
            ask(chat, THIRD)  # the first layer has read, the second has not
        answer = ask(chat, SECOND)
        assert answer.text == by_hand.ask(SECOND)
        assert answer.usage.reused_tokens > 0  # the prefix tree knows the document


def test_earlier_turns_go_first_where_the_context_ends(tmp_path: Path) -> None:
    small = TransformersModel(make_llama(max_position_embeddings=1700), make_tokenizer())
    with open_engine(tmp_path, small) as engine:
        chat = DocumentChat(engine, "guide.md")
        by_hand = ByHand(engine, small, engine.max_prompt_tokens)
        notes = []
        for number in range(4):
            question = f"{SECOND} {number}"
            answer = ask(chat, question)
            assert answer.text == by_hand.ask(question)
            assert not any("did not fit" in note for note in answer.notes)
            notes += [note for note in answer.notes if "left out" in note]
        assert notes
        assert all("1 of its first turns" in note for note in notes)
        assert 1 <= len(chat.questions) < 4


def test_the_last_turn_stays_beside_a_document_that_does_not_fit(tmp_path: Path) -> None:
    small = TransformersModel(make_llama(max_position_embeddings=1200), make_tokenizer())
    with open_engine(tmp_path, small) as engine:
        chat = DocumentChat(engine, "guide.md")
        by_hand = ByHand(engine, small, engine.max_prompt_tokens)
        for number, question in enumerate((QUESTION, SECOND, THIRD)):
            answer = ask(chat, question)
            assert answer.text == by_hand.ask(question)
            assert any("did not fit" in note for note in answer.notes)
            spans = {span["name"]: span for span in trace_of(engine, answer)["spans"]}
            assert spans["prompt"]["attributes"]["num_turns"] == min(number, 1)
            assert any("1 of its first turns" in one for one in answer.notes) == (number == 2)


def test_a_changed_document_is_asked_about_anew(tmp_path: Path, wide: TransformersModel) -> None:
    with open_engine(tmp_path, wide) as engine:
        chat = DocumentChat(engine, "guide.md")
        ask(chat, QUESTION)
        engine.knowledge.add(["-"], stdin=b"Salt is mined.", stdin_name="salt.txt")
        assert not ask(chat, SECOND).notes[1:]  # another document is none of its business
        assert list(chat.questions) == [QUESTION, SECOND]
        engine.knowledge.add(["-"], stdin=b"# Lamps\n\nThey burn.", stdin_name="guide.md")
        answer = ask(chat, THIRD)
        assert CHANGED in answer.notes
        assert list(chat.questions) == [THIRD]
        assert answer.text == ByHand(engine, wide).ask(THIRD)
        engine.knowledge.remove(["guide.md"])
        for _ in range(2):
            with pytest.raises(NotFound, match="not in the knowledge base"):
                ask(chat, THIRD)
        assert not chat.questions


def test_what_cannot_be_asked_is_said(tmp_path: Path, wide: TransformersModel) -> None:
    with open_engine(tmp_path, wide) as engine:
        with pytest.raises(NotFound):
            DocumentChat(engine, "nothing.md")
        chat, by_hand = DocumentChat(engine, "guide.md"), ByHand(engine, wide)
        assert ask(chat, QUESTION).text == by_hand.ask(QUESTION)
        with pytest.raises(InputError, match="blank"):
            ask(chat, " ")
        with pytest.raises(InputError, match="question takes"):
            ask(chat, "why " * 3000)
        assert ask(chat, SECOND).text == by_hand.ask(SECOND)
