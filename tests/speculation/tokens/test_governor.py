import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.speculation.tokens.base import Kind, Round
from readahead.speculation.tokens.governor import FixedPacer, Governor, StepCost

COPY, SURE, MODEL = Kind("lookup", 3), Kind("lookup", 7), Kind("model", 0)


def teach(
    governor: Governor,
    kind: Kind,
    *,
    rate: float,
    num_rounds: int = 200,
    slope: float = 0.02,
    draft_s: float = 0.0,
    seed: int = 0,
) -> list[int]:
    """Play rounds with a target whose step takes 1 s, as the governor wants them; return γ."""
    random = np.random.default_rng(seed)
    lengths = []
    for _ in range(num_rounds):
        gamma, survival = 0, 1.0
        unread = 1 if draft_s else 0
        while gamma < governor.max_draft_tokens:
            if governor.gain_s(kind, survival, gamma, unread) <= 0:
                break
            survival *= governor.rate(kind)
            gamma += 1
            if draft_s:
                governor.saw_draft_step(1, draft_s)
        hits = random.random(gamma) < rate
        num_accepted = gamma if hits.all() else int(hits.argmin())
        verify_s = 1.0 + slope * gamma
        spent_s = gamma * draft_s
        governor.saw(Round((kind,) * gamma, num_accepted, spent_s, verify_s, spent_s + verify_s))
        lengths.append(gamma)
    return lengths


def test_nothing_is_drafted_before_a_step_is_known() -> None:
    governor = Governor()
    assert governor.gain_s(SURE, 1.0, 0) == 0.0
    governor.saw(Round((), 0, 0.0, 1.0, 1.0))
    assert governor.gain_s(SURE, 1.0, 0) > 0.5
    # Of a model one token, to see what it costs, even where a copy seems worth it.
    assert governor.gain_s(MODEL, 1.0, 0, 1) > governor.gain_s(SURE, 1.0, 0)
    assert governor.gain_s(MODEL, 1.0, 1, 1) == 0.0


def test_good_copies_are_long_and_bad_ones_rare() -> None:
    good = teach(Governor(), COPY, rate=0.97)
    assert np.mean(good[-50:]) > 12
    bad = teach(Governor(), COPY, rate=0.0, slope=0.3)
    assert np.mean(bad[-100:]) < 0.1


def test_what_comes_back_is_noticed() -> None:
    governor = Governor()
    assert np.mean(teach(governor, COPY, rate=0.0, slope=0.2)[-50:]) < 0.2
    assert np.mean(teach(governor, COPY, rate=0.97, slope=0.2, num_rounds=600)[-50:]) > 8


@pytest.mark.parametrize(("draft_s", "rate"), [(0.4, 0.3), (1.0, 0.95), (2.0, 1.0), (0.9, 0.5)])
def test_a_drafter_that_cannot_pay_costs_almost_nothing(draft_s: float, rate: float) -> None:
    """At these costs plain decoding is the best, or nearly: 3 % is the promise."""
    governor = Governor()
    teach(governor, MODEL, rate=rate, draft_s=draft_s, num_rounds=100)
    seconds = tokens = 0.0
    random = np.random.default_rng(1)
    lengths = teach(governor, MODEL, rate=rate, draft_s=draft_s, num_rounds=500)
    for gamma in lengths:
        hits = random.random(gamma) < rate
        tokens += 1 + (gamma if hits.all() else int(hits.argmin()))
        seconds += 1 + 0.02 * gamma + draft_s * gamma
    assert seconds / tokens < 1.03


def test_a_cheap_drafter_pays() -> None:
    lengths = teach(Governor(), MODEL, rate=0.9, draft_s=0.1, num_rounds=100)
    assert 3 <= np.mean(lengths[-50:]) <= 16


def test_one_interrupted_step_does_not_count_for_ever() -> None:
    cost = StepCost()
    for _ in range(20):
        cost.saw(1, 1.0)
        cost.saw(5, 1.2)
    cost.saw(1, 60.0)
    assert cost(1) < 1.5
    assert cost(5) < 2.0


def test_a_clock_that_stood_still_is_forgotten() -> None:
    cost = StepCost()
    cost.saw(1, 0.0)
    for _ in range(50):
        cost.saw(1, 1.0)
    assert cost(1) > 0.9


def test_a_model_whose_first_step_was_slow_drafts_again() -> None:
    governor = Governor()
    teach(governor, MODEL, rate=0.9, num_rounds=5)
    governor.saw_draft_step(1, 200.0)
    lengths = teach(governor, MODEL, rate=0.9, draft_s=0.1, num_rounds=200)
    assert np.mean(lengths[-50:]) > 3


@given(st.lists(st.tuples(st.integers(1, 17), st.floats(1e-4, 10)), min_size=1))
def test_costs_are_never_negative_and_never_fall(steps: list[tuple[int, float]]) -> None:
    cost = StepCost()
    for num_tokens, seconds in steps:
        cost.saw(num_tokens, seconds)
    told = [cost(num_tokens) for num_tokens in range(1, 20)]
    assert all(np.isfinite(told))
    assert min(told) > 0
    assert all(b >= a - 1e-9 for a, b in zip(told[1:], told[2:], strict=False))


def test_what_is_believed_says_why_so_much_is_drafted() -> None:
    governor = Governor()
    assert governor.beliefs() == {}
    teach(governor, COPY, rate=0.9)
    assert list(governor.beliefs()) == ["lookup"]  # no model was asked
    copying = governor.beliefs()["lookup"]
    assert copying.acceptance == pytest.approx(0.9, abs=0.06)
    assert copying.speed_up > 3
    teach(governor, MODEL, rate=0.9, draft_s=1.5)
    assert 0.2 < governor.beliefs()["model"].speed_up < 1
    cheap = Governor()
    teach(cheap, MODEL, rate=0.9, draft_s=0.1)
    assert cheap.beliefs()["model"].speed_up > 2


def test_copies_that_are_not_drafted_are_believed_to_be_bad() -> None:
    governor, weak = Governor(), Kind("lookup", 1)
    lengths = teach(governor, weak, rate=0.02, slope=0.3)
    assert np.mean(lengths[-100:]) < 0.1
    assert governor.beliefs()["lookup"].speed_up < 1


def test_a_model_is_not_forgotten_beside_copies() -> None:
    """The longer it was not asked, the more a trial is due; what it would gain counts still."""
    governor = Governor()
    teach(governor, MODEL, rate=0.9, draft_s=0.1)
    before_s = governor.gain_s(MODEL, 1.0, 0, 1)
    teach(governor, COPY, rate=0.3)
    assert governor.gain_s(MODEL, 1.0, 0, 1) == pytest.approx(before_s, rel=0.2)
    assert governor.gain_s(MODEL, 1.0, 0, 1) > governor.gain_s(COPY, 1.0, 0) > 0


def test_a_fixed_number_is_drafted() -> None:
    pacer = FixedPacer(3)
    assert [pacer.gain_s(COPY, 1.0, n) > 0 for n in range(5)] == [True] * 3 + [False] * 2
    assert pacer.gain_s(COPY, 1.0, 0) > pacer.gain_s(MODEL, 1.0, 0, 4) > 0
