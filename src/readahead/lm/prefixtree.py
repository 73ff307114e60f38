"""Keys and values of prefixes that were read before, in a tree; knows no model and no prompt.

A node holds one segment: a run of tokens with their keys and values, which are valid only behind
the tokens of its ancestors. *Exact*: what the tree gives back is what was cut from a cache, and it
is given only for the same tokens at the same positions under the same model.

    root ── [system 0:41] ── [passage A 41:190] ── [passage B 190:330]
                       └──── [passage B 41:181]                          the same text, other KV

Segments stay as they were inserted. Two siblings may begin with the same tokens; the match is the
longest over all of them, and may end within a node.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Self

import numpy as np

from readahead.lm.base import Cache, Segment
from readahead.lm.prompt import Part

TokenIds = Sequence[int]


@dataclass(eq=False, slots=True)
class Node:
    """One part at its place, with its keys and values.

    Attributes:
        key: sha256(parent's key ‖ token ids); a root's is sha256(fingerprint ‖ tenant).
        num_pins: How many requests rely on it; a pinned node is not evicted.
        cost_s: What reading its tokens took.
        priority: The higher, the longer it is kept; see ``PrefixTree``.
    """

    key: bytes
    parent: Node | None = None
    part: Part = Part(())
    segment: Segment | None = None
    cost_s: float = 0.0
    num_uses: int = 0
    num_pins: int = 0
    priority: float = 0.0
    children: dict[bytes, Node] = field(default_factory=dict)

    @property
    def num_bytes(self) -> int:
        """Return the memory that its keys and values take."""
        return 0 if self.segment is None else self.segment.num_bytes

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it."""
        yield self
        for child in list(self.children.values()):
            yield from child.walk()


class Match:
    """A pinned path: the tree keeps it until ``release``, which leaving a ``with`` block calls.

    Attributes:
        nodes: From the root's child downwards.
        length: How many tokens match; the last node may be matched in part.
    """

    def __init__(self, tree: PrefixTree, nodes: Sequence[Node], length: int) -> None:
        self._tree = tree
        self.nodes = tuple(nodes)
        self.length = length
        self._is_pinned = True

    def release(self) -> None:
        """Let the tree evict the path again."""
        if self._is_pinned:
            self._is_pinned = False
            self._tree._unpin(self.nodes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


class PrefixTree:
    """Segments of several models and tenants under one budget; may be used from several threads.

    When the budget is full, leaves go by the greedy-dual rule for size and frequency, the lowest
    first [Cherkasova98]:

        priority = clock + uses · cost_s / num_bytes

    clock: the priority of the last leaf that went, so that what was dear long ago ages.

    Args:
        budget_bytes: The memory that all keys and values together may take.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.num_bytes = 0
        self.num_evicted = 0
        self._roots: dict[bytes, Node] = {}
        self._clock = 0.0
        self._lock = threading.RLock()

    def match(self, token_ids: TokenIds, root: bytes) -> Match:
        """Return the longest known prefix of ``token_ids``, pinned.

        Token ids are compared one by one; keys only find a node's place.

        Args:
            token_ids: A prompt, or as much of it as is known.
            root: Names model and tenant, see ``root_key``; elsewhere nothing matches.
        """
        with self._lock:
            top = self._roots.get(root)
            nodes, length = ([], 0) if top is None else _longest(top, tuple(token_ids))
            for node in nodes:
                node.num_pins += 1
                self._touch(node)
            return Match(self, nodes, length)

    def insert(
        self, parts: Sequence[Part], cache: Cache, root: bytes, *, cost_s_per_token: float = 0.0
    ) -> int:
        """Keep the parts that ``cache`` holds as segments; return how many tokens are kept.

        What is there already stays as it is. Stops, without harm, where the budget does not reach
        or the cache has no segments.

        Args:
            parts: What ``cache`` has read, from its first position; it may have read more or less.
            cache: Of a batch of one.
            root: See ``match``.
            cost_s_per_token: What reading one token took.
        """
        if cache.refusal:
            return 0
        with self._lock:
            node = self._roots.setdefault(root, Node(root))
            path: list[Node] = []
            start = 0
            for part in parts:
                if (stop := start + len(part.token_ids)) > cache.length:
                    break
                cost_s = cost_s_per_token * len(part.token_ids)
                child = self._child(node, part, cost_s, partial(cache.cut, start, stop))
                if child is None:
                    break
                child.num_pins += 1
                path.append(child)
                node, start = child, stop
            self._unpin(path)
            return start

    def drop(self, is_stale: Callable[[str], bool]) -> int:
        """Drop the nodes whose label ``is_stale`` and all behind them; return how many went.

        Requests that pinned one finish with what they hold.
        """
        with self._lock:
            stale = [n for n in self._nodes() if n.part.label and is_stale(n.part.label)]
            return sum(self._cut_off(node) for node in stale)

    def labels(self) -> set[str]:
        """Return the labels of all nodes."""
        with self._lock:
            return {node.part.label for node in self._nodes()} - {""}

    def make_room(self, num_bytes: int) -> bool:
        """Evict until ``num_bytes`` more fit into the budget; return whether they do."""
        with self._lock:
            while self.num_bytes + num_bytes > self.budget_bytes:
                leaves = (n for n in self._nodes() if not n.children and not n.num_pins)
                leaf = min(leaves, key=lambda node: node.priority, default=None)
                if leaf is None:
                    return False
                self._clock = leaf.priority
                self.num_evicted += 1
                self._cut_off(leaf)
            return True

    def clear(self) -> None:
        """Drop everything that is not pinned."""
        with self._lock:
            budget_bytes, self.budget_bytes = self.budget_bytes, 0
            self.make_room(0)
            self.budget_bytes = budget_bytes

    def check(self) -> list[str]:
        """Return what contradicts itself in the tree; empty if it is sound."""
        with self._lock:
            nodes = list(self._nodes())
            wrong = [f"{n.part.token_ids[:4]}: key" for n in nodes if n.key != _key(n)]
            wrong += [f"{n.part.token_ids[:4]}: length" for n in nodes if not _fits(n)]
            if (total := sum(node.num_bytes for node in nodes)) != self.num_bytes:
                wrong.append(f"{self.num_bytes} bytes counted, {total} held")
            return wrong

    def _nodes(self) -> Iterator[Node]:
        """Yield all nodes but the roots."""
        for root in self._roots.values():
            yield from (node for node in root.walk() if node is not root)

    def _child(
        self, parent: Node, part: Part, cost_s: float, cut: Callable[[], Segment]
    ) -> Node | None:
        """Return the child of ``parent`` for ``part``, made if need be and there is room."""
        key = _child_key(parent.key, part.token_ids)
        if (known := parent.children.get(key)) is not None:
            return known if known.part.token_ids == part.token_ids else None
        segment = cut()
        parent.num_pins += 1  # it may be a leaf itself, and must be there for its child
        has_room = self.make_room(segment.num_bytes)
        parent.num_pins -= 1
        if not has_room:
            return None
        child = Node(key, parent, part, segment, cost_s)
        parent.children[key] = child
        self.num_bytes += child.num_bytes
        self._touch(child)
        self._absorb(child)
        return child

    def _absorb(self, node: Node) -> None:
        """Drop siblings that say no more than ``node``: what an interrupted reading left."""
        assert node.parent is not None
        for sibling in list(node.parent.children.values()):
            mine, its = node.part.token_ids, sibling.part.token_ids
            is_part = len(its) < len(mine) and mine[: len(its)] == its
            if is_part and not sibling.children and not sibling.num_pins:
                self._cut_off(sibling)

    def _touch(self, node: Node) -> None:
        node.num_uses += 1
        node.priority = self._clock + node.num_uses * node.cost_s / max(1, node.num_bytes)

    def _unpin(self, nodes: Sequence[Node]) -> None:
        with self._lock:
            for node in nodes:
                node.num_pins -= 1

    def _cut_off(self, node: Node) -> int:
        """Take ``node`` and all below it out of the tree; return how many there were."""
        if node.parent is None or node.parent.children.pop(node.key, None) is None:
            return 0  # went with an ancestor
        gone = list(node.walk())
        self.num_bytes -= sum(one.num_bytes for one in gone)
        for one in gone:
            one.parent = None
        return len(gone)


def num_shared(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Return how many first tokens ``a`` and ``b`` share."""
    if a == b[: len(a)]:
        return len(a)
    pairs = zip(a, b, strict=False)
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


def root_key(fingerprint: str, tenant: str = "") -> bytes:
    """Return the key under which one model reads for one tenant.

    Args:
        fingerprint: Of the model, see ``CachedModel``.
        tenant: A salt: what one tenant read is never shown, by its timing, to another.
    """
    return hashlib.sha256(ascii((fingerprint, tenant)).encode()).digest()


def load(match: Match, cache: Cache) -> None:
    """Put what ``match`` holds into ``cache``, which is empty."""
    left = match.length
    segments: list[Segment] = []
    for node in match.nodes:
        assert node.segment is not None
        num_tokens = min(left, node.segment.num_tokens)
        segments.append(node.segment.head(num_tokens))
        left -= num_tokens
    cache.extend(segments)


def _longest(node: Node, token_ids: tuple[int, ...]) -> tuple[list[Node], int]:
    """Return the path below ``node`` that shares most tokens with ``token_ids``."""
    best: tuple[list[Node], int] = ([], 0)
    for child in node.children.values():
        shared = num_shared(child.part.token_ids, token_ids)
        path, length = [child], shared
        if shared == len(child.part.token_ids):
            below, more = _longest(child, token_ids[shared:])
            path, length = path + below, shared + more
        if length > best[1]:
            best = (path, length)
    return best


def _child_key(parent: bytes, token_ids: tuple[int, ...]) -> bytes:
    return hashlib.sha256(parent + np.asarray(token_ids, dtype=np.int64).tobytes()).digest()


def _key(node: Node) -> bytes:
    return _child_key(node.parent.key, node.part.token_ids) if node.parent else node.key


def _fits(node: Node) -> bool:
    segment = node.segment
    return segment is not None and segment.num_tokens == len(node.part.token_ids)
