import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from readahead.errors import InputError
from readahead.speculation.answers.calibration import (
    Calibration,
    Isotonic,
    Platt,
    fit_isotonic,
    fit_platt,
)

Fit = Callable[[list[float], list[bool]], Calibration]
FITS: list[Fit] = [fit_isotonic, fit_platt]
# scikit-learn takes scores for one that differ by less than its resolution; so none do here.
scores = st.one_of(st.integers(-5, 5), st.floats(-30, 30)).map(lambda score: round(score, 3) + 0.0)
labelled = st.lists(st.tuples(scores, st.booleans()), min_size=1, max_size=30)
GRID = [-40.0, -3.3, -0.5, 0.0, 0.1, 0.75, 2.0, 40.0]


def split(pairs: list[tuple[float, bool]]) -> tuple[list[float], list[bool]]:
    return [score for score, _ in pairs], [is_right for _, is_right in pairs]


def made_up(num: int = 400) -> tuple[list[float], list[bool]]:
    rng = np.random.default_rng(3)
    score = rng.normal(size=num).round(2)
    return score.tolist(), (rng.random(num) < 1 / (1 + np.exp(-2 * score - 0.5))).tolist()


@given(labelled)
def test_isotonic_is_what_scikit_learn_fits(pairs: list[tuple[float, bool]]) -> None:
    score, right = split(pairs)
    found = fit_isotonic(score, right)
    oracle = IsotonicRegression(out_of_bounds="clip").fit(score, np.array(right, float))
    at = sorted({*GRID, *score})
    assert [found.probability(x) for x in at] == pytest.approx(oracle.predict(at), abs=1e-9)


@settings(max_examples=30)
@given(st.one_of(labelled, st.just(list(zip(*made_up(), strict=True)))))
def test_platt_is_what_scikit_learn_fits_to_the_smoothed_labels(
    pairs: list[tuple[float, bool]],
) -> None:
    score, right = split(pairs)
    num_right, num_wrong = sum(right), len(right) - sum(right)
    high, low = (num_right + 1) / (num_right + 2), 1 / (num_wrong + 2)
    weights = [high if is_right else low for is_right in right]
    # A soft label is one right and one wrong answer with weights; a weak penalty changes nothing.
    oracle = LogisticRegression(C=1e9, tol=1e-10, max_iter=10_000, solver="newton-cholesky").fit(
        np.array(score * 2)[:, None],
        [1] * len(score) + [0] * len(score),
        sample_weight=weights + [1 - weight for weight in weights],
    )
    found = fit_platt(score, right)
    at = np.array(sorted(set(score)))
    expected = oracle.predict_proba(at[:, None])[:, 1]
    assert [found.probability(x) for x in at] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("fit", FITS)
@given(pairs=labelled)
def test_every_fit_gives_probabilities_and_survives_json(
    fit: Fit, pairs: list[tuple[float, bool]]
) -> None:
    found = fit(*split(pairs))
    values = [found.probability(x) for x in [-math.inf, *GRID, math.inf]]
    assert all(0.0 <= value <= 1.0 for value in values)
    assert found.probability(math.nan) == 0.0
    if isinstance(found, Isotonic):
        assert values == sorted(values)
    assert Calibration.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_a_perfect_score_gives_a_finite_curve() -> None:
    found = fit_platt([-2.0, -1.0, 1.0, 2.0], [False, False, True, True])
    assert found.probability(2.0) < 0.9
    assert found.probability(-2.0) > 0.1
    assert found.slope > 0


@pytest.mark.parametrize("score", [0.1, -1e6, 1e6])
def test_one_score_for_all_gives_the_share_of_right_answers(score: float) -> None:
    right = [True] * 60 + [False] * 40
    for fit in FITS:
        assert fit([score] * 100, right).probability(score) == pytest.approx(0.6, abs=0.01)


def test_a_spread_that_is_only_rounding_says_nothing() -> None:
    assert fit_platt([0.1, 0.1 + 1e-16, 0.1 - 1e-16], [True, False, True]).slope == 0.0
    assert fit_platt([0.0, 1e-200], [True, False]).slope == 0.0


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_unit_of_the_score_does_not_matter(scale: float) -> None:
    score, right = made_up()
    one, other = fit_platt(score, right), fit_platt([x * scale + 7 * scale for x in score], right)
    for x in (-2.0, 0.0, 1.5):
        assert other.probability(x * scale + 7 * scale) == pytest.approx(one.probability(x))


def test_the_curve_finds_what_made_the_data() -> None:
    found = fit_platt(*made_up(20_000))
    assert found.slope == pytest.approx(2.0, abs=0.1)
    assert found.intercept == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("fit", FITS)
def test_what_cannot_be_fitted_is_refused(fit: Fit) -> None:
    with pytest.raises(InputError, match="no answer"):
        fit([], [])
    with pytest.raises(InputError, match="not finite"):
        fit([1.0, -math.inf], [True, False])
    with pytest.raises(ValueError, match="2 scores for 1"):
        fit([1.0, 2.0], [True])


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"kind": "spline"},
        {"kind": "platt", "slope": 1.0},
        {"kind": "platt", "slope": 1.0, "intercept": math.nan},
        {"kind": "isotonic", "scores": [], "probabilities": []},
        {"kind": "isotonic", "scores": [1.0, 0.0], "probabilities": [0.1, 0.2]},
        {"kind": "isotonic", "scores": [0.0, 1.0], "probabilities": [0.3, 0.2]},
        {"kind": "isotonic", "scores": [0.0, 1.0], "probabilities": [0.3, 1.2]},
        {"kind": "isotonic", "scores": [0.0, 1.0], "probabilities": [0.3]},
    ],
)
def test_a_broken_file_is_one_clear_line(record: dict[str, object]) -> None:
    with pytest.raises(InputError, match="not a calibration"):
        Calibration.from_json(record)


def test_a_curve_is_frozen() -> None:
    assert hash(Platt(1.0, 0.0)) == hash(Platt(1.0, 0.0))
