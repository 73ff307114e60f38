"""One part of a prompt at its place in a prefix tree; knows no budget."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

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
        return self.parent.root if self.parent else self

    @property
    def start(self) -> int:
        """Return the position of its first token; of no meaning once it is out of the tree."""
        return self.parent.start + len(self.parent.part.token_ids) if self.parent else 0

    @property
    def is_leaf(self) -> bool:
        """Return whether nothing below it is in memory."""
        return all(child.segment is None for child in self.children.values())

    @property
    def worth(self) -> float:
        """Return what a byte of its memory has saved, in seconds of reading."""
        return self.num_uses * self.cost_s / max(1, self.num_bytes)

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it."""
        yield self
        for child in list(self.children.values()):
            yield from child.walk()

    def contradictions(self) -> Iterator[str]:
        """Yield what of it does not fit together."""
        if self.parent and self.key != child_key(self.parent.key, self.part.token_ids):
            yield f"{self.part.token_ids[:4]}: key"
        if self.segment and self.segment.num_tokens != len(self.part.token_ids):
            yield f"{self.part.token_ids[:4]}: length"


def child_key(parent: bytes, token_ids: tuple[int, ...]) -> bytes:
    """Return the key of ``token_ids`` behind the node of key ``parent``."""
    return hashlib.sha256(parent + np.asarray(token_ids, dtype=np.int64).tobytes()).digest()


def longest(node: Node, token_ids: tuple[int, ...]) -> tuple[list[Node], int]:
    """Return the path below ``node`` that shares most tokens with ``token_ids``, and how many."""
    best: tuple[list[Node], int] = ([], 0)
    for child in node.children.values():
        shared = num_shared(child.part.token_ids, token_ids)
        path, length = [child], shared
        if shared == len(child.part.token_ids):
            below, more = longest(child, token_ids[shared:])
            path, length = path + below, shared + more
        if length > best[1]:
            best = (path, length)
    return best


def num_shared(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Return how many first tokens ``a`` and ``b`` share."""
    if a == b[: len(a)]:
        return len(a)
    pairs = zip(a, b, strict=False)
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))
