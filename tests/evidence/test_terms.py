"""Terms hold what tells texts apart and drop what does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.evidence.terms import read_terms, stem


@pytest.mark.parametrize(
    "forms",
    [
        ("refund", "refunds", "refunded", "refunding"),
        ("make", "makes", "making"),
        ("stop", "stops", "stopped", "stopping"),
        ("city", "cities"),
        ("church", "churches"),
        ("company", "company's", "company’s", "companies"),
        ("call", "called", "calling"),
    ],
)
def test_forms_of_a_word_have_one_stem(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize("pair", [("class", "clad"), ("king", "kin"), ("bus", "bu"), ("red", "r")])
def test_other_words_have_other_stems(pair: tuple[str, str]) -> None:
    assert stem(pair[0]) != stem(pair[1])


def test_english() -> None:
    terms = read_terms("The museum in New York was opened by Röntgen in 1,990 with 87% glass.")
    words = {"museum", "new", "york", "open", "rontgen", "glass"}
    assert terms.content == words | {"1990", "87"}
    assert terms.quantities == {("1990", "", "1990"), ("87", "%", "")}
    assert terms.names == {"new", "york", "rontgen"}
    assert terms.held == terms.content


def test_chinese() -> None:
    terms = read_terms("退款的期限是五天，用HTTP请求")
    assert terms.content == {"退款", "期限", "5", "天", "用", "http", "请求"}
    assert terms.held == terms.content | set("退款期限请求")


@given(st.text(max_size=60))
def test_numbers_and_names_are_content(text: str) -> None:
    terms = read_terms(text)
    assert terms.values | terms.names <= terms.content <= terms.held
    assert "" not in terms.content
