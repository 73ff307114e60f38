"""Read the numbers in a text as values with units; converts no unit into another.

``1,000`` and ``1000``, ``ten`` and ``10``, ``五天`` and ``5 days``, ``2 million`` and
``2,000,000``, ``87 %``, ``87 percent`` and ``百分之八十七`` are each the same; so are ``$890M``,
``USD 890,000,000`` and ``890.000.000 dollars``. ``890.000`` alone may be either.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_WORD_VALUES = {name: i for i, name in enumerate(_SMALL)}
_WORD_VALUES |= {name: 10 * i for i, name in enumerate(_TENS, 2)}
_SCALES = {
    "hundred": 1e2,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "trillion": 1e12,
    "千": 1e3,
    "万": 1e4,
    "百万": 1e6,
    "千万": 1e7,
    "亿": 1e8,
}
_CJK_DIGITS = {**{char: i for i, char in enumerate("零一二三四五六七八九")}, "〇": 0, "两": 2}
_CJK_UNITS = {"十": 10, "百": 100, "千": 1_000}
_CJK_GROUPS = {"万": 10_000, "亿": 100_000_000}

_NUMBER_RE = re.compile(
    r"(?P<grouped>(?<![a-z\d.,])\d{1,3}(?:(?:\.\d{3}){2,}|(?:\.\d{3})+,\d{1,2})(?!\d))"
    r"|(?P<digits>(?<![a-z\d])\d+(?:,\d{3}(?!\d))*(?:\.\d+)?)"
    rf"|\b(?P<words>(?:{'|'.join(_TENS)})-(?:{'|'.join(_SMALL[1:10])})|{'|'.join(_WORD_VALUES)})\b"
    rf"|(?P<cjk>[十{''.join(_CJK_DIGITS)}][{''.join([*_CJK_DIGITS, *_CJK_UNITS, *_CJK_GROUPS])}]*)"
)
_SCALE_RE = re.compile(
    r"[\s-]?(hundred|thousand|million|billion|trillion|百万|千万|千|万|亿)(?![a-z])"
)
# Behind digits; all but k are units or words elsewhere, so they need money in front.
_LETTER_RE = re.compile(r"(k)(?![a-z\d])| ?(m|mn|mln|b|bn|t|tn)(?![a-z\d])")
_LETTERS = {"k": 1e3, "m": 1e6, "mn": 1e6, "mln": 1e6, "b": 1e9, "bn": 1e9, "t": 1e12, "tn": 1e12}
_UNIT_NAMES = {
    "%": "% percent",
    "second": "seconds second secs sec 秒",
    "minute": "minutes minute mins min 分钟",
    "hour": "hours hour hrs hr 小时",
    "day": "days day 天 日",
    "week": "weeks week 周 星期",
    "month": "months month 个月",
    "year": "years year yrs yr 年",
    "dollar": "dollars dollar usd 美元",
    "euro": "euros euro eur 欧元",
    "pound": "pounds pound gbp 英镑",
    "yuan": "yuan rmb cny 元",
    "km": "kilometres kilometre kilometers kilometer km 公里 千米",
    "m": "metres metre meters meter m 米",
    "cm": "centimetres centimetre centimeters centimeter cm 厘米",
    "mm": "millimetres millimetre millimeters millimeter mm 毫米",
    "mile": "miles mile 英里",
    "foot": "feet foot ft 英尺",
    "kg": "kilograms kilogram kg 公斤 千克",
    "g": "grams gram g 克",
    "ton": "tonnes tonne tons ton 吨",
    "kb": "kilobytes kilobyte kb",
    "mb": "megabytes megabyte mb",
    "gb": "gigabytes gigabyte gb",
    "tb": "terabytes terabyte tb",
}
_UNITS = {name: unit for unit, names in _UNIT_NAMES.items() for name in names.split()}
_UNIT_RE = re.compile(
    r"[\s-]?(" + "|".join(map(re.escape, sorted(_UNITS, key=len, reverse=True))) + ")(?![a-z])"
)
_PREFIX_RE = re.compile(r"(百分之|[$€£¥]|\b(?:usd|eur|gbp|cny|rmb))\s?\Z")
_PREFIXES = {"百分之": "%", "$": "dollar", "€": "euro", "£": "pound", "¥": "yuan"}
_PREFIXES |= {"usd": "dollar", "eur": "euro", "gbp": "pound", "cny": "yuan", "rmb": "yuan"}


class Number(NamedTuple):
    """A number at ``[start, end)`` in its normal form; ``unit`` is empty if none is known.

    With its unit, in front or behind, it is at ``[whole_start, whole_end)``.
    """

    start: int
    end: int
    value: str
    unit: str
    whole_start: int
    whole_end: int


def find_numbers(text: str) -> Iterator[Number]:
    """Yield the numbers of a folded text, in order.

    A lone ``one`` or ``一`` is an article more often than a number, and is left out; 第一 is none.
    """
    position = 0
    while match := _NUMBER_RE.search(text, position):
        start = match.start()
        prefix, whole_start = _prefix(text, start)
        scale, position = _scale(text, match.end(), prefix)
        is_ordinal = text[start - 1 : start] == "第"
        if scale is not None or is_ordinal or match[0] not in ("one", "一", "零"):
            behind = _UNIT_RE.match(text, position)
            unit, whole_end = (_UNITS[behind[1]], behind.end()) if behind else (prefix, position)
            value = f"{_value(match) * (scale or 1.0):.12g}"
            yield Number(start, position, value, unit, whole_start, whole_end)


def states(held: Collection[tuple[str, str]], value: str, unit: str) -> bool:
    """Return whether a text that holds these values and units states this one.

    A number without a unit agrees with any, except that a percentage must be one.
    """
    units = {held_unit for held_value, held_unit in held if held_value == value}
    return bool(units) and (not unit or unit in units or ("" in units and unit != "%"))


def _prefix(text: str, start: int) -> tuple[str, int]:
    """Return the unit in front of a number, or nothing, and where it begins."""
    before = _PREFIX_RE.search(text, max(0, start - 5), start)
    return (_PREFIXES[before[1]], before.start()) if before else ("", start)


def _scale(text: str, end: int, prefix: str) -> tuple[float | None, int]:
    """Return by what a number that ends at ``end`` is to be multiplied, and where that ends."""
    scale = None
    while match := _SCALE_RE.match(text, end):
        scale = (scale or 1.0) * _SCALES[match[1]]
        end = match.end()
    letter = _LETTER_RE.match(text, end) if scale is None else None
    if letter and (letter[1] or prefix not in ("", "%")):
        return _LETTERS[letter[1] or letter[2]], letter.end()
    return scale, end


def _value(match: re.Match[str]) -> float:
    if match["grouped"]:
        return float(match["grouped"].replace(".", "").replace(",", "."))
    if match["digits"]:
        return float(match["digits"].replace(",", ""))
    if match["words"]:
        return sum(_WORD_VALUES[word] for word in match["words"].split("-"))
    return _cjk_value(match["cjk"])


def _cjk_value(numeral: str) -> float:
    """Return the value of 二百零五 (with units) or 二〇一五 (digit by digit)."""
    if all(char in _CJK_DIGITS for char in numeral):
        return float("".join(str(_CJK_DIGITS[char]) for char in numeral))
    total, group, digit = 0.0, 0.0, 0.0  # floats: a numeral may be longer than any number
    for char in numeral:
        if char in _CJK_DIGITS:
            digit = _CJK_DIGITS[char]
        elif char in _CJK_UNITS:
            group += (digit or 1) * _CJK_UNITS[char]
            digit = 0
        else:
            total = (total + group + digit) * _CJK_GROUPS[char]
            group, digit = 0.0, 0.0
    return total + group + digit
