from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.errors import InputError
from readahead.speculation.tokens.advise import (
    Costs,
    Growth,
    acceptance,
    best_gamma,
    best_speed_up,
    break_even,
    expected_tokens,
    replayed,
    speed_up,
)

BETAS = st.floats(0, 1)
GAMMAS = st.integers(1, 16)
SHARES = st.floats(0, 1)
COSTS = st.builds(
    lambda one, more, slope, c: Costs(
        {1: one, 2: one * more, 9: one * (more + slope), 17: one * (more + 3 * slope)}, one * c
    ),
    st.floats(0.001, 10),
    st.floats(1, 2),
    st.floats(0, 2),
    st.floats(0, 1.5),
)


def decode(
    beta: float, gamma: int, costs: Costs, share: float, num_rounds: int
) -> tuple[int, float, int]:
    """Return tokens, seconds and accepted draft tokens of rounds in which coins are tossed."""
    random = Random(7)
    num_accepted, seconds = 0, 0.0
    for _ in range(num_rounds):
        if random.random() >= share:
            seconds += costs.verify_s[1]
            continue
        accepted = 0
        while accepted < gamma and random.random() < beta:
            accepted += 1
        num_accepted += accepted
        seconds += gamma * costs.draft_s + costs.v(gamma) * costs.verify_s[1]
    return num_accepted + num_rounds, seconds, num_accepted


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.8, 0.97, 1.0])
@pytest.mark.parametrize("gamma", [1, 4, 16])
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_the_formulas_tell_what_a_simulation_gives(beta: float, gamma: int, share: float) -> None:
    costs, num_rounds = Costs({1: 2.0, 2: 2.1, 9: 2.6, 17: 3.4}, 0.5), 20_000
    num_tokens, seconds, _ = decode(beta, gamma, costs, share, num_rounds)
    told = 1 + share * (expected_tokens(beta, gamma) - 1)
    # Of 20,000 rounds with at most 16 tokens the mean is off by 0.35 in less than one in 10⁴ runs.
    assert num_tokens / num_rounds == pytest.approx(told, abs=0.05 + 0.02 * gamma)
    plain_s = num_tokens * costs.verify_s[1]
    assert plain_s / seconds == pytest.approx(speed_up(beta, gamma, costs, share), rel=0.03)


@given(beta=st.floats(0, 0.999), gamma=GAMMAS)
def test_the_closed_form_is_that_of_the_paper(beta: float, gamma: int) -> None:
    closed = (1 - beta ** (gamma + 1)) / (1 - beta)
    assert expected_tokens(beta, gamma) == pytest.approx(closed, rel=1e-6)
    assert expected_tokens(1.0, gamma) == gamma + 1


def test_acceptance_counts_only_tokens_that_were_judged() -> None:
    costs = Costs({1: 1.0, 2: 1.0})
    num_tokens, _, num_accepted = decode(0.8, 4, costs, 1.0, 20_000)
    num_whole = round(20_000 * 0.8**4)  # rounds that rejected nothing
    found = acceptance(num_accepted, 20_000 - num_whole)
    assert found == pytest.approx(0.8, abs=0.01)
    assert num_accepted / (4 * 20_000) < 0.65  # the share of all drafted is another figure
    assert acceptance(0, 0) == 0


@given(beta=BETAS, costs=COSTS, share=SHARES)
def test_the_best_length_is_best(beta: float, costs: Costs, share: float) -> None:
    best = best_gamma(beta, costs, share=share)
    told = [speed_up(beta, gamma, costs, share) for gamma in range(1, 17)]
    assert best == told.index(max(told)) + 1
    assert best_speed_up(beta, costs, share=share) == max(told)


@given(costs=COSTS, less=BETAS, more=BETAS)
def test_better_drafts_are_never_slower(costs: Costs, less: float, more: float) -> None:
    less, more = sorted((less, more))
    assert best_speed_up(less, costs) <= best_speed_up(more, costs) + 1e-9


@given(costs=COSTS)
def test_at_break_even_drafting_is_as_fast_as_not(costs: Costs) -> None:
    beta = break_even(costs)
    if beta is None:
        assert best_speed_up(1.0, costs) < 1
    else:
        assert 0 <= beta <= 1
        assert best_speed_up(beta, costs) >= 1 - 1e-9
        assert beta < 1e-6 or best_speed_up(beta - 1e-6, costs) < 1


def test_a_drafter_as_slow_as_the_target_never_pays() -> None:
    costs = Costs({1: 1.0, 2: 1.0, 17: 1.0}, 1.0)
    assert break_even(costs) == pytest.approx(1.0)  # all accepted: as fast, not faster
    assert break_even(Costs({1: 1.0, 2: 1.1, 17: 1.1}, 1.0)) is None


@given(beta=BETAS, gamma=GAMMAS, costs=COSTS, num=st.integers(1, 5))
def test_rounds_of_one_length_are_the_formula(
    beta: float, gamma: int, costs: Costs, num: int
) -> None:
    per_forward, told = replayed(beta, [gamma] * num, costs)
    assert per_forward == pytest.approx(expected_tokens(beta, gamma))
    assert told == pytest.approx(speed_up(beta, gamma, costs))
    mixed = replayed(beta, [gamma, 0], costs)
    assert mixed[0] == pytest.approx((expected_tokens(beta, gamma) + 1) / 2)
    assert mixed[1] == pytest.approx(speed_up(beta, gamma, costs, 0.5))


def test_rounds_that_draft_nothing_are_plain_decoding() -> None:
    costs = Costs({1: 2.0, 2: 3.0}, 1.0)
    assert replayed(0.9, [0, 0, 0], costs) == replayed(0.9, [], costs) == (1.0, 1.0)
    assert speed_up(0.9, 8, costs, share=0.0) == 1.0


def test_costs_between_and_beyond_those_measured_are_on_lines() -> None:
    costs = Costs({1: 1.0, 5: 2.0, 9: 2.0}, 0.25)
    assert [costs.v(gamma) for gamma in (0, 2, 4, 6, 8)] == [1.0, 1.5, 2.0, 2.0, 2.0]
    assert costs.v(12) == 2.0
    assert costs.c == 0.25


@pytest.mark.parametrize("verify_s", [{}, {1: 1.0}, {2: 1.0, 3: 1.0}, {1: 0.0, 2: 1.0}])
def test_costs_that_say_too_little_are_refused(verify_s: dict[int, float]) -> None:
    with pytest.raises(InputError, match="for 1 token and for several"):
        Costs(verify_s)


@given(
    base=st.floats(0.01, 1),
    slope=st.floats(0, 1e-3),
    num_tokens=st.integers(1, 100_000),
)
def test_growth_finds_the_lines_again(base: float, slope: float, num_tokens: int) -> None:
    def at(n: int) -> Costs:
        return Costs({1: base + slope * n, 9: 2 * base + slope * n}, base / 2)

    growth = Growth.of({n: at(n) for n in (500, 1000, 4000)})
    found, right = growth.at(num_tokens), at(num_tokens)
    assert found.verify_s[1] == pytest.approx(right.verify_s[1], rel=1e-6)
    assert found.verify_s[9] == pytest.approx(right.verify_s[9], rel=1e-6)
    assert found.draft_s == pytest.approx(right.draft_s)


def test_a_drafter_that_reads_little_pays_from_some_context_on() -> None:
    def at(n: int) -> Costs:
        one_s = 1.0 + n / 10_000
        return Costs({1: one_s, 17: one_s}, 0.9)

    growth = Growth.of({500: at(500), 2000: at(2000)})
    length = growth.pays_from(0.8, 1.05)
    assert length is not None
    assert best_speed_up(0.8, at(length)) >= 1.05
    assert best_speed_up(0.8, at(int(length * 0.9))) < 1.05
    assert growth.pays_from(0.0, 1.05) is None


def test_costs_that_seem_to_fall_with_the_context_stay() -> None:
    growth = Growth.of({500: Costs({1: 1.2, 2: 1.2}, 0.5), 1000: Costs({1: 1.0, 2: 1.0}, 0.5)})
    assert growth.at(100_000).verify_s[1] == pytest.approx(1.1)
    only = Growth.of({500: Costs({1: 1.0, 2: 1.5}, 0.5)})
    assert only.at(9000) == Costs({1: 1.0, 2: 1.5}, 0.5)
