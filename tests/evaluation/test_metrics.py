"""Answers are compared as in SQuAD and by character; rankings through ir-measures."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.errors import ConfigError
from readahead.evaluation.metrics import contains, exact_match, normalize, ranking, token_f1

TEXT = st.text(st.sampled_from("a the an cat, 五天。１2."), max_size=20)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The Cat, an  animal!", ["cat", "animal"]),
        ("U.S. 1,000", ["us", "1000"]),
        ("５天。", ["5", "天"]),
        ("使用HTTP请求", ["使", "用", "http", "请", "求"]),
        ("another theme", ["another", "theme"]),
        ("...", []),
    ],
)
def test_normalize(text: str, tokens: list[str]) -> None:
    assert normalize(text) == tokens


def test_exact_match() -> None:
    assert exact_match("the Eiffel Tower.", ["Louvre", "Eiffel tower"]) == 1.0
    assert exact_match("Eiffel", ["Eiffel Tower"]) == 0.0
    assert exact_match("五天。", ["５天", "五天"]) == 1.0
    assert exact_match("anything", []) == 0.0


def test_token_f1() -> None:
    # precision 1/3, recall 1/2
    assert token_f1("in Paris today", ["Paris France"]) == pytest.approx(0.4)
    assert token_f1("退款五天", ["五天"]) == pytest.approx(2 / 3)
    assert token_f1("cat cat", ["cat"]) == pytest.approx(2 / 3)
    assert token_f1("", ["cat"]) == 0.0
    assert token_f1("the", ["an"]) == 1.0


def test_contains_whole_tokens() -> None:
    assert contains("It opened in 1990, they say.", ["in 1990"]) == 1.0
    assert contains("It opened in 19901.", ["1990"]) == 0.0
    assert contains("退款需要五天。", ["五 天"]) == 1.0
    assert contains("anything", ["the", "?"]) == 0.0


@given(TEXT, TEXT)
def test_the_three_agree(left: str, right: str) -> None:
    exact, f1, contained = (m(left, [right]) for m in (exact_match, token_f1, contains))
    assert 0.0 <= f1 <= 1.0
    assert f1 == pytest.approx(token_f1(right, [left]))
    if exact:
        assert f1 == contained == 1.0
    if contained and normalize(right):
        assert f1 > 0.0


def test_ranking() -> None:
    metrics = ranking([1, 2, None, 4], [1, 3, 10])
    assert metrics == pytest.approx(
        {"recall@1": 0.25, "recall@3": 0.5, "recall@10": 0.75, "mrr": (1 + 1 / 2 + 1 / 4) / 4}
    )
    assert ranking([], [1]) == {"recall@1": 0.0, "mrr": 0.0}
    assert ranking([None], [1]) == {"recall@1": 0.0, "mrr": 0.0}


def test_ranking_names_the_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(ConfigError, match=r"readahead\[eval\]"):
        ranking([1], [1])
