"""Presets of the transfer strength, and how trust in the retrieval weakens it."""

import pytest

from readahead.config import load_config
from readahead.errors import ConfigError
from readahead.speculation.tokens.acceptance import Rule
from readahead.speculation.tokens.context import Selected, select
from readahead.speculation.tokens.transfer import dynamic, eta_preset, kind_of, trust


@pytest.mark.parametrize(
    ("target", "drafter", "eta"), [(7, 7, 10.0), (7, 1, 5.0), (7, 8, 40.0), (1, 7, 40.0)]
)
def test_a_preset_follows_from_the_sizes(target: int, drafter: int, eta: float) -> None:
    assert eta_preset(target, drafter) == eta
    assert kind_of(target, drafter) == ("upward" if drafter > target else "self")


@pytest.mark.parametrize(
    ("value", "eta"), [("self", 10), ("self-strong", 20), ("upward", 40), ("7.5", 7.5), (0, 0)]
)
def test_settings_may_name_a_preset(value: object, eta: float) -> None:
    assert load_config({"tokens.eta": value}).tokens.eta == eta


@pytest.mark.parametrize("value", ["strong", "-1", -1])
def test_other_names_are_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="tokens.eta"):
        load_config({"tokens.eta": value})


def test_trust_is_the_similarity_of_the_best_passage() -> None:
    similarities = [0.35, 0.8, 0.2]
    assert trust(similarities, select(similarities, [5, 5, 5], max_tokens=100)) == 0.8
    failed = select(similarities, [5, 5, 5], min_similarity=0.9, max_tokens=100)
    assert failed.is_fallback
    assert trust(similarities, failed) == 0.0
    assert trust([], Selected((), (), 0)) == 0.0
    assert trust([1.5], Selected((0,), (0,), 5)) == 1.0


def test_a_retrieval_that_failed_moves_nothing() -> None:
    rule = dynamic(Rule("augmented", 10.0), 0.0)
    assert (rule.eta, rule.is_dynamic) == (0.0, True)
    assert dynamic(Rule("augmented", 10.0), 0.8).eta == 8.0
