import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.logistic import Logistic
from readahead.speculation.retrieval.signals import TokenSignals
from readahead.speculation.retrieval.sufficiency import (
    Sufficiency,
    fitted,
    retrieval_signals,
    state_signals,
)
from readahead.types import Hit, Passage


def hit(text: str, similarity: float | None = None, heading: tuple[str, ...] = ()) -> Hit:
    return Hit(Passage("d.md", text, 0, len(text), heading=heading), 1.0, similarity)


def token(entropy: float, attention: float = math.nan) -> TokenSignals:
    return TokenSignals(entropy, math.exp(-entropy), 0.0, attention, attention, math.nan)


QUESTION = "Who keeps the lamp of the old tower?"
HELD = [hit("Ada keeps the lamp of the old tower.", 0.9), hit("Boats are blue.", 0.2)]
MISSED = [hit("Boats are blue.", 0.2), hit("Bread is brown.", 0.1)]


def test_passages_that_speak_of_the_question_are_likelier_to_hold_the_answer() -> None:
    held, missed = Sufficiency(QUESTION, HELD).judge(), Sufficiency(QUESTION, MISSED).judge()
    assert held.probability < 0.3
    assert missed.probability > 0.7


def test_retrieval_signals() -> None:
    signals = retrieval_signals(QUESTION, HELD)
    assert signals["similarity"] == 0.9
    assert signals["similarity_mean"] == pytest.approx(0.55)
    assert signals["margin"] == pytest.approx(0.7)
    assert signals["coverage"] == signals["coverage_best"] == 1.0
    halves = [hit("Ada keeps lamps."), hit("The old tower.")]
    assert retrieval_signals(QUESTION, halves) == {"coverage": 1.0, "coverage_best": 0.5}
    assert retrieval_signals("谁看守灯塔", [hit("阿达看守灯塔。")])["coverage"] == 1.0


def test_what_stands_above_a_passage_counts_as_shown() -> None:
    headed = [hit("Ada keeps it.", heading=("The lamp", "Old tower"))]
    assert retrieval_signals(QUESTION, headed)["coverage"] == 1.0


def test_state_signals_are_means_and_peaks_of_what_there_is() -> None:
    assert state_signals([]) == {}
    signals = state_signals([token(1.0), token(3.0, attention=0.5)])
    assert signals["entropy"] == 2.0
    assert signals["entropy_peak"] == 3.0
    assert signals["attention_entropy"] == 0.5
    assert math.isnan(signals["key_change"])


def test_a_signal_that_there_is_not_is_not_told() -> None:
    judgement = Sufficiency(QUESTION, [hit("Ada keeps the lamp.")]).judge("", [token(1.0)])
    assert "similarity" not in judgement.signals
    assert "attention_entropy" not in judgement.signals
    assert "refusal" not in judgement.signals


def test_what_was_said_is_compared_with_what_is_shown() -> None:
    sufficiency = Sufficiency(QUESTION, HELD)
    said = sufficiency.judge("Ada keeps the lamp.").signals
    assert (said["refusal"], said["unsupported"]) == (0.0, 0.0)
    invented = sufficiency.judge("Zoe keeps the lamp.").signals
    assert invented["unsupported"] == 1.0
    assert sufficiency.judge("The passages do not say.").signals["refusal"] == 1.0


def test_the_model_can_be_another() -> None:
    model = Logistic(("coverage",), (0.5,), (1.0,), (-40.0,), 0.0)
    assert Sufficiency(QUESTION, HELD, model).judge().probability < 0.01


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_no_text_stops_it(question: str, passage: str, said: str) -> None:
    judgement = Sufficiency(question, [hit(passage, 0.5)]).judge(said, [token(0.5)])
    assert 0 <= judgement.probability <= 1
    assert all(map(math.isfinite, judgement.signals.values()))


def test_without_any_passage_it_is_sure() -> None:
    assert Sufficiency(QUESTION, []).judge().probability > fitted().threshold
