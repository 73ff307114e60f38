"""Read a date from a metadata value, however it is written."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_YEAR = r"(?<!\d)(?P<year>[12]\d{3})(?!\d)"
_MONTH = r"(?P<month>\d{1,2})(?!\d)"
_NAME = rf"\b(?P<name>{'|'.join(_MONTHS)})[a-z]*\.?,?"
_DAY = r"(?<!\d)(?P<day>\d{1,2})(?:st|nd|rd|th)?(?!\d)"
_FORMS = [
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"{_YEAR}\s?[-/.年]\s?{_MONTH}(?:\s?[-/.月]\s?{_DAY})?",
        rf"{_DAY}\s{_NAME}\s{_YEAR}",
        rf"{_NAME}\s(?:{_DAY},?\s)?{_YEAR}",
        rf"{_DAY}[./-]{_MONTH}[./-]{_YEAR}",
        _YEAR,
    )
]
_UNIX_TIME = re.compile(r"\d{9,13}(?:\.\d+)?")
_MILLISECONDS_FROM = 1e11  # as seconds that would be beyond the year 5000
_MAX_LENGTH = 100


def read_date(value: object) -> datetime | None:
    """Return the moment that a metadata value names, in UTC; None if it names none.

    Understands ISO 8601, ``2024``, ``2024-05``, ``2024/05/03``, ``20240503``, ``3 May 2024``,
    ``May 3, 2024``, ``03.05.2024``, ``2024年5月3日``, and Unix times in seconds or milliseconds.
    What is missing counts as its first; without an offset it is UTC. Of ``03/05/2024`` the day
    comes first, unless only the second number can be a day.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 2024.0 of a spreadsheet
    try:
        text = " ".join(str(value)[:_MAX_LENGTH].split())
        return _unix_time(text) or _iso(text) or _written(text)
    except (ValueError, OverflowError):
        return None


def _unix_time(text: str) -> datetime | None:
    if not _UNIX_TIME.fullmatch(text):
        return None
    number = float(text)
    return datetime.fromtimestamp(number / 1000 if number >= _MILLISECONDS_FROM else number, UTC)


def _iso(text: str) -> datetime | None:
    if text.isdigit() and len(text) != 8:  # it takes a time for what follows the first eight
        return None
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)


def _written(text: str) -> datetime | None:
    match = next((match for form in _FORMS if (match := form.search(text))), None)
    if match is None:
        return None
    parts = {"month": "1", "day": "1"} | {k: v for k, v in match.groupdict().items() if v}
    month, day = int(parts["month"]), int(parts["day"])
    if "name" in parts:
        month = _MONTHS.index(parts["name"].lower()) + 1
    elif month > 12:
        month, day = day, month
    return datetime(int(parts["year"]), month, day, tzinfo=UTC)
