import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.config import PrefetchConfig
from readahead.logistic import Logistic
from readahead.speculation.retrieval.gate import PACKAGE, TypingGate, overlap
from readahead.speculation.retrieval.staying import Staying
from readahead.types import Hit, Passage

RARITY = {"dome": 0.5, "costs": 0.7, "ticket": 0.9, "门票": 0.9, "opens": 0.1}
CONFIG = PrefetchConfig(threshold=0.5, min_tokens=3, min_typing_s=0.3, debounce_s=0.03)
# Sure from the second result on that the same passage is in.
STABLE = Logistic(("run",), (1.5,), (0.1,), (1.0,), bias=0.0)


def rarity(word: str) -> float:
    return RARITY.get(word, 0.0)


def hit(id: str, score: float = 1.0, similarity: float | None = None, text: str = "") -> Hit:
    return Hit(Passage("d", text, 0, len(text), heading=("The dome",), id=id), score, similarity)


@pytest.fixture
def gate() -> TypingGate:
    return TypingGate(CONFIG, rarity, STABLE, Staying(STABLE))


def wait(gate: TypingGate, text: str, first: float = 9.0, last: float = 9.0) -> str:
    return gate.wait(text, since_first_s=first, since_last_s=last)


@pytest.mark.parametrize(
    ("text", "first", "last", "reason"),
    [
        ("what is the dome", 0.29, 9.0, "typing has only begun"),
        ("what is the dome", 9.0, 0.02, "keys are moving"),
        ("the dome", 9.0, 9.0, "fewer than 3 words"),
        ("天文台", 9.0, 9.0, "fewer than 3 words"),
        ("", 9.0, 9.0, "fewer than 3 words"),
        ("?? !! -- ...", 9.0, 9.0, "fewer than 3 words"),
        ("what is the", 9.0, 9.0, "no word yet that says what it is about"),
        ("who opens the", 9.0, 9.0, "no word yet that says what it is about"),
        ("i would like to know", 9.0, 9.0, "no word yet that says what it is about"),
        ("请问有没有可能", 9.0, 9.0, "no word yet that says what it is about"),
        ("what is the dome", 0.3, 0.03, ""),
        ("我想知道门票", 0.3, 0.03, ""),
    ],
)
def test_the_cheap_checks(
    gate: TypingGate, text: str, first: float, last: float, reason: str
) -> None:
    assert wait(gate, text, first, last) == reason


def test_a_phrase_is_not_about_its_own_words() -> None:
    """Where "want" is a rare word it is one only behind the phrase."""
    gate = TypingGate(CONFIG, {"want": 1.0}.__getitem__, STABLE)
    assert wait(gate, "i want to know") == "no word yet that says what it is about"
    gate = TypingGate(CONFIG, lambda word: float(word == "want"), STABLE)
    assert wait(gate, "what a child may want") == ""


def test_punctuation_alone_is_nothing_new(gate: TypingGate) -> None:
    gate.decide("what is the dome", [hit("1")])
    for same in ("what is the dome", "What is the dome ?", "what is the dome…"):
        assert wait(gate, same) == "no new word"
    assert wait(gate, "what is the dome for") == ""
    gate.reset()
    assert wait(gate, "what is the dome") == ""


def test_it_passes_once_a_passage_stays(gate: TypingGate) -> None:
    first = gate.decide("the dome", [hit("1"), hit("2", 0.5)])
    assert not first.passed and first.reason == "the passages may still change"
    second = gate.decide("the dome costs", [hit("1"), hit("3", 0.5)])
    assert second.passed and second.reason == "" and second.probability > 0.5
    assert second.signals["run"] == 2
    third = gate.decide("the dome costs a", [hit("3"), hit("1", 0.5)])
    assert third.passed and third.probability < 0.5  # it stays, but is not the best one any more
    assert not gate.decide("the dome costs a lot", [hit("4"), hit("5")]).passed


def test_each_passage_that_may_be_shown_is_judged(gate: TypingGate) -> None:
    hits = [hit(str(n), 1 / n) for n in range(1, 6)]
    assert len(gate.decide("the dome", hits, k=2).stays) == 4
    again = gate.decide("the dome costs", hits, k=2).stays
    assert [stays > 0.5 for stays in again] == [True, True, False, False]
    assert gate.decide("the dome costs a", hits[:1], k=3).stays[0] > 0.5


def test_a_new_question_begins_anew(gate: TypingGate) -> None:
    gate.decide("the dome", [hit("1")])
    gate.reset()
    decision = gate.decide("the dome", [hit("1")])
    assert (decision.signals["run"], decision.signals["overlap"]) == (1, 0)
    assert not decision.passed  # nor has the passage stayed


def test_nothing_found_is_no_guess(gate: TypingGate) -> None:
    for _ in range(3):
        decision = gate.decide("the dome", [])
        assert (decision.passed, decision.reason) == (False, "nothing was found")
        assert decision.stays == ()
        assert decision.signals["run"] == 1


def test_the_signals_are_what_they_say(gate: TypingGate) -> None:
    best = hit("1", 2.0, 0.8, text="A ticket costs 12 euros.")
    signals = gate.measure("dome ticket cost", [best, hit("2", 0.5, 0.5, text="The dome opens.")])
    assert signals["words"] == pytest.approx(math.log(3))
    assert signals["rarest"] == 0.9
    assert signals["information"] == signals["told"] == pytest.approx(0.5 + 0.9)
    assert signals["told_margin"] == pytest.approx(0.9)
    assert (signals["score"], signals["margin"]) == (2.0, 0.75)
    assert signals["similarity"] == 0.8
    assert signals["similarity_margin"] == pytest.approx(0.3)


def test_pairs_of_characters_count_as_many_words_as_characters_do(gate: TypingGate) -> None:
    signals = gate.measure("门票", [hit("1", text="门票12元")])
    assert signals["rarest"] == 0.9
    assert signals["told"] == signals["information"] == pytest.approx(0.9 / 1.6)


def test_signals_stay_where_the_model_was_fitted(gate: TypingGate) -> None:
    """Vectors that contradict the ranking, or a best passage that always stays, tell no more."""
    for _ in range(9):
        signals = gate.measure("dome", [hit("1", 1.0, 0.2), hit("2", 0.5, 0.7)])
    assert (signals["similarity_margin"], signals["run"]) == (0.0, 6.0)


def test_the_threshold_itself_passes() -> None:
    even = Logistic((), (), (), (), bias=0.0)
    assert TypingGate(CONFIG, rarity, staying=Staying(even)).decide("dome", [hit("1")]).passed


def test_a_word_of_no_passage_is_held_by_none(gate: TypingGate) -> None:
    """It is as rare as can be, and lets a retrieval happen, but it is not told."""
    unknown = TypingGate(CONFIG, lambda _: 1.0, STABLE)
    assert wait(unknown, "xyzzy plugh frotz") == ""
    signals = unknown.measure("xyzzy", [hit("1", text="dome")])
    assert (signals["information"], signals["told"]) == (1.0, 0.0)


def test_without_vectors_there_are_no_similarities(gate: TypingGate) -> None:
    signals = gate.measure("the dome", [hit("1"), hit("2")])
    assert not {"similarity", "similarity_margin"} & signals.keys()


@given(st.lists(st.sampled_from("abcdef"), unique=True, max_size=3))
def test_overlap_is_one_for_the_same_and_zero_for_others(ids: list[str]) -> None:
    assert overlap(ids, ids) == pytest.approx(float(bool(ids)))
    assert overlap(ids, [id.upper() for id in ids]) == 0.0


def test_overlap_counts_the_beginning_most() -> None:
    assert overlap("abc", "abd") > overlap("abc", "dbc") > overlap("abc", "dea")
    assert overlap("abc", "bac") == pytest.approx((0 + 1 + 1) / 3)


SHIPPED = PrefetchConfig()


@given(st.lists(st.tuples(st.text(), st.lists(st.sampled_from("1234"), unique=True))))
def test_any_typing_gets_a_probability(typed: list[tuple[str, list[str]]]) -> None:
    gate = TypingGate(SHIPPED, rarity)
    for text, ids in typed:
        wait(gate, text)
        decision = gate.decide(text, [hit(id, 0.1, 0.2, text=text) for id in ids])
        assert 0.0 <= decision.probability <= 1.0
        assert decision.passed == (decision.reason == "")
        assert len(decision.stays) == len(ids)
        assert all(0.0 <= stays <= 1.0 for stays in decision.stays)
        assert all(math.isfinite(value) for value in decision.signals.values())


def test_the_shipped_numbers_are_of_signals_that_there_are() -> None:
    gate = TypingGate(SHIPPED, rarity)
    signals = gate.measure("dome ticket", [hit("1", 2.0, 0.8), hit("2", 1.0, 0.5)])
    assert set(Logistic.load(PACKAGE, "typing_gate").names) == signals.keys()


def test_a_clear_best_passage_passes_and_a_doubtful_one_does_not() -> None:
    text = "what a ticket for the dome costs"
    told = hit("1", 0.3, 0.8, text="A ticket for the dome costs 12 euros.")
    level = [hit("1", 0.06, 0.3), hit("2", 0.06, 0.3), hit("3", 0.06, 0.3)]
    config = PrefetchConfig(threshold=0.5)
    sure = TypingGate(config, rarity).decide(text, [told, hit("2", 0.05, 0.2), hit("3", 0.05, 0.2)])
    unsure = TypingGate(config, rarity).decide("what is dome", level)
    assert sure.passed and sure.probability > 0.8
    assert not unsure.passed and unsure.probability < 0.3
