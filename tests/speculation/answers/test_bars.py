from typing import Literal

import pytest

from readahead.config import DraftsConfig
from readahead.speculation.answers.bars import Bars, thresholds
from readahead.speculation.answers.calibration import Platt
from readahead.speculation.answers.choose import Rated, rate
from readahead.speculation.answers.pool import pool
from readahead.types import Draft
from tests.speculation.answers.scripted import hits

OWN = Platt(1.0, -4.0)


def rated() -> list[Rated]:
    """Return three answers, in the order of their probabilities."""
    found = hits("It was built in 1885.", "It dates from 1885.", "It was built in 1902.")
    drafts = [Draft("1885", (0,)), Draft("1885", (1,)), Draft("1902", (2,)), Draft("nine", (2,))]
    candidates = pool("When was it built?", drafts, [hit.passage for hit in found])
    return rate("When was it built?", candidates, drafts, found)


@pytest.mark.parametrize(("preset", "model"), [("fast", "evidence"), ("accurate", "verified")])
def test_names_mean_what_was_fitted(preset: Literal["fast", "accurate"], model: str) -> None:
    named = thresholds(model)
    bars = Bars(DraftsConfig(preset=preset, threshold="lenient"))
    assert bars.model == model
    assert bars.threshold() == named["lenient"] < named["strict"] == bars.threshold(True)
    assert bars.also == named.get("also")
    assert bars.harm == named.get("harm", 0.0)
    assert (bars.also is None) == (bars.harm > 0)  # one of the two decides


def test_a_name_is_told_on_the_users_own_scale_and_a_number_as_it_is() -> None:
    named, shipped = Bars(DraftsConfig(), OWN), Bars(DraftsConfig())
    assert named.threshold() == OWN.probability(shipped.threshold())
    if shipped.also is not None:
        assert named.also == OWN.probability(shipped.also)
    numbers = Bars(DraftsConfig(threshold=0.25, also=0.5), OWN)
    assert (numbers.threshold(), numbers.threshold(True), numbers.also) == (0.25, 0.25, 0.5)


def test_the_users_own_probabilities_sort_the_answers() -> None:
    shipped = rated()
    assert Bars(DraftsConfig()).calibrated(shipped) == shipped
    falling = Platt(-1.0, 0.0)
    own = Bars(DraftsConfig(), falling).calibrated(shipped)
    assert [one.candidate for one in own] == [one.candidate for one in reversed(shipped)]
    told = [falling.probability(one.probability) for one in reversed(shipped)]
    assert [one.probability for one in own] == told
    assert [one.wrong for one in own] == [one.wrong for one in reversed(shipped)]
