import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss

from readahead.errors import InputError
from readahead.speculation.answers.risk import (
    Point,
    area_under,
    brier_score,
    calibration_error,
    risk_coverage,
    threshold_for,
)

probabilities = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1))
answers = st.lists(st.tuples(probabilities, st.booleans()), min_size=1, max_size=30)


def curve(*pairs: tuple[float, bool]) -> list[Point]:
    return risk_coverage([value for value, _ in pairs], [is_right for _, is_right in pairs])


def test_the_curve_goes_from_the_surest_to_all_and_keeps_ties_together() -> None:
    points = curve((0.2, False), (0.9, True), (0.5, False), (0.5, True))
    assert [(point.coverage, point.threshold) for point in points] == [
        (0.25, 0.9),
        (0.75, 0.5),
        (1.0, 0.2),
    ]
    assert [point.accuracy for point in points] == [1.0, pytest.approx(2 / 3), 0.5]


@given(answers)
def test_each_point_is_what_answering_from_its_threshold_on_gives(
    pairs: list[tuple[float, bool]],
) -> None:
    points = curve(*pairs)
    assert points == curve(*reversed(pairs))  # the order of the questions does not matter
    assert [point.threshold for point in points] == sorted({p for p, _ in pairs}, reverse=True)
    for point in points:
        answered = [is_right for value, is_right in pairs if value >= point.threshold]
        assert point.coverage == len(answered) / len(pairs)
        assert point.accuracy == pytest.approx(sum(answered) / len(answered))
        assert point.risk == pytest.approx(1 - point.accuracy)


@given(answers)
def test_the_area_is_the_mean_risk_and_right_answers_first_is_best(
    pairs: list[tuple[float, bool]],
) -> None:
    right = [is_right for _, is_right in pairs]
    blind = area_under(curve(*((0.5, is_right) for is_right in right)))
    assert blind == pytest.approx(1 - np.mean(right))
    wrong_first = [(1 - place / 100, is_right) for place, is_right in enumerate(sorted(right))]
    right_first = [(place / 100, is_right) for place, is_right in enumerate(sorted(right))]
    best, worst = area_under(curve(*right_first)), area_under(curve(*wrong_first))
    assert best - 1e-9 <= area_under(curve(*pairs)) <= worst + 1e-9


def test_the_area_of_a_known_curve() -> None:
    pairs = (0.9, True), (0.8, False), (0.7, True), (0.6, False)
    assert area_under(curve(*pairs)) == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)


@given(answers, st.floats(0, 1))
def test_the_threshold_is_the_smallest_that_is_right_often_enough(
    pairs: list[tuple[float, bool]], accuracy: float
) -> None:
    found = threshold_for(curve(*pairs), accuracy)
    good = [
        threshold
        for threshold, _ in pairs
        if np.mean([is_right for value, is_right in pairs if value >= threshold]) >= accuracy
    ]
    assert found == min(good, default=None)


@given(answers)
def test_the_brier_score_is_that_of_scikit_learn(pairs: list[tuple[float, bool]]) -> None:
    values, right = [value for value, _ in pairs], [is_right for _, is_right in pairs]
    expected = brier_score_loss(right, values, labels=[False, True])
    assert brier_score(values, right) == pytest.approx(expected)


def test_the_calibration_error_is_the_gap_within_the_bins() -> None:
    assert calibration_error([0.5] * 4, [True, True, False, False]) == 0.0
    assert calibration_error([1.0, 1.0, 0.0], [True, True, False]) == 0.0
    assert calibration_error([1.0, 0.0], [False, True]) == 1.0
    # 0.62 and 0.68 share a bin: 0.65 was said, 0.5 was right. 0.91 was right.
    found = calibration_error([0.62, 0.68, 0.91], [True, False, True])
    assert found == pytest.approx((2 * 0.15 + 0.09) / 3)
    assert calibration_error([1.0, 0.92], [False, True]) == pytest.approx(0.46)  # the last bin
    assert calibration_error([0.1, 0.9], [False, True], num_bins=1) == pytest.approx(0.0)


@given(answers)
def test_the_calibration_error_is_between_the_overall_gap_and_one(
    pairs: list[tuple[float, bool]],
) -> None:
    values, right = [value for value, _ in pairs], [is_right for _, is_right in pairs]
    overall = abs(np.mean(values) - np.mean(right))
    assert overall - 1e-9 <= calibration_error(values, right) <= 1.0


def test_nothing_to_look_at_is_refused() -> None:
    for measure in (risk_coverage, brier_score, calibration_error):
        with pytest.raises(InputError):
            measure([], [])
        with pytest.raises(InputError):
            measure([math.nan], [True])
