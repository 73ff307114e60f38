"""Replies are scored as the benchmarks score them, checked by values found by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readahead.evaluation.longcases import Turn
from readahead.evaluation.longmetrics import chosen_letter, rouge_l_sum, score, stands

CHOICES = ("Paris in France", "Rome", "Ann Lee", "Ann")
LINES = st.lists(st.text(st.sampled_from("abc 天,"), max_size=8), max_size=4).map("\n".join)


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("The correct answer is (B).", "B"),
        ("**The correct answer is B**", "B"),
        ("The correct answer is:\n\n(D)", "D"),
        ("First (A) seems right. The answer is option (C), not (A).", "C"),
        ("The correct answer is (B). The correct answer is (C).", "B"),
        ("Answer: D", "D"),
        ("\\boxed{C}", "C"),
        ("B", "B"),
        ("(C) because", "C"),
        ("Ａ", "A"),
        ("I think it is (B), as page 3 says.", "B"),
        ("So D it is.", "D"),
        ("答案是B", "B"),
        ("答案：（C）", "C"),
        ("我选择D。", "D"),
        ("选项A和选项B都不对，答案应该是C", "C"),
        ("A city called Rome", "B"),
        ("The answer is a town called Rome.", "B"),
        ("It was Ann Lee.", "C"),
        ("It was Ann.", "D"),
        ("Rome and Ann", ""),
        ("Either (A) or (B).", ""),
        ("Berlin", ""),
        ("The correct answer is Berlin", ""),
        ("E", ""),
        ("", ""),
    ],
)
def test_the_chosen_letter(reply: str, letter: str) -> None:
    assert chosen_letter(reply, CHOICES) == letter


def test_letters_are_those_of_the_choices() -> None:
    assert chosen_letter("The correct answer is (E).", "vwxyz") == "E"
    assert chosen_letter("A", ()) == ""


@settings(max_examples=40)
@given(st.text(), st.lists(st.text(max_size=5), max_size=30))
def test_any_reply_has_a_letter_or_none(reply: str, choices: list[str]) -> None:
    letter = chosen_letter(reply, choices)
    assert letter == "" or ord(letter) - ord("A") < len(choices)


@pytest.mark.parametrize(
    ("reply", "gold", "f1"),
    [
        # LCS "the cat the mat": 4 of 6 words each
        ("The cat lay by the mat.", "the cat sat on the mat", 2 / 3),
        # the example of the paper: w1 w2 w3 w4 w5 against two lines: union w1 w2 w3 w5,
        # 4 hits of 5 gold words and of 10 words said
        ("w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5", "w1 w2 w3 w4 w5", 2 * 0.4 * 0.8 / 1.2),
        # the line break matters: in one line "b a" has one word of "a b" in order, in two lines two
        ("b a", "a b", 0.5),
        ("b\na", "a b", 1.0),
        # a word said once counts once, though both gold lines have it
        ("a", "a\na", 2 / 3),
        ("a a", "a", 2 / 3),
        # articles stay, unlike in token F1; punctuation goes
        ("the", "the!", 1.0),
        ("退款五天", "退款需要五天。", 0.8),
        ("", "a", 0.0),
        ("a", "", 0.0),
        ("a", "b", 0.0),
    ],
)
def test_rouge_l_sum(reply: str, gold: str, f1: float) -> None:
    assert rouge_l_sum(reply, gold) == pytest.approx(f1)


@settings(max_examples=40)
@given(LINES, LINES)
def test_rouge_is_a_share(reply: str, gold: str) -> None:
    assert 0.0 <= rouge_l_sum(reply, gold) <= 1.0
    has_words = any(char not in " ,\n" for char in gold)
    assert rouge_l_sum(gold, gold) == pytest.approx(float(has_words))


def test_an_answer_stands_in_whole_words() -> None:
    assert stands("It cost 1,000 euros.", ["1000"])
    assert stands("密码是7432517，4594661。", ["4594661"])
    assert stands("7432517,4594661", ["7432517"])
    assert not stands("17432517", ["7432517"])
    assert not stands("anything", ["", "?"])
    assert not stands("anything", [])


def test_each_metric() -> None:
    plain = Turn("Who?", ("Ann Lee", "Bea"), wrongs=("Cid",))
    assert score("f1", plain, "Ann") == pytest.approx(2 / 3)
    assert score("f1", Turn("", ("五天",)), "退款五天") == pytest.approx(2 / 3)
    assert score("rouge", plain, "said Bea") == pytest.approx(2 / 3)
    assert score("rouge", Turn("", ()), "said Bea") == 0.0
    assert score("contains", plain, "It was Ann Lee.") == 1.0
    assert score("contains", plain, "It was Ann Lee or Cid.") == 0.0
    assert score("contains", plain, "It was Ann.") == 0.0
    assert score("recall", plain, "Bea and Cid") == 0.5
    assert score("recall", Turn("", ()), "Bea") == 0.0
    choice = Turn("Who?", ("B",), ("Ann", "Bea"))
    assert score("choice", choice, "(B)") == 1.0
    assert score("choice", choice, "(A)") == 0.0
    assert score("choice", choice, "no idea") == 0.0
