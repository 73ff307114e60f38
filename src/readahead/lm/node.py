"""One part of a prompt at its place in a prefix tree; knows no budget.

Nothing here calls itself: a conversation of many turns is a path of thousands of nodes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np

from readahead.lm.base import Segment
from readahead.lm.prompt import Part


@dataclass(eq=False, slots=True)
class Node:
    """One part, with its keys and values.

    Attributes:
        key: sha256(parent's key ‖ token ids); a root's is sha256(fingerprint ‖ tenant).
        segment: None for a root, and for a node whose keys and values are on disk.
        cost_s: What reading its tokens took.
        num_pins: How many requests rely on it; a pinned node stays as it is.
        priority: The higher, the longer it is kept; see ``PrefixTree``.
        is_exact: Whether its keys and values are what the model computes from the tokens alone.
        may_pack: Whether packing was not tried yet.
    """

    key: bytes
    parent: Node | None = None
    part: Part = Part(())
    segment: Segment | None = None
    cost_s: float = 0.0
    num_uses: int = 0
    num_pins: int = 0
    priority: float = 0.0
    is_exact: bool = True
    may_pack: bool = True
    children: dict[bytes, Node] = field(default_factory=dict)

    @property
    def num_bytes(self) -> int:
        """Return the memory that its keys and values take."""
        return 0 if self.segment is None else self.segment.num_bytes

    @property
    def root(self) -> Node:
        """Return the node at the top."""
        *_, top = self.up()
        return top

    @property
    def start(self) -> int:
        """Return the position of its first token; of no meaning once it is out of the tree."""
        return sum(len(node.part.token_ids) for node in self.up() if node is not self)

    @property
    def is_leaf(self) -> bool:
        """Return whether nothing below it is in memory."""
        return all(child.segment is None for child in self.children.values())

    @property
    def worth(self) -> float:
        """Return what a byte of its memory has saved, in seconds of reading."""
        return self.num_uses * self.cost_s / max(1, self.num_bytes)

    def up(self) -> Iterator[Node]:
        """Yield this node and all above it."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it, each before those below it."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children.values())

    def contradictions(self) -> Iterator[str]:
        """Yield what of it does not fit together."""
        if self.parent and self.key != child_key(self.parent.key, self.part.token_ids):
            yield f"{self.part.token_ids[:4]}: key"
        if self.segment and self.segment.num_tokens != len(self.part.token_ids):
            yield f"{self.part.token_ids[:4]}: length"


def child_key(parent: bytes, token_ids: tuple[int, ...]) -> bytes:
    """Return the key of ``token_ids`` behind the node of key ``parent``."""
    return hashlib.sha256(parent + np.asarray(token_ids, dtype=np.int64).tobytes()).digest()


def longest(top: Node, token_ids: tuple[int, ...]) -> tuple[list[Node], int]:
    """Return the path below ``top`` that shares most tokens with ``token_ids``, and how many."""
    last, length = top, 0
    waiting = [(child, 0) for child in reversed(top.children.values())]
    while waiting:
        node, start = waiting.pop()
        own = node.part.token_ids
        shared = num_shared(own, token_ids[start : start + len(own)])
        if start + shared > length:
            last, length = node, start + shared
        if shared == len(own):
            waiting += ((child, start + shared) for child in reversed(node.children.values()))
    return list(takewhile(lambda node: node is not top, last.up()))[::-1], length


def num_shared(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Return how many first tokens ``a`` and ``b`` share."""
    if a == b[: len(a)]:
        return len(a)
    pairs = zip(a, b, strict=False)
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))
