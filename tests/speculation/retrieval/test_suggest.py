import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.lm.prompt import Context, build_prompt, joined
from readahead.lm.tokenizer import Tokenizer
from readahead.speculation.retrieval.suggest import asking, is_supported, read_questions
from readahead.types import Hit, Passage
from tests.conftest import make_tokenizer

TOKENIZER = Tokenizer(make_tokenizer())
PASSAGE = Passage("tides.md", "The tide turns.", 0, 15, heading=("Sea", "Tides"), id="1.1.0")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("Who keeps the lamp?\nWhen does it burn?", ["Who keeps the lamp?", "When does it burn?"]),
        (
            "1. Who keeps the lamp?\n2) When was it lit?",
            ["Who keeps the lamp?", "When was it lit?"],
        ),
        ('- "Who keeps the lamp?"', ["Who keeps the lamp?"]),
        ("Q1: Who keeps the lamp?", ["Who keeps the lamp?"]),
        ("1、谁看管这盏灯？\n问题2：灯塔什么时候建的？", ["谁看管这盏灯？", "灯塔什么时候建的？"]),
        ("Here are two questions:\nWho keeps the lamp?", ["Who keeps the lamp?"]),
        ("Who keeps the lamp?\nwho keeps the LAMP?", ["Who keeps the lamp?"]),
        ("What does it burn?", []),  # asked before
        ("Why?", []),
        ("The lamp burns oil.", []),
        ("Who keeps it? When? Where?", []),
        ("What " + "very " * 40 + "long?", []),
        ("", []),
    ],
)
def test_questions_are_read_as_drafters_write_them(written: str, expected: list[str]) -> None:
    assert list(read_questions(written, ["what does it burn"])) == expected


@given(st.text())
def test_any_text_can_be_read(written: str) -> None:
    for question in read_questions(written, []):
        assert question[-1] in "?？"
        assert "\n" not in question


def test_the_drafter_is_asked_behind_the_conversation() -> None:
    first = build_prompt(TOKENIZER, "When?", [PASSAGE], max_tokens=5000)
    context = Context(first.parts, first.passages, first.text)
    parts = asking(TOKENIZER, context, "When?", [PASSAGE, PASSAGE], 2)
    assert joined(parts)[: len(first.token_ids)] == first.token_ids
    text = TOKENIZER.decode(joined(parts)[len(first.token_ids) :])
    assert "Write 2 short questions" in text
    assert text.count("Tides") == 1


def test_the_drafter_is_asked_in_the_language_of_the_question() -> None:
    text = TOKENIZER.decode(joined(asking(TOKENIZER, Context(), "几点开门？", [], 3)))
    assert "写出3个" in text


@pytest.mark.parametrize(
    ("similarity", "expected"), [(0.9, True), (0.2, False), (None, True), (-1.0, False)]
)
def test_nobody_is_offered_a_dead_end(similarity: float | None, expected: bool) -> None:
    assert is_supported([Hit(PASSAGE, 1.0, similarity)]) is expected
    assert is_supported([]) is False
