"""Values agree, differ, or have nothing to do with each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.evidence.spans import normalize
from readahead.evidence.values import Value, read_values, share_stated, stated


def values(text: str) -> tuple[Value, ...]:
    return read_values(normalize(text))


def compare(claimed: str, held: str) -> tuple[bool, bool]:
    (value,) = values(claimed)
    return stated(value, values(held)), any(one.conflicts(value) for one in values(held))


@pytest.mark.parametrize(
    ("claimed", "held"),
    [
        ("USD 890,000,000", "$890M"),
        ("890.000.000 dollars", "$890 million"),
        ("890.000 euros", "890,000 euros"),
        ("€1.234,56", "1,234.56 euros"),
        ("10 thousand", "10,000"),
        ("10k", "ten thousand"),
        ("3.2万", "32,000"),
        ("1亿", "100 million"),
        ("87 %", "百分之八十七"),
        ("87%", "86.7 percent"),
        ("about 50 people", "46 people"),
        ("Over 50 %", "52 %"),
        ("超过五十人", "54人"),
        ("not more than 50 people", "46 people"),
        ("46 people", "under 50 people"),
        ("over 50 people", "over 53 people"),
        ("5公里", "5千米"),
        ("50公斤", "五十千克"),
        ("105 people", "one hundred and five people"),
        ("March 3, 2021", "2021-03-03"),
        ("2021年3月3日", "3 March 2021"),
        ("2021", "on 2021-03-03"),
        ("1994", "the 1990s"),
        ("March 3, 2021", "On March 3 it rained; this was in 2021."),
        ("1500 people", "1,500 people"),
        ("5 km", "ﬁve kilometres"),
    ],
)
def test_agreement(claimed: str, held: str) -> None:
    assert compare(claimed, held) == (True, False)


@pytest.mark.parametrize(
    ("claimed", "held"),
    [
        ("999 million", "67 million"),
        ("87 %", "85 %"),
        ("2021", "2022"),
        ("March 3", "March 4, 2021"),
        ("USD 890,000,000", "$980M"),
        ("5 km", "5 miles"),
        ("1,000", "999"),
        ("1亿", "1万"),
        ("Over 50 %", "46 %"),
        ("More than 50 people", "46 people"),
        ("超过五十人", "四十六人"),
        ("Less than 50 people", "54 people"),
        ("not more than 50 people", "54 people"),
        ("54 people", "under 50 people"),
        ("up to 7 days", "up to five days"),
        ("cover 90 %", "cover 85 %"),
        ("discover 50", "discover 46"),
        ("9780306406157", "9780306406159"),
        ("192.168.1.10", "192.168.1.1"),
        ("-3%", "3%"),
        ("-5 km", "5 km"),
    ],
)
def test_conflict(claimed: str, held: str) -> None:
    assert compare(claimed, held) == (False, True)


@pytest.mark.parametrize(
    ("claimed", "held"),
    [
        ("March 3, 2021", "2021"),
        ("87 %", "87 people"),
        ("5 km", "7 days"),
        ("2021", "March 3"),
        ("3.10", "3.1"),
        ("0123", "123"),
        ("over 50 people", "500 people"),
    ],
)
def test_neither(claimed: str, held: str) -> None:
    assert compare(claimed, held) == (False, False)


def test_a_part_of_a_date() -> None:
    (value,) = values("March 3, 2021")
    assert share_stated(value, values("2021")) == pytest.approx(1 / 3)
    assert share_stated(value, values("in March 2021")) == pytest.approx(2 / 3)
    assert share_stated(value, values("March 4, 2021")) == 0.0


def test_positions_are_in_the_text_as_it_stands() -> None:
    text = "The ﬁrst\u200b oﬃce cost $1\u00adM in ２０２１."
    assert [text[value.start : value.end] for value in values(text)] == ["$1\u00adM", "２０２１"]


@given(st.text(max_size=60))
def test_what_a_text_states_it_states(text: str) -> None:
    held = values(text)
    assert all(stated(value, held) for value in held)
    assert not any(value.conflicts(value) for value in held)


def test_a_numeral_longer_than_any_number() -> None:
    assert compare("9" * 400, "7 people") == (False, True)
