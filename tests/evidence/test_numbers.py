"""Numbers are the same however they are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.evidence.numbers import Quantity, find_numbers, states
from readahead.text import fold


def values(text: str) -> list[str]:
    return [number.value for number in find_numbers(fold(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,000 or 1000 or １０００", ["1000", "1000", "1000"]),
        ("ten and 10 and 十", ["10", "10", "10"]),
        ("twenty-five, 25 and 二十五", ["25", "25", "25"]),
        ("2 million, 2,000,000, two million and 两百万", ["2000000"] * 4),
        ("one hundred thousand; 10万; 十万", ["100000"] * 3),
        ("3.50 and 3.5", ["3.5", "3.5"]),
        ("87 %, 87%, 87 percent, 百分之87, 百分之八十七", ["87"] * 5),
        ("二〇一五年和2015年", ["2015", "2015"]),
        ("一万二千三百四十五", ["12345"]),
        ("两千零五", ["2005"]),
        ("the one and only 一个", []),
        ("May 18, 2018", ["18", "2018"]),
        ("2018-05-18", ["2018", "5", "18"]),
        ("in the 1990s, the 5th", ["1990", "5"]),
        ("node12 and b2b", []),
        ("第5章", ["5"]),
        ("no numbers, often tenderly", []),
        ("$890M, USD 890,000,000, 890.000.000 and € 890 mn", ["890000000"] * 4),
        ("1.234,56 and 1,234.56", ["1234.56"] * 2),
        ("10k, 5 m, 3 b", ["10000", "5", "3"]),
        ("one hundred and five, 105 and 一百零五", ["105"] * 3),
        ("one hundred and five thousand", ["105000"]),
        ("between one hundred and five hundred", ["100", "500"]),
        ("9780306406157, 1234567890123456", ["9780306406157", "1234567890123456"]),
        ("192.168.1.10", ["192.168.1.10"]),
    ],
)
def test_values(text: str, expected: list[str]) -> None:
    assert values(text) == expected


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("87 %, 87%, 87 percent, 百分之87, 百分之八十七", ["%"] * 5),
        ("30 days, 30-day, thirty days, 30天, 三十天", ["day"] * 5),
        ("$4.50, 4.50 dollars, 4.50 USD, 4.5美元", ["dollar"] * 4),
        ("$2 million and 3 million euros", ["dollar", "euro"]),
        ("5 km, 5 kilometers, 5公里, 5千米", ["km"] * 4),
        ("5千克, 五十千克", ["kg"] * 2),
        ("5 metal bars and 7 mice", ["", ""]),
    ],
)
def test_units(text: str, units: list[str]) -> None:
    assert [number.unit for number in find_numbers(fold(text))] == units


def test_states() -> None:
    held = {Quantity("30", "day"), Quantity("7", ""), Quantity("87", "%")}
    for value, unit in (("30", "day"), ("30", ""), ("7", "day"), ("87", "%")):
        assert states(held, Quantity(value, unit))
    for value, unit in (("30", "year"), ("7", "%"), ("8", "")):
        assert not states(held, Quantity(value, unit))


@pytest.mark.parametrize(
    ("held", "claimed", "is_stated"),
    [
        ("3.1", "3.10", False),
        ("123", "0123", False),
        ("$3.50", "3.5", True),
        ("3", "3.0", True),
        ("4", "04", True),
        ("1000", "1,000", True),
    ],
)
def test_what_stands_alone_is_as_it_is_written(held: str, claimed: str, is_stated: bool) -> None:
    (one,), (other,) = find_numbers(held), find_numbers(claimed)
    assert states([one.quantity], other.quantity) == is_stated


def test_a_kilometre_is_no_thousand() -> None:
    assert values("5千米, 五十千克, 五千人, 5千人") == ["5", "50", "5000", "5000"]


@pytest.mark.parametrize(
    "text", ["亿" * 3 + "二" + "亿" * 9000, "9" * 9000, "1 " + "million " * 9000]
)
def test_a_numeral_may_be_longer_than_any_number(text: str) -> None:
    assert sum(len(value) for value in values(text)) <= len(text)


@given(st.integers(2, 10**9))
def test_grouping_changes_nothing(number: int) -> None:
    assert values(f"{number:,}") == values(str(number)) == [f"{number:.12g}"]


@given(st.text(st.sampled_from("0123456789,.% 十百万二〇零ten five%-million百分之a"), max_size=30))
def test_numbers_are_in_order_and_apart(text: str) -> None:
    end = 0
    for number in find_numbers(text):
        assert end <= number.start < number.end <= len(text)
        end = number.end
