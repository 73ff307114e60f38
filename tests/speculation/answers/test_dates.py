from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.speculation.answers.dates import read_date


@pytest.mark.parametrize(
    "value",
    [
        "2024-05-03",
        " 2024-05-03\n",
        "2024-05-03T00:00:00",
        "2024-05-03T00:00:00Z",
        "2024-05-03 02:00:00+02:00",
        "20240503",
        20240503,
        "2024/5/3",
        "2024.05.03",
        "3 May 2024",
        "as of 2024-05-03, unchanged",
        "May 3, 2024",
        "May. 3rd 2024",
        "Fri, 03 May 2024 10:00:00 GMT",
        "03.05.2024",
        "3/5/2024",
        "2024年5月3日",
        "发布于 2024 年 5 月 3 日",
        1714694400,
        "1714694400",
        1714694400.0,
        1714694400000,
    ],
)
def test_a_day_is_read_however_it_is_written(value: object) -> None:
    assert read_date(value) == datetime(2024, 5, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2024, (2024, 1, 1)),
        (2024.0, (2024, 1, 1)),
        ("2024", (2024, 1, 1)),
        ("c. 1890", (1890, 1, 1)),
        ("2024-05", (2024, 5, 1)),
        ("2024.05", (2024, 5, 1)),
        ("September 2019", (2019, 9, 1)),
        ("2019年", (2019, 1, 1)),
        ("12/31/2019", (2019, 12, 31)),
    ],
)
def test_what_is_missing_counts_as_its_first(value: object, expected: tuple[int, int, int]) -> None:
    assert read_date(value) == datetime(*expected, tzinfo=UTC)


def test_the_time_of_day_and_the_offset_count() -> None:
    assert read_date("2024-05-03T23:30:00-02:00") == datetime(2024, 5, 4, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [None, True, "", "soon", "v1.2.3", 5, -1, 1e300, float("nan"), [2024], {"year": 2024}]
    + ["2024-13-45", "31 Feb 2024", "0001-01-01T00:00:00+14:00", "1" * 5000],
)
def test_what_is_no_date_is_none(value: object) -> None:
    assert read_date(value) is None


def test_a_number_too_long_to_print_is_no_date() -> None:
    assert read_date(10**5000) is None


@given(st.one_of(st.text(), st.integers(), st.floats(), st.binary()))
def test_no_value_raises(value: object) -> None:
    read_date(value)


@given(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)))
def test_every_iso_moment_is_read(moment: datetime) -> None:
    assert read_date(moment.isoformat()) == moment
    day = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    for form in ("%d %B %Y", "%b %d, %Y", "%Y年%m月%d日", "%d.%m.%Y", "%Y%m%d"):
        assert read_date(moment.strftime(form)) == day
