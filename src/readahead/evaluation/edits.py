"""Make false sentences of true ones: one number, date, percentage or unit is changed.

The test of the evidence checker that needs no labels. Edits are drawn with a seeded generator.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from readahead.evidence.spans import normalize
from readahead.evidence.values import Value, read_values

# A unit and what it is taken for; the same side of the table in each language.
_OTHER_UNITS = {
    "miles": "kilometres",
    "km": "miles",
    "kilometres": "miles",
    "kilometers": "miles",
    "metres": "feet",
    "meters": "feet",
    "feet": "metres",
    "kg": "tonnes",
    "days": "weeks",
    "weeks": "days",
    "hours": "minutes",
    "minutes": "hours",
    "seconds": "minutes",
    "months": "years",
    "years": "months",
    "dollars": "euros",
    "euros": "dollars",
    "天": "周",
    "公里": "米",
    "年": "个月",
}
_DIGITS_RE = re.compile(r"\d[\d,]*(?:\.\d+)?")
_YEAR_RE = re.compile(r"(?<!\d)\d{4}(?!\d)")
_UNIT_RE = re.compile("|".join(sorted(map(re.escape, _OTHER_UNITS), key=len, reverse=True)))
FACTORS = (1.3, 1.5, 2.0, 3.0)
STEPS = (1, 2, 3, 7)


@dataclass(frozen=True, slots=True)
class Edit:
    """A sentence with one value changed.

    Attributes:
        kind: Of the value, or ``unit`` where only that was changed.
    """

    text: str
    kind: str
    before: str
    after: str


def edited(sentence: str, generator: random.Random) -> Edit | None:
    """Return ``sentence`` with one value changed, or None if it has none that can be."""
    values = list(read_values(normalize(sentence)))
    generator.shuffle(values)
    for value in values:
        edit = _edit(sentence, value, generator)
        if edit is not None and _differs(edit, value, sentence):
            return edit
    return None


def _edit(sentence: str, value: Value, generator: random.Random) -> Edit | None:
    """Return the sentence with this value changed; half of the quantities change their unit."""
    said = sentence[value.start : value.end]
    unit = _UNIT_RE.search(sentence, value.start, value.end)
    if unit and value.unit and generator.random() < 0.5:
        start, end, other = unit.start(), unit.end(), _OTHER_UNITS[unit[0]]
        return Edit(sentence[:start] + other + sentence[end:], "unit", unit[0], other)
    after = _other_date(said, generator) if value.kind == "date" else _other(said, value, generator)
    changed = sentence[: value.start] + after + sentence[value.end :]
    return Edit(changed, value.kind, said, after) if after != said else None


def _other_date(said: str, generator: random.Random) -> str:
    """Return a date with another year; with another day if it has no year."""
    step = generator.choice(STEPS)
    if _YEAR_RE.search(said):
        return _YEAR_RE.sub(lambda match: str(int(match[0]) - step), said, count=1)
    return _DIGITS_RE.sub(lambda match: str((int(match[0]) + step) % 28 + 1), said, count=1)


def _other(said: str, value: Value, generator: random.Random) -> str:
    """Return another number, written as the one before; a rough one changes by a third or more."""
    digits = _DIGITS_RE.search(said)
    number = float(digits[0].replace(",", "") if digits else value.parts[0])
    if value.is_hedged or number >= 1000:
        number = number * generator.choice(FACTORS) + 1
    else:
        number += generator.choice(STEPS)
    places = len(digits[0].partition(".")[2]) if digits else 0
    separator = "," if digits and "," in digits[0] else ""
    written = f"{number:{separator}.{places}f}"
    if digits:
        return said[: digits.start()] + written + said[digits.end() :]
    unit = _UNIT_RE.search(said)
    in_words = said[: unit.start()].rstrip() if unit else said
    return written + said[len(in_words) :]


def _differs(edit: Edit, value: Value, sentence: str) -> bool:
    """Return whether the edited sentence states something that the sentence does not."""
    old, new = read_values(normalize(sentence)), read_values(normalize(edit.text))
    return any(not any(held.states(one) for held in old) for one in new) and any(
        one.conflicts(value) for one in new
    )
