import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.errors import ContextOverflow
from readahead.lm.dialogue import Exchange, build_dialogue
from readahead.lm.prompt import Context, Part, build_prompt, joined
from readahead.lm.tokenizer import Tokenizer
from readahead.types import Passage
from tests.conftest import make_tokenizer

TOKENIZER = Tokenizer(make_tokenizer())
TEXTS = ("The tide turns twice a day.", "A lamp burns oil.")
PASSAGES = [Passage(f"{n}.txt", text, 0, len(text), id=str(n)) for n, text in enumerate(TEXTS)]
ASKED = [
    Exchange("When does the tide turn?", tuple(TOKENIZER.encode("Twice a day."))),
    Exchange("What burns?", tuple(TOKENIZER.encode("Oil, in a lamp. 它烧油。"))),
]


def test_a_first_question_is_asked_as_ever() -> None:
    got = build_dialogue(TOKENIZER, "What burns?", PASSAGES, (), max_tokens=900)
    assert got.prompt == build_prompt(TOKENIZER, "What burns?", PASSAGES, max_tokens=900)
    assert got.exchanges == ()


def test_a_later_question_stands_behind_all_that_was_read_and_written() -> None:
    got = build_dialogue(TOKENIZER, "Why?", PASSAGES, ASKED, max_tokens=2000)
    first = build_prompt(TOKENIZER, ASKED[0].question, PASSAGES, max_tokens=2000)
    assert got.exchanges == tuple(ASKED)
    assert got.prompt.parts[: len(first.parts)] == first.parts
    assert (got.prompt.passages, got.prompt.spans) == (first.passages, first.spans)
    context = Context((*first.parts, Part(ASKED[0].answer_ids)), first.passages)
    second = build_prompt(TOKENIZER, ASKED[1].question, (), max_tokens=2000, context=context)
    assert got.prompt.parts[: len(second.parts)] == second.parts
    assert got.prompt.token_ids == joined(got.prompt.parts)
    assert TOKENIZER.decode(got.prompt.token_ids).count("Twice a day.") == 1
    assert "它烧油。" in got.prompt.text
    for passage, (start, stop) in zip(PASSAGES, got.prompt.spans, strict=True):
        assert passage.text in TOKENIZER.decode(got.prompt.token_ids[start:stop])


@given(st.integers(400, 900))
def test_the_oldest_exchanges_are_left_out_first(max_tokens: int) -> None:
    got = build_dialogue(TOKENIZER, "Why?", PASSAGES, ASKED, max_tokens=max_tokens)
    assert len(got.prompt.token_ids) <= max_tokens
    assert list(got.exchanges) == ASKED[len(ASKED) - len(got.exchanges) :]
    alone = build_prompt(TOKENIZER, "Why?", PASSAGES, max_tokens=max_tokens)
    if got.exchanges and alone.dropped:
        assert len(got.exchanges) == 1
        assert got.prompt.passages
    else:
        assert got.prompt.dropped == alone.dropped
    if len(got.exchanges) < len(ASKED):  # one more would not have fitted
        more = ASKED[len(ASKED) - len(got.exchanges) - 1 :]
        whole = build_dialogue(TOKENIZER, "Why?", PASSAGES, more, max_tokens=10_000)
        assert len(whole.prompt.token_ids) > max_tokens


def long_document(num_passages: int = 40) -> list[Passage]:
    texts = [f"The lamp of place {n} burns oil." for n in range(num_passages)]
    return [Passage("d.txt", text, 0, len(text), id=str(n)) for n, text in enumerate(texts)]


@given(st.integers(900, 1800))
def test_the_last_exchange_stays_beside_a_document_that_does_not_fit(max_tokens: int) -> None:
    passages = long_document()
    got = build_dialogue(TOKENIZER, "Why?", passages, ASKED, max_tokens=max_tokens)
    alone = build_dialogue(TOKENIZER, "Why?", passages, (), max_tokens=max_tokens)
    assert got.exchanges == (ASKED[-1],)
    assert "它烧油。" in got.prompt.text
    assert max_tokens - 120 < len(got.prompt.token_ids) <= max_tokens
    shown = len(got.prompt.passages)
    assert 1 <= shown < len(alone.prompt.passages)
    assert got.prompt.dropped == tuple(passages[shown:])
    assert len(got.prompt.spans) == shown


def test_a_long_exchange_leaves_the_room_to_the_document() -> None:
    passages, room = long_document(), 1200
    longer = Exchange("What burns?", (5,) * (room // 4))
    got = build_dialogue(TOKENIZER, "Why?", passages, (*ASKED, longer), max_tokens=room)
    alone = build_dialogue(TOKENIZER, "Why?", passages, (), max_tokens=room)
    assert got == alone
    fitting = longer.shortened(room // 8)
    got = build_dialogue(TOKENIZER, "Why?", passages, (*ASKED, fitting), max_tokens=room)
    assert got.exchanges == (fitting,)


def test_a_document_that_fits_is_shown_whole_before_any_exchange() -> None:
    alone = build_prompt(TOKENIZER, "Why?", PASSAGES, max_tokens=2000)
    room = len(alone.token_ids) + 10
    got = build_dialogue(TOKENIZER, "Why?", PASSAGES, ASKED, max_tokens=room)
    assert (got.prompt, got.exchanges) == (alone, ())


def test_a_question_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ContextOverflow, match="question takes"):
        build_dialogue(TOKENIZER, "Why? " * 200, PASSAGES, ASKED, max_tokens=600)


def test_an_answer_can_be_shortened() -> None:
    assert ASKED[0].shortened(3).answer_ids == ASKED[0].answer_ids[:3]
    assert ASKED[0].shortened(0).question == ASKED[0].question
