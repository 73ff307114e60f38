"""Long documents are cut in the middle, and dialogues put behind a common history."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.errors import InputError
from readahead.evaluation.longcases import LongCase, Turn, behind_history, keep_ends
from readahead.lm.tokenizer import Tokenizer
from tests.conftest import make_tokenizer

TOKENIZER = Tokenizer(make_tokenizer())


def case(document: str, *turns: Turn) -> LongCase:
    return LongCase("1", document, turns, "f1")


def dialogue(name: str, *pairs: tuple[str, str]) -> LongCase:
    return LongCase(name, "", tuple(Turn(said, (reply,)) for said, reply in pairs), "rouge")


def test_a_prompt_letters_the_choices() -> None:
    assert Turn("Who?", ("Ann",)).prompt == "Who?"
    prompt = Turn("Who?", ("B",), ("Ann", "Bea")).prompt
    assert prompt.startswith("Who?\n\nChoices:\n(A) Ann\n(B) Bea\n\n")
    assert "(C)" not in prompt


def test_the_middle_is_cut() -> None:
    assert keep_ends(case("0123456789"), TOKENIZER, 5).document == "01289"
    assert keep_ends(case("0123456789"), TOKENIZER, 1).document == "0"
    whole = case("0123456789")
    assert keep_ends(whole, TOKENIZER, 10) is whole
    with pytest.raises(InputError, match="0 tokens"):
        keep_ends(whole, TOKENIZER, 0)


@given(st.text(st.sampled_from("a 天é"), max_size=40), st.integers(1, 60))
def test_what_is_kept_begins_and_ends_the_document(document: str, most: int) -> None:
    kept = keep_ends(case(document), TOKENIZER, most).document
    assert len(kept.encode()) <= most
    assert any(
        document.startswith(kept[:i]) and document.endswith(kept[i:]) for i in range(len(kept) + 1)
    )


def test_last_questions_follow_all_that_was_said() -> None:
    dialogues = [
        dialogue("a", ("one", "1")),
        dialogue("b", ("two", "2"), ("three", "3")),
        dialogue("c", ("four", "4"), ("five", "5")),
    ]
    last, very_last = behind_history(dialogues, 2)
    history = "User: one\n\nAssistant: 1\n\n"
    assert last.document == f"{history}User: two\n\nAssistant: 2\n\n"
    assert very_last.document == f"{history}User: four\n\nAssistant: 4\n\n"
    assert very_last.turns == (Turn("five", ("5",)),)
    for num_questions in (0, 3):
        with pytest.raises(InputError, match="leave no history"):
            behind_history(dialogues, num_questions)
