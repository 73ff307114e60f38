"""Which tokens of a prompt are taken from elsewhere in a tree; knows no model.

The tokens of a passage are the same wherever it is shown, but for its number; what is known of
them depends on what stood before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate, islice, zip_longest

from readahead.lm.node import Node
from readahead.lm.prefixtree import Copies
from readahead.lm.prompt import Part, joined


@dataclass(frozen=True, slots=True)
class Move:
    """A run of tokens that a node of the tree holds for another place.

    Attributes:
        node: Holds it from its token ``first`` on.
        old_start: Position of the run where it was read.
        new_start: Position where it is wanted.
    """

    node: Node
    first: int
    old_start: int
    new_start: int
    num_tokens: int

    @property
    def positions(self) -> range:
        """Return where it is wanted."""
        return range(self.new_start, self.new_start + self.num_tokens)


@dataclass(frozen=True, slots=True)
class Plan:
    """How a prompt is to be put together.

    Attributes:
        num_known: How many first tokens are known exactly.
        num_asked: How many last tokens are the question.
        share: Of the moved tokens, computed anew.
    """

    token_ids: tuple[int, ...]
    num_known: int
    moves: tuple[Move, ...]
    num_asked: int
    share: float

    @property
    def moved(self) -> list[int]:
        """Return the positions of all moved tokens."""
        return [position for move in self.moves for position in move.positions]

    @property
    def num_chosen(self) -> int:
        """Return how many of the moved tokens are computed anew."""
        return math.ceil(self.share * len(self.moved))

    @property
    def leading(self) -> list[int]:
        """Return half of what is computed anew: the first tokens of the runs, as many of each."""
        in_turn = zip_longest(*(move.positions for move in self.moves))
        firsts = (position for turn in in_turn for position in turn if position is not None)
        return list(islice(firsts, self.num_chosen // 2))

    @property
    def num_looking(self) -> int:
        """Return how many tokens are read only to choose: the question, unless all are alike."""
        return self.num_asked if 0 < self.num_chosen < len(self.moved) else 0

    @property
    def num_kept(self) -> int:
        """Return how many of the moved tokens stay as they were."""
        return len(self.moved) - self.num_chosen

    @property
    def num_computed(self) -> int:
        """Return how many tokens the model reads."""
        return len(self.token_ids) - self.num_known - self.num_kept + self.num_looking


def plan_blend(parts: Sequence[Part], num_known: int, copies: Copies, share: float) -> Plan:
    """Return how to put ``parts`` together.

    Args:
        parts: The beginning of a prompt, up to a part of its question; passages have labels.
        num_known: How many first tokens need nothing.
        copies: What the tree holds of the passages.
        share: Of the moved tokens, computed anew.
    """
    starts = accumulate((len(part.token_ids) for part in parts), initial=0)
    moves: list[Move] = []
    asked_from = num_known
    for start, part in zip(starts, parts, strict=False):
        if not part.label or (stop := start + len(part.token_ids)) <= num_known:
            continue
        asked_from, first = stop, max(start, num_known)
        move = _longest_move(Part(part.token_ids[first - start :], part.label), first, copies)
        moves += [move] if move else []
    token_ids = joined(parts)
    num_asked = len(token_ids) - asked_from
    return Plan(token_ids, num_known, tuple(moves if num_asked else ()), num_asked, share)


def _longest_move(wanted: Part, start: int, copies: Copies) -> Move | None:
    """Return the longest run of ``wanted``, which is at ``start``, that a copy of it holds.

    A copy may have another number, and may have been shortened; so not all must be the same.
    """
    best: Move | None = None
    for old_start, node in copies.places:
        if node.part.label != wanted.label:
            continue
        held = node.part.token_ids
        run = SequenceMatcher(None, held, wanted.token_ids, autojunk=False).find_longest_match()
        if run.size > (best.num_tokens if best else 0):
            best = Move(node, run.a, old_start + run.a, start + run.b, run.size)
    return best
