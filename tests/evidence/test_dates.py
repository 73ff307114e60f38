"""Dates are the same however they are written, and no more of them is read than is said."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.evidence.dates import find_dates
from readahead.text import fold


def dates(text: str) -> list[tuple[str, str, str]]:
    return [(one.year, one.month, one.day) for one in find_dates(fold(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("March 3, 2021", ("2021", "3", "3")),
        ("3rd of March 2021", ("2021", "3", "3")),
        ("Mar. 3 2021", ("2021", "3", "3")),
        ("2021-03-03T12:00", ("2021", "3", "3")),
        ("2021/3/3", ("2021", "3", "3")),
        ("2021年3月3日", ("2021", "3", "3")),
        ("二〇二一年三月三号", ("2021", "3", "3")),
        ("3月3日", ("", "3", "3")),
        ("一月二十一日", ("", "1", "21")),
        ("25/04/2021", ("2021", "4", "25")),
        ("12/25/2021", ("2021", "12", "25")),
        ("03/04/2021", ("2021", "", "")),
        ("Sept 2007", ("2007", "9", "")),
        ("May 5", ("", "5", "5")),
        ("in 1994.", ("1994", "", "")),
        ("the 1990s", ("1990s", "", "")),
        ("1984年", ("1984", "", "")),
    ],
)
def test_one_date(text: str, expected: tuple[str, str, str]) -> None:
    assert dates(text) == [expected]


def test_neighbours_are_two() -> None:
    assert dates("1990–1995, 1996") == [(year, "", "") for year in ("1990", "1995", "1996")]


@pytest.mark.parametrize(
    "text", ["$2000", "2000 %", "1,990", "v2.2021", "2000m", "it may be", "5年"]
)
def test_no_date(text: str) -> None:
    assert dates(text) == []


@given(st.text(st.sampled_from("0123456789-/. ,年月日一二三十〇 marchapy'stndrhof"), max_size=40))
def test_any_text_can_be_read(text: str) -> None:
    end = 0
    for found in find_dates(text):
        assert end <= found.start < found.end <= len(text)
        end = found.end


@given(st.dates(min_value=date(1000, 1, 1), max_value=date(2099, 12, 31)))
def test_three_ways_of_writing_are_one(day: date) -> None:
    said = {tuple(dates(f"{day:{form}}")) for form in ("%Y-%m-%d", "%B %-d, %Y", "%-d %b %Y")}
    assert len(said) == 1
