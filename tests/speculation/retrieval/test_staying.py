import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.config import PrefetchConfig
from readahead.logistic import Logistic
from readahead.speculation.retrieval.gate import TypingGate
from readahead.speculation.retrieval.staying import PACKAGE, Staying
from readahead.types import Hit, Passage

SAID = {"words": 1.0, "rarest": 0.5, "information": 2.0, "margin": 9.0}


def hits(*scores: float, similarities: tuple[float | None, ...] = ()) -> list[Hit]:
    similarities = similarities or (None,) * len(scores)
    return [
        Hit(Passage("d", "", 0, 0, id=str(n)), score, similarity)
        for n, (score, similarity) in enumerate(zip(scores, similarities, strict=True))
    ]


def measure(staying: Staying, found: list[Hit], k: int = 2) -> list[dict[str, float]]:
    return staying.measure(found, k, SAID, [1.5] * len(found))


def test_the_signals_are_what_they_say() -> None:
    found = hits(4.0, 3.0, 2.0, 1.0, similarities=(0.5, 0.9, 0.7, 0.1))
    first, second, third, fourth = measure(Staying(), found)
    assert {name: first[name] for name in ("words", "rarest", "information", "told")} == {
        "words": 1.0,
        "rarest": 0.5,
        "information": 2.0,
        "told": 1.5,
    }
    assert [each["rank"] for each in (first, second, fourth)] == [-math.log(2), 0, math.log(2)]
    assert [each["is_first"] for each in (first, second)] == [1, 0]
    # Shown are two: above the third, or below the second, in shares of the first score.
    assert [each["lead"] for each in (first, second, third, fourth)] == [0.5, 0.25, -0.25, -0.5]
    assert first["similarity_lead"] == pytest.approx(0.5 - 0.7)
    assert third["similarity_lead"] == pytest.approx(0.7 - 0.5)
    assert first["behind"] == pytest.approx(0.4) and second["behind"] == 0
    assert "margin" not in first


def test_a_run_is_of_results_in_which_it_was_shown() -> None:
    staying = Staying()
    a, b, c = hits(1.0, 1.0, 1.0)
    runs = [
        [each["run"] for each in measure(staying, found)]
        for found in ([a, b, c], [b, a, c], [a, c, b], [a, b, c])
    ]
    assert runs == [[1, 1, 0], [2, 2, 0], [3, 1, 0], [4, 1, 0]]
    staying.reset()
    assert measure(staying, [a, b])[0]["run"] == 1


def test_without_vectors_there_are_no_similarities() -> None:
    for similarities in ((None, None), (0.5, None)):
        first, _ = measure(Staying(), hits(1.0, 0.5, similarities=similarities))
        assert not {"similarity", "similarity_lead", "behind"} & first.keys()


def test_probabilities_are_of_each() -> None:
    staying = Staying(Logistic(("is_first",), (0.5,), (0.1,), (1.0,), bias=0.0))
    first, second = staying.probabilities(measure(staying, hits(1.0, 0.5)))
    assert first > 0.9 and second < 0.1


@given(
    st.lists(st.floats(0, 1e6), max_size=6),
    st.integers(1, 9),
    st.floats(-1, 1),
)
def test_any_result_can_be_measured(scores: list[float], k: int, similarity: float) -> None:
    staying = Staying()
    ranked = sorted(scores, reverse=True)
    signals = measure(staying, hits(*ranked, similarities=(similarity,) * len(scores)), k)
    assert len(signals) == len(scores)
    assert all(math.isfinite(value) for each in signals for value in each.values())
    assert all(0 <= stays <= 1 for stays in staying.probabilities(signals))


def test_the_shipped_numbers_are_of_signals_that_there_are() -> None:
    (first,) = measure(Staying(), hits(1.0, similarities=(0.5,)))
    assert set(Logistic.load(PACKAGE, "staying").names) == first.keys()


def test_what_is_clearly_best_stays_and_the_rest_may_not() -> None:
    """The shipped numbers, on what a question and its passages look like."""
    gate = TypingGate(PrefetchConfig(), lambda word: 0.8)
    texts = ["A ticket for the dome costs 12 euros.", "The dome opens at nine.", "A lamp.", "Tea."]
    values = zip(texts, (0.33, 0.1, 0.06, 0.05), (0.8, 0.5, 0.1, 0.1), strict=True)
    found = [
        Hit(Passage("d", text, 0, len(text), id=text), score, similarity)
        for text, score, similarity in values
    ]
    for typed in ("what does a ticket", "what does a ticket for the dome"):
        stays = gate.decide(typed, found, k=2).stays
    assert stays[0] > 0.8 and stays[3] < 0.2
    assert sorted(stays, reverse=True) == list(stays)
