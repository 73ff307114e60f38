"""Read the dates in a text, however they are written and however much of them is said.

``March 3, 2021``, ``3rd of March 2021``, ``2021-03-03`` and ``2021年3月3日`` are the same; ``2021``
and ``March 2021`` say less. In ``03/04/2021`` only the year is certain. A bare number of four
digits from 1000 to 2100 counts as a year.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from readahead.evidence.numbers import find_numbers

_MONTHS = (
    "january february march april may june july august september october november december"
).split()
_MONTH_NUMBERS = {name: str(i) for i, name in enumerate(_MONTHS, 1)}
_MONTH_NUMBERS |= {name[:3]: number for name, number in _MONTH_NUMBERS.items()} | {"sept": "9"}
_MONTH = rf"(?:{'|'.join(sorted(_MONTH_NUMBERS, key=len, reverse=True))})(?![a-z])\.?"
_DAY = r"(?:0?[1-9]|[12]\d|3[01])(?!\d)(?:st|nd|rd|th)?"
_YEAR = r"(?:1\d|20)\d\d(?!\d)"
_CJK = r"[\d〇零一二三四五六七八九十]"
_DATE_RE = re.compile(
    rf"(?<![\w.,])(?P<month1>{_MONTH}) (?:the )?(?P<day1>{_DAY})(?![,.]\d)"
    rf"(?:,? (?:of )?(?P<year1>{_YEAR}))?"
    rf"|(?<![\w.,])(?P<day2>{_DAY}) (?:of )?(?P<month2>{_MONTH})(?:,? (?P<year2>{_YEAR}))?"
    rf"|(?<![\w.,])(?P<month3>{_MONTH}),? (?:of )?(?P<year3>{_YEAR})"
    rf"|(?<![\w.,])(?P<year4>{_YEAR})[-/.](?P<month4>0?[1-9]|1[0-2])[-/.](?P<day4>{_DAY})"
    rf"|(?<![\w.,/])(?P<one>\d\d?)[/.](?P<two>\d\d?)[/.](?P<year5>{_YEAR})"
    rf"|(?P<year6>{_CJK}{{4}})年(?:(?P<month6>{_CJK}{{1,2}})月(?:(?P<day6>{_CJK}{{1,3}})[日号])?)?"
    rf"|(?P<month7>{_CJK}{{1,2}})月(?P<day7>{_CJK}{{1,3}})[日号]"
    rf"|(?<![\w.,$€£¥])(?P<decade>(?:1\d|20)\d0)['’]?s\b"
    rf"|(?<![\w.,$€£¥])(?P<year8>1\d\d\d|20\d\d|2100)(?![\w.,]*\d)(?! ?%|[a-z])"
)


class Date(NamedTuple):
    """A date at ``[start, end)``; what is not said is empty. A decade is a year like ``1990s``."""

    start: int
    end: int
    year: str
    month: str = ""
    day: str = ""


def find_dates(text: str) -> Iterator[Date]:
    """Yield the dates of a folded text, in order."""
    for match in _DATE_RE.finditer(text):
        found = {name.rstrip("12345678"): said for name, said in match.groupdict().items() if said}
        start, end = match.span()
        if "decade" in found:
            yield Date(start, end, f"{found['decade']}s")
        elif "one" in found:
            yield Date(start, end, found["year"], *_order(int(found["one"]), int(found["two"])))
        else:
            parts = (_part(found.get(name, "")) for name in ("year", "month", "day"))
            yield Date(start, end, *parts)


def _order(one: int, two: int) -> tuple[str, str]:
    """Return month and day of ``one/two``, in which either may come first; empty if unclear."""
    if one == two <= 12 or one <= 12 < two <= 31:
        return str(one), str(two)
    return (str(two), str(one)) if two <= 12 < one <= 31 else ("", "")


def _part(said: str) -> str:
    """Return a part of a date as digits."""
    name = said.removesuffix(".")
    if name in _MONTH_NUMBERS:
        return _MONTH_NUMBERS[name]
    if said == "一":  # elsewhere rather an article than a number
        return "1"
    return next((number.value for number in find_numbers(said.rstrip("stndrh"))), "")
