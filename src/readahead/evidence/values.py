"""Compare the values that two texts state: numbers, percentages, money, quantities and dates.

Nothing is converted from one unit into another. Values of different kinds, or in different units,
have nothing to do with each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Literal

from readahead.evidence.dates import Date, find_dates
from readahead.evidence.numbers import Number, find_numbers, is_spelled_alike
from readahead.evidence.spans import Normal

Kind = Literal["number", "percentage", "money", "quantity", "date"]
CURRENCIES = frozenset({"dollar", "euro", "pound", "yuan"})
HEDGE_TOLERANCE = 0.1  # "about 50" agrees with 46
MIN_ROUNDED_DIGITS = 2  # "0.87" may be rounded, "1,000" is not 999

_HEDGE_RE = re.compile(
    r"(?:(?P<about>(?<![a-z])(?:about|around|approximately|approx\.?|some|roughly|nearly|almost|circa"
    r"|ca?\.|close to)|约|近)"
    r"|(?P<most>(?<![a-z])(?:not? more than|under|less than|fewer than|at most|up to)"
    r"|不超过|不到|至多|最多)"
    r"|(?P<least>(?<![a-z])(?:not? (?:less|fewer) than|over|more than|at least)"
    r"|不少于|超过|至少|最少))"
    r" ?(?:the |a )?[$€£¥~]?\Z"
)
NUM_HEDGE_CHARS = 24  # in front of a number

_MINUS_RE = re.compile(r"(?:\A|[\s(:=])-[$€£¥~]?\Z")


@dataclass(frozen=True, slots=True)
class Value:
    """A value with its unit at ``[start, end)`` of a text.

    Attributes:
        parts: The number in its normal form, or year, month and day, empty where not said.
        unit: As in ``numbers``; empty for dates and for numbers without one.
        other: A second reading of the number, for instance ``890000`` of ``890.000``.
        written: The digits of a number that stands alone, as they are written.
        is_hedged: Whether it is said to be about so much.
        bound: 1 if it is said to be at least so much, -1 if at most, else 0.
    """

    start: int
    end: int
    kind: Kind
    parts: tuple[str, ...]
    unit: str = ""
    other: str = ""
    written: str = ""
    is_hedged: bool = False
    bound: int = 0

    def states(self, claimed: Value) -> bool:
        """Return whether a text with this value states the one claimed: all of it."""
        if (self.kind == "date") != (claimed.kind == "date"):
            return claimed.unit == self.unit == "" and _year(self) == _year(claimed)
        if claimed.kind == "date":
            pairs = zip(self.parts, claimed.parts, strict=True)
            return all(not part or _same_part(own, part) for own, part in pairs)
        if claimed.unit != self.unit and "%" in (claimed.unit, self.unit):
            return False
        return self._is_unit_of(claimed) and _same_number(self, claimed)

    def conflicts(self, claimed: Value) -> bool:
        """Return whether both cannot hold of the same thing."""
        if self.kind != claimed.kind:
            return False
        if claimed.kind == "date":
            pairs = zip(self.parts, claimed.parts, strict=True)
            return any(own and part and not _same_part(own, part) for own, part in pairs)
        if self.unit != claimed.unit:
            return bool(self.unit and claimed.unit) and self.parts == claimed.parts
        if self.parts == claimed.parts:  # 3.10 is perhaps not 3.1, but no denial of it
            return False
        if self.bound != claimed.bound and _keeps_bound(self, claimed):
            return False  # nor is 500 one of "over 50"
        return not _same_number(self, claimed)

    def _is_unit_of(self, claimed: Value) -> bool:
        return not claimed.unit or not self.unit or claimed.unit == self.unit


def read_values(normal: Normal) -> tuple[Value, ...]:
    """Return the values of a text, given its normal form, in order."""
    text = normal.text
    found: list[Value] = []
    rest = list(text)
    for date in find_dates(text):
        found.append(_of_date(date, normal))
        rest[date.start : date.end] = "\n" * (date.end - date.start)
    for number in find_numbers("".join(rest)):
        found.append(_of_number(number, normal))
    return tuple(sorted(found, key=lambda value: value.start))


def share_stated(claimed: Value, held: Iterable[Value]) -> float:
    """Return how much of a value a text with these values states; of a date, it may be a part.

    "In 2021" and "on March 3" together state March 3, 2021.
    """
    values = list(held)
    if any(value.states(claimed) for value in values):
        return 1.0
    if claimed.kind != "date":
        return 0.0
    fitting = [v for v in values if v.kind == "date" and not v.conflicts(claimed)]
    parts = [(i, part) for i, part in enumerate(claimed.parts) if part]
    return sum(any(value.parts[i] for value in fitting) for i, _ in parts) / len(parts)


def stated(claimed: Value, held: Iterable[Value]) -> bool:
    """Return whether a text with these values states all of the one claimed."""
    return share_stated(claimed, held) == 1.0


def _of_date(date: Date, normal: Normal) -> Value:
    start, end = normal.source(date.start, date.end)
    return Value(start, end, "date", (date.year, date.month, date.day))


def _of_number(number: Number, normal: Normal) -> Value:
    start, end = normal.source(number.whole_start, number.whole_end)
    before = normal.text[max(0, number.start - NUM_HEDGE_CHARS) : number.start]
    hedge = _HEDGE_RE.search(before)
    said = normal.text[number.start : number.end]
    # A point before three digits parts thousands in one country and decimals in another.
    is_open = re.fullmatch(r"[1-9]\d{0,2}\.\d{3}", said)
    sign = "-" if _MINUS_RE.search(before) else ""  # not of a range, as in 5-10
    return Value(
        start,
        end,
        _kind(number.unit),
        (sign + number.value,),
        number.unit,
        other=said.replace(".", "") if is_open else "",
        written=number.written,
        is_hedged=hedge is not None and hedge["about"] is not None,
        bound=_bound(hedge) if hedge else 0,
    )


def _bound(hedge: re.Match[str]) -> int:
    return bool(hedge["least"]) - bool(hedge["most"])


def _kind(unit: str) -> Kind:
    if unit == "%":
        return "percentage"
    if unit in CURRENCIES:
        return "money"
    return "quantity" if unit else "number"


def _year(value: Value) -> str:
    """Return what might be a year, or a number of four digits: nobody can tell 1500 from 1500."""
    return value.parts[0] if not any(value.parts[1:]) else ""


def _same_part(one: str, other: str) -> bool:
    """Return whether two years, months or days agree; a year agrees with its decade."""
    if one.endswith("s") or other.endswith("s"):
        return one[:3] == other[:3]
    return one == other


def _same_number(held: Value, claimed: Value) -> bool:
    readings = {claimed.parts[0], claimed.other} - {""}
    if readings & {held.parts[0], held.other}:
        is_alike = is_spelled_alike(held.written, claimed.written)
        return is_alike and held.bound * claimed.bound >= 0
    own, said = _decimal(held.parts[0]), _decimal(claimed.parts[0])
    if own is None or said is None:
        return False
    is_near = abs(own - said) <= Decimal(HEDGE_TOLERANCE) * max(abs(own), abs(said))
    if held.bound or claimed.bound:
        return is_near and held.bound * claimed.bound >= 0 and _keeps_bound(held, claimed)
    return is_near if held.is_hedged or claimed.is_hedged else _rounds_to(own, said)


def _keeps_bound(held: Value, claimed: Value) -> bool:
    """Return whether either number is a bound, and the other lies on its right side."""
    own, said = _decimal(held.parts[0]), _decimal(claimed.parts[0])
    bound = claimed.bound or -held.bound
    return bound != 0 and own is not None and said is not None and (own - said) * bound >= 0


@lru_cache(maxsize=4096)
def _decimal(digits: str) -> Decimal | None:
    try:
        number = Decimal(digits)
    except InvalidOperation:  # a numeral longer than any number
        return None
    return number if number.is_finite() else None


def _rounds_to(exact: Decimal, said: Decimal) -> bool:
    """Return whether ``said`` is ``exact`` with fewer digits."""
    digits = said.normalize()
    if len(digits.as_tuple().digits) < MIN_ROUNDED_DIGITS:
        return False
    step = Decimal(1).scaleb(int(digits.as_tuple().exponent))
    return (exact / step).to_integral_value() * step == said
