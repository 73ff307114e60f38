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
    if got.prompt.dropped:
        assert not got.exchanges
    if len(got.exchanges) < len(ASKED):  # one more would not have fitted
        more = ASKED[len(ASKED) - len(got.exchanges) - 1 :]
        whole = build_dialogue(TOKENIZER, "Why?", PASSAGES, more, max_tokens=10_000)
        assert len(whole.prompt.token_ids) > max_tokens


def test_a_question_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ContextOverflow, match="question takes"):
        build_dialogue(TOKENIZER, "Why? " * 200, PASSAGES, ASKED, max_tokens=600)


def test_an_answer_can_be_shortened() -> None:
    assert ASKED[0].shortened(3).answer_ids == ASKED[0].answer_ids[:3]
    assert ASKED[0].shortened(0).question == ASKED[0].question
