"""Does a sentence speak of the same as a claim: of the same time, the same version, the same thing?

A sentence that differs from the claim in one of these, and in what it says besides, speaks of
something else: "in 2019 it was 5 million" and "in 2021 it was 7 million" are both true. One that
differs in a single respect contradicts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from readahead.evidence.reading import NUM_PREFIX_CHARS, Reading, Sentence, Token
from readahead.evidence.values import Value

Respect = Literal["time", "label", "subject", "amount", "denial"]

# What is in front of a number, or behind it, that tells one of several things from the others.
_BEFORE_LABEL_RE = re.compile(
    r"(?:\b(?:version|release|edition|chapter|section|part|season|episode|series|volume|model|type"
    r"|class|grade|level|phase|stage|round|group|room|figure|table|step|number|no|item|article)"
    r"[.: #-]{0,2}|\b\w*[A-Z]\w*[ -]|(?:第|版本|型号) ?)\Z"
)
_BEHIND_LABEL_RE = re.compile(r"(?:st|nd|rd|th)\b| ?(?:版|代|型|号|届|期)")
_PLAIN_RE = re.compile(r"[\d.]+|[零〇一二三四五六七八九十百]+")
_EDGE = "^"
# Their stems: what stands before them stands before the words behind them, too.
DETERMINERS = frozenset("a an the thi that thes thos its their our his her my".split())


@dataclass(frozen=True, slots=True)
class _Run:
    """Content words of one text that the other lacks, and what stands beside them."""

    before: str
    behind: str
    is_capital: bool
    is_name: bool

    def stands_for(self, other: _Run) -> bool:
        """Return whether both stand at the same place of their texts."""
        same = (self.before == other.before) + (self.behind == other.behind)
        are_names = self.is_capital and other.is_capital and (self.is_name or other.is_name)
        return same == 2 or (same == 1 and are_names)


class Scope:
    """Tells in what respects sentences differ from a claim, with the question that it answers."""

    def __init__(self, claim: Sentence, asked: Sentence, reading: Reading) -> None:
        self._claim = claim
        self._asked = asked
        self._reading = reading
        self._known: dict[int, frozenset[Respect]] = {}

    def admits(self, sentence: Sentence, respect: Respect | None) -> bool:
        """Return whether a sentence differs from the claim in this respect alone, or in none."""
        return self._differences(sentence) <= {respect}

    def _differences(self, sentence: Sentence) -> frozenset[Respect]:
        key = id(sentence)
        if key not in self._known:
            self._known[key] = frozenset(self._found(sentence))
        return self._known[key]

    def _found(self, sentence: Sentence) -> Iterator[Respect]:
        heading = self._reading.headings[sentence.passage]
        for respect in ("time", "label"):
            own = _values(self._claim, respect) or _values(self._asked, respect)
            others = _values(sentence, respect) or _values(heading, respect)
            if all(unmatched(own, others)):
                yield respect
        own, others = unmatched(_values(self._claim, "amount"), _values(sentence, "amount"))
        if any(other.conflicts(value) for value in own for other in others):
            yield "amount"
        if bool(self._claim.denied) != bool(sentence.denied):
            yield "denial"
        if any(is_substituted(one, sentence) for one in (self._claim, self._asked)):
            yield "subject"


def respect_of(value: Value, sentence: Sentence) -> Respect:
    """Return what a value of a sentence tells: when, which one of several, or how much."""
    if value.kind == "date":
        return "time"
    text = sentence.text
    if value.kind != "number" or not _PLAIN_RE.fullmatch(text, value.start, value.end):
        return "amount"
    before = text[max(0, value.start - 24) : value.start]
    is_label = _BEFORE_LABEL_RE.search(before) or _BEHIND_LABEL_RE.match(text, value.end)
    return "label" if is_label else "amount"


def _values(sentence: Sentence, respect: Respect) -> list[Value]:
    return [value for value in sentence.values if respect_of(value, sentence) == respect]


def unmatched(values: Sequence[Value], others: Sequence[Value]) -> tuple[list[Value], list[Value]]:
    """Return what is left of both when values that agree have been taken away in pairs."""
    own, rest = [], list(others)
    for value in values:
        partner = next((other for other in rest if other.states(value)), None)
        if partner is None:
            own.append(value)
        else:
            rest.remove(partner)
    return own, rest


def is_substituted(one: Sentence, other: Sentence) -> bool:
    """Return whether both say different words at the same place.

    The same place is between the same neighbours, or, for two names, beside one that is the same.
    Only words that the other text lacks count, and no others that begin alike.
    """
    others = list(_runs(other, one))
    return any(run.stands_for(partner) for run in _runs(one, other) for partner in others)


def _runs(own: Sentence, other: Sentence) -> Iterator[_Run]:
    tokens = own.tokens
    start = 0
    while start < len(tokens):
        end = start
        while end < len(tokens) and _is_lacking(tokens[end], other):
            end += 1
        if end > start:
            yield _run(tokens, start, end)
        start = max(end, start + 1)


def _is_lacking(token: Token, other: Sentence) -> bool:
    return (
        token.is_content
        and token.stem not in other.stems
        and token.stem[:NUM_PREFIX_CHARS] not in other.prefixes
    )


def _run(tokens: Sequence[Token], start: int, end: int) -> _Run:
    first = start
    while first and tokens[first - 1].stem in DETERMINERS:
        first -= 1
    before = tokens[first - 1].stem if first else _EDGE
    behind = tokens[end].stem if end < len(tokens) else _EDGE
    is_capital = tokens[start].is_capital
    return _Run(before, behind, is_capital, is_capital and start > 0)
