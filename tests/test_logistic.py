import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from readahead.logistic import Logistic

MODEL = Logistic(("a", "b"), (1.0, -2.0), (2.0, 0.5), (0.7, -1.5), bias=0.3, threshold=0.4)


def test_it_gives_what_scikit_learn_gives() -> None:
    rows = [[0.0, 3.0], [1.0, 1.0], [4.0, -2.0], [2.0, 0.5], [0.5, 2.5], [3.0, 3.0]]
    scaler = StandardScaler().fit(rows)
    fitted = LogisticRegression().fit(scaler.transform(rows), [0, 1, 1, 0, 0, 1])
    model = Logistic(
        ("a", "b"),
        tuple(map(float, scaler.mean_)),
        tuple(map(float, scaler.scale_)),
        tuple(map(float, fitted.coef_[0])),
        bias=float(fitted.intercept_[0]),
    )
    for row, expected in zip(rows, fitted.predict_proba(scaler.transform(rows)), strict=True):
        found = model.probability(dict(zip("ab", row, strict=True)))
        assert found == pytest.approx(expected[1], abs=1e-12)


@given(st.dictionaries(st.sampled_from("abc"), st.floats()))
def test_any_features_give_a_probability(features: dict[str, float]) -> None:
    assert 0.0 <= MODEL.probability(features) <= 1.0


@pytest.mark.parametrize("unknown", [{}, {"b": math.nan}, {"b": math.inf}, {"c": 9.0}])
def test_what_is_not_known_counts_as_the_mean(unknown: dict[str, float]) -> None:
    assert MODEL.probability({"a": 3.0, **unknown}) == MODEL.probability({"a": 3.0, "b": -2.0})


def test_it_survives_json() -> None:
    assert Logistic.from_json(json.loads(json.dumps(MODEL.to_json()))) == MODEL


def test_a_feature_without_its_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="every feature"):
        Logistic(("a", "b"), (0.0, 0.0), (1.0, 1.0), (1.0,), bias=0.0)
    with pytest.raises(ValueError, match="every feature"):
        Logistic(("a",), (0.0,), (0.0,), (1.0,), bias=0.0)
