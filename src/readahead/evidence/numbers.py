"""Read the numbers in a text as values with units; converts no unit into another.

``1,000`` and ``1000``, ``ten`` and ``10``, ``五天`` and ``5 days``, ``2 million`` and
``2,000,000``, ``87 %``, ``87 percent`` and ``百分之八十七`` are each the same; so are ``$890M``,
``USD 890,000,000`` and ``890.000.000 dollars``. ``890.000`` alone may be either. What only names
something is as it is written: 3.10 is another version than 3.1, and 0123 another call than 123.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from decimal import MAX_EMAX, Context, Decimal, localcontext
from typing import NamedTuple

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_WORD_VALUES = {name: i for i, name in enumerate(_SMALL)}
_WORD_VALUES |= {name: 10 * i for i, name in enumerate(_TENS, 2)}
_WORDS = rf"(?:{'|'.join(_TENS)})-(?:{'|'.join(_SMALL[1:10])})|{'|'.join(_WORD_VALUES)}"
_SCALES = {
    "hundred": 100,
    "thousand": 1_000,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "千": 1_000,
    "万": 10_000,
    "百万": 10**6,
    "千万": 10**7,
    "亿": 10**8,
}
_CJK_DIGITS = {**{char: i for i, char in enumerate("零一二三四五六七八九")}, "〇": 0, "两": 2}
_CJK_UNITS = {"十": 10, "百": 100, "千": 1_000}
_CJK_GROUPS = {"万": 10_000, "亿": 100_000_000}
_NUMERAL = "".join([*_CJK_DIGITS, *_CJK_UNITS, *_CJK_GROUPS]).replace("千", "")
_KILO = "千(?![米克])"  # 千米 and 千克 are units

# A numeral may be longer than any number: no digit of a number that people write is lost.
_EXACT = Context(prec=100, Emax=MAX_EMAX, traps=[])
_MAX_DIGITS = 100

_NUMBER_RE = re.compile(
    r"(?P<grouped>(?<![a-z\d.,])\d{1,3}(?:(?:\.\d{3}){2,}|(?:\.\d{3})+,\d{1,2})(?!\d))"
    r"|(?P<points>(?<![a-z\d])\d+(?:\.\d+){2,})"
    r"|(?P<digits>(?<![a-z\d])\d+(?:,\d{3}(?!\d))*(?:\.\d+)?)"
    rf"|\b(?P<words>{_WORDS})\b"
    rf"|(?P<cjk>[十{''.join(_CJK_DIGITS)}](?:[{_NUMERAL}]|{_KILO})*)"
)
_SCALE_RE = re.compile(
    rf"[\s-]?(hundred|thousand|million|billion|trillion|百万|千万|{_KILO}|万|亿)(?![a-z])"
)
# "One hundred and five", but "one hundred and five hundred" are two numbers.
_AND_RE = re.compile(rf" and ({_WORDS})\b(?![ -]hundred)")
# Behind digits; all but k are units or words elsewhere, so they need money in front.
_LETTER_RE = re.compile(r"(k)(?![a-z\d])| ?(m|mn|mln|b|bn|t|tn)(?![a-z\d])")
_LETTERS = {"k": 10**3, **dict.fromkeys(("m", "mn", "mln"), 10**6)}
_LETTERS |= {**dict.fromkeys(("b", "bn"), 10**9), **dict.fromkeys(("t", "tn"), 10**12)}
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


class Quantity(NamedTuple):
    """A number in its normal form; ``unit`` is empty if none is known.

    ``written`` are the digits of one that stands alone, without unit or scale, as they are written.
    """

    value: str
    unit: str
    written: str = ""


class Number(NamedTuple):
    """A number at ``[start, end)``; with its unit at ``[whole_start, whole_end)``."""

    start: int
    end: int
    value: str
    unit: str
    whole_start: int
    whole_end: int
    written: str = ""

    @property
    def quantity(self) -> Quantity:
        """Return what it says, wherever it stands."""
        return Quantity(self.value, self.unit, self.written)


def find_numbers(text: str) -> Iterator[Number]:
    """Yield the numbers of a folded text, in order.

    A lone ``one`` or ``一`` is an article more often than a number, and is left out; 第一 is none.
    """
    position = 0
    while match := _NUMBER_RE.search(text, position):
        start = match.start()
        prefix, whole_start = _prefix(text, start)
        scales, position = _scales(text, match.end(), prefix)
        is_ordinal = text[start - 1 : start] == "第"
        if scales or is_ordinal or match[0] not in ("one", "一", "零"):
            behind = _UNIT_RE.match(text, position)
            unit, whole_end = (_UNITS[behind[1]], behind.end()) if behind else (prefix, position)
            written = "" if scales or unit else _written(match)
            value = _normal_form(match, scales)
            yield Number(start, position, value, unit, whole_start, whole_end, written)


def states(held: Collection[Quantity], claimed: Quantity) -> bool:
    """Return whether a text that holds these quantities states this one.

    A number without a unit agrees with any, except that a percentage must be one.
    """
    same = [one for one in held if one.value == claimed.value]
    units = {one.unit for one in same if is_spelled_alike(one.written, claimed.written)}
    unit = claimed.unit
    return bool(units) and (not unit or unit in units or ("" in units and unit != "%"))


def is_spelled_alike(one: str, other: str) -> bool:
    """Return whether two spellings of the same number may stand for the same thing.

    3.1 and 3.10 may not, nor 123 and 0123; 3 and 3.0 may.
    """
    return not (one and other) or one == other or ("." in one) != ("." in other)


def _prefix(text: str, start: int) -> tuple[str, int]:
    """Return the unit in front of a number, or nothing, and where it begins."""
    before = _PREFIX_RE.search(text, max(0, start - 5), start)
    return (_PREFIXES[before[1]], before.start()) if before else ("", start)


def _scales(text: str, end: int, prefix: str) -> tuple[list[tuple[int, int]], int]:
    """Return what makes a number that ends at ``end`` larger, and where that ends.

    By each pair it is multiplied by the first and raised by the second.
    """
    scales = []
    while match := _SCALE_RE.match(text, end):
        end = match.end()
        more = _AND_RE.match(text, end) if match[1] == "hundred" else None
        scales.append((_SCALES[match[1]], _in_words(more[1]) if more else 0))
        end = more.end() if more else end
    letter = None if scales else _LETTER_RE.match(text, end)
    if letter and (letter[1] or prefix not in ("", "%")):
        return [(_LETTERS[letter[1] or letter[2]], 0)], letter.end()
    return scales, end


def _written(match: re.Match[str]) -> str:
    """Return the digits of a number as they are written; of 04, as in dates, the 4 alone."""
    digits = match["points"] or (match["digits"] or "").replace(",", "")
    return digits[1:] if re.fullmatch("0[0-9]", digits) else digits


def _normal_form(match: re.Match[str], scales: list[tuple[int, int]]) -> str:
    """Return a number without needless zeros; exact, but for the tail of more than 100 digits."""
    if match["points"]:
        return match["points"]
    with localcontext(_EXACT):
        value = _value(match)
        for factor, more in scales:
            value = value * factor + more
    text = str(value) if value.adjusted() > _MAX_DIGITS else f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _value(match: re.Match[str]) -> Decimal:
    if match["grouped"]:
        return Decimal(match["grouped"].replace(".", "").replace(",", "."))
    if match["digits"]:
        return Decimal(match["digits"].replace(",", ""))
    if match["words"]:
        return Decimal(_in_words(match["words"]))
    return _cjk_value(match["cjk"])


def _in_words(said: str) -> int:
    return sum(_WORD_VALUES[word] for word in said.split("-"))


def _cjk_value(numeral: str) -> Decimal:
    """Return the value of 二百零五 (with units) or 二〇一五 (digit by digit)."""
    if all(char in _CJK_DIGITS for char in numeral):
        return Decimal("".join(str(_CJK_DIGITS[char]) for char in numeral))
    total, group, digit = Decimal(0), Decimal(0), Decimal(0)
    for char in numeral:
        if char in _CJK_DIGITS:
            digit = Decimal(_CJK_DIGITS[char])
        elif char in _CJK_UNITS:
            group += (digit or 1) * _CJK_UNITS[char]
            digit = Decimal(0)
        else:
            total = (total + group + digit) * _CJK_GROUPS[char]
            group, digit = Decimal(0), Decimal(0)
    return total + group + digit
