"""A suffix automaton over token ids: where the end of one text stands in others.

Knows nothing about drafting. *Exact*: a match is the longest there is.   [Blumer85]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ROOT = 0
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Match:
    """The longest end of a text that stands in the automaton's texts with a token behind it.

    It holds until the automaton is extended.

    Attributes:
        state: Stands for it; the root where nothing matches.
        length: In tokens; 0 where nothing matches.
    """

    state: int = ROOT
    length: int = 0


class SuffixAutomaton:
    """Knows all runs of tokens of its texts; grows token by token.

    A state stands for runs that end at the same positions: its longest run, and all ends of that
    which are longer than the longest run of the state that its link leads to. n tokens make at
    most 2n states and 3n transitions; a token more takes O(1) steps, amortised.

    States are rows of parallel lists, as objects would take several times the memory. Besides the
    usual columns, one keeps where the first occurrence *that a token stands behind* ends: that is
    what can be copied from. It is known from the first transition on, and costs nothing.

    Attributes:
        token_ids: Of all texts, one behind the other.
    """

    def __init__(self, texts: Sequence[Sequence[int]] = ()) -> None:
        self.token_ids: list[int] = []
        self._moves: list[dict[int, int]] = [{}]
        self._links: list[int] = [NOWHERE]
        self._lengths: list[int] = [0]
        self._ends: list[int] = [NOWHERE]
        self._last = ROOT
        for text in texts:
            self.begin_text()
            for token_id in text:
                self.extend(token_id)

    def begin_text(self) -> None:
        """Begin another text; no match crosses from one into the next."""
        self._last = ROOT

    def extend(self, token_id: int) -> None:
        """Write a token at the end of the present text."""
        position = len(self.token_ids)
        self.token_ids.append(token_id)
        moves, links = self._moves, self._links
        state = self._last
        if token_id in moves[state]:  # stands in an earlier text
            self._last = self._split(state, token_id)
            return
        self._last = self._add({}, NOWHERE, self._lengths[state] + 1, NOWHERE)
        while state != NOWHERE and token_id not in moves[state]:
            if not moves[state]:
                self._ends[state] = position
            moves[state][token_id] = self._last
            state = links[state]
        links[self._last] = ROOT if state == NOWHERE else self._split(state, token_id)

    def advance(self, match: Match, token_id: int) -> Match:
        """Return the match of the text behind ``match`` with one token more.

        Over a text of n tokens that takes O(n) steps.
        """
        moves, links = self._moves, self._links
        state, length = match.state, match.length
        while state != ROOT and token_id not in moves[state]:
            state = links[state]
            length = self._lengths[state]
        target = moves[state].get(token_id)
        return Match() if target is None else self._with_more_behind(target, length + 1)

    def own_end(self) -> Match:
        """Return the match of the present text itself: its longest end that stood before."""
        return self._with_more_behind(self._last, self._lengths[self._last])

    def end_of(self, match: Match) -> int:
        """Return where in ``token_ids`` a match ends, and the token behind it stands.

        Of several occurrences with a token behind them, it is the first that was written.
        """
        assert match.length, "what is nowhere has no end"
        return self._ends[match.state]

    def _with_more_behind(self, state: int, length: int) -> Match:
        """Leave out what stands only where texts end; at most one step for each text."""
        while state != ROOT and not self._moves[state]:
            state = self._links[state]
            length = self._lengths[state]
        return Match(state, length)

    def _split(self, state: int, token_id: int) -> int:
        """Return a state whose longest run is that of ``state`` and the token."""
        moves, links = self._moves, self._links
        target = moves[state][token_id]
        length = self._lengths[state] + 1
        if self._lengths[target] == length:
            return target
        shorter = self._add(moves[target].copy(), links[target], length, self._ends[target])
        links[target] = shorter
        while state != NOWHERE and moves[state].get(token_id) == target:
            moves[state][token_id] = shorter
            state = links[state]
        return shorter

    def _add(self, moves: dict[int, int], link: int, length: int, end: int) -> int:
        self._moves.append(moves)
        self._links.append(link)
        self._lengths.append(length)
        self._ends.append(end)
        return len(self._moves) - 1
