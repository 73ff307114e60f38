"""Needle documents have the length asked for, hold their needles, and come from the seed alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as BackendTokenizer
from tokenizers import models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from readahead.errors import InputError
from readahead.evaluation.longcases import LongCase
from readahead.evaluation.longmetrics import score
from readahead.evaluation.needles import Language, NeedleKind, make_needles
from readahead.lm.tokenizer import Tokenizer
from readahead.text import sentences
from tests.conftest import make_tokenizer

TOKENIZER = Tokenizer(make_tokenizer())
PASSAGES = ["Bow is a town. It has a mill, e.g. for corn.", " ", "Rye grows there.\nIt is tall."]


def whole_words() -> Tokenizer:
    """Return a tokenizer with one token a word, in which no cut within a word changes a count."""
    backend = BackendTokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]"))


def num_tokens(case: LongCase) -> int:
    return len(TOKENIZER.encode(case.document))


@settings(max_examples=30)
@given(
    st.integers(600, 2000),
    st.integers(0, 99),
    st.sampled_from(["single", "keyed", "valued"]),
    st.sampled_from(["en", "zh"]),
    st.sampled_from([(), PASSAGES]),
)
def test_length_and_needles(
    length: int, seed: int, kind: NeedleKind, language: Language, passages: list[str]
) -> None:
    case = make_needles(length, TOKENIZER, seed, kind=kind, language=language, passages=passages)
    assert length - 2 <= num_tokens(case) <= length
    (turn,) = case.turns
    assert len(turn.golds) + len(turn.wrongs) == (1 if kind == "single" else 4)
    assert len(turn.golds) == (4 if kind == "valued" else 1)
    assert len({*turn.golds, *turn.wrongs}) == len(turn.golds) + len(turn.wrongs)
    for value in (*turn.golds, *turn.wrongs):
        assert case.document.count(value) == 1
    assert score(case.metric, turn, " ".join(turn.golds)) == 1.0
    assert score(case.metric, turn, case.document) == (0.0 if kind == "keyed" else 1.0)


def test_a_tokenizer_of_words() -> None:
    tokenizer = whole_words()
    for length in (50, 300):
        case = make_needles(length, tokenizer, 1)
        assert length - 2 <= len(tokenizer.encode(case.document)) <= length


def test_the_seed_decides() -> None:
    assert make_needles(900, TOKENIZER, 1) == make_needles(900, TOKENIZER, 1)
    assert make_needles(900, TOKENIZER, 1) != make_needles(900, TOKENIZER, 2)


def test_the_needle_asked_for_stands_at_its_depth() -> None:
    def share(depth: float) -> float:
        case = make_needles(6000, TOKENIZER, 3, kind="keyed", depth=depth)
        return case.document.index(case.turns[0].golds[0]) / len(case.document)

    assert share(0.0) < 0.05
    assert share(0.5) == pytest.approx(0.5, abs=0.05)
    assert share(1.0) > 0.95


def test_needles_stand_between_sentences() -> None:
    case = make_needles(1500, TOKENIZER, 5, kind="keyed", passages=PASSAGES)
    needles = [
        text
        for start, stop in sentences(case.document)
        if "access code" in (text := case.document[start:stop])
    ]
    assert len(needles) == 4
    assert all(text.startswith("The access") and text.endswith(".") for text in needles)
    gold = next(text for text in needles if case.turns[0].golds[0] in text)
    asked = case.turns[0].question.removeprefix("What is the access code of ").split("?")[0]
    assert asked in gold


@pytest.mark.parametrize(("kind", "num_asked"), [("single", 1), ("keyed", 1), ("valued", 4)])
def test_the_place_asked_about_has_its_needles(kind: NeedleKind, num_asked: int) -> None:
    case = make_needles(1500, TOKENIZER, 5, kind=kind)
    place = case.turns[0].question.split(" of the ")[1].split("?")[0]
    assert case.document.count(f"of the {place} is ") == num_asked


def test_what_cannot_be_made() -> None:
    with pytest.raises(InputError, match="10 tokens do not hold the needles, which take"):
        make_needles(10, TOKENIZER, 1)
    with pytest.raises(InputError, match="1 to 96 needles, not 97"):
        make_needles(9000, TOKENIZER, 1, kind="keyed", num_needles=97)
    with pytest.raises(InputError, match="not 0"):
        make_needles(9000, TOKENIZER, 1, num_needles=0)
    with pytest.raises(InputError, match=r"depth 1\.5 is not between"):
        make_needles(9000, TOKENIZER, 1, depth=1.5)
