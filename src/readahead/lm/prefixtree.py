"""Keys and values of prefixes that were read before, in a tree; knows no model and no prompt.

A node holds one segment: a run of tokens with their keys and values, which are valid only behind
the tokens of its ancestors. *Exact*, unless ``storage`` packs what is cold: what the tree gives
back is what was cut from a cache, and it is given only for the same tokens at the same positions
under the same model.

    root ── [system 0:41] ── [passage A 41:190] ── [passage B 190:330]
                       └──── [passage B 41:181]                          the same text, other KV

Segments are cut as they were inserted. Two siblings may begin with the same tokens; the match is
the longest over all of them, and may end within a node.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from types import TracebackType
from typing import Self

import torch

from readahead.config import CacheConfig
from readahead.lm.base import Cache, Segment
from readahead.lm.budget import Budget
from readahead.lm.memory import budget_bytes
from readahead.lm.node import Node, child_key, longest
from readahead.lm.pack import Storage
from readahead.lm.prompt import Part
from readahead.lm.spill import Spill

TokenIds = Sequence[int]


class Pinned:
    """Nodes that the tree keeps until ``release``, which leaving a ``with`` block calls."""

    def __init__(self, tree: PrefixTree, nodes: Sequence[Node]) -> None:
        self._tree = tree
        self.nodes = tuple(nodes)
        self._is_pinned = True

    def segment(self, node: Node) -> Segment | None:
        """Return the keys and values of one of the nodes; None if they were lost on disk."""
        return self._tree._recall(node)

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


class Match(Pinned):
    """A pinned path.

    Attributes:
        nodes: From the root's child downwards.
        length: How many tokens match; the last node may be matched in part. What turns out to be
            lost on disk shortens it.
    """

    def __init__(self, tree: PrefixTree, nodes: Sequence[Node], length: int) -> None:
        super().__init__(tree, nodes)
        self.length = length

    @property
    def is_exact(self) -> bool:
        """Return whether all of it is what the model computes from the tokens alone."""
        return all(node.is_exact for node in self.nodes)

    def segments(self) -> list[Segment]:
        """Return the keys and values of its tokens, from the disk where they are there."""
        found: list[Segment] = []
        left = self.length
        for node in self.nodes:
            if (segment := self.segment(node)) is None:
                self.length -= left
                break
            found.append(segment.head(min(left, segment.num_tokens)))
            left -= found[-1].num_tokens
        return found


class Copies(Pinned):
    """Nodes of some labels, wherever they stand.

    Attributes:
        places: Each node with the position of its first token.
    """

    def __init__(self, tree: PrefixTree, places: Sequence[tuple[int, Node]]) -> None:
        super().__init__(tree, [node for _, node in places])
        self.places = tuple(places)

    def segment(self, node: Node) -> Segment | None:
        """Return the keys and values of one of the nodes, and note that it was of use."""
        with self._tree._lock:
            self._tree._budget.use(node)
        return super().segment(node)


class PrefixTree:
    """Segments under one budget; may be used from several threads.

    Each engine opens a tree of its own, and the budgets of several engines add up. Models and
    tenants that share one are kept apart by their roots.

    When the budget is full, what is cold is packed, goes to disk, or goes; see ``Budget``. Packing
    is *approximate*, and so is what is computed behind it: segments, caches and matches say so.

    Args:
        budget_bytes: The memory that all keys and values together may take.
        storage: How nodes not used lately are stored; ``same`` keeps everything exact.
        spill: Takes what loses its memory; None has no disk.
    """

    def __init__(
        self, budget_bytes: int, *, storage: Storage = "same", spill: Spill | None = None
    ) -> None:
        self._budget = Budget(budget_bytes, storage, spill)
        self._lock = threading.RLock()

    @classmethod
    def open(cls, config: CacheConfig, device: torch.device) -> Self:
        """Return the tree that the settings ask for, for a model on ``device``."""
        spill = Spill(config.spill_bytes) if config.spill_bytes else None
        return cls(budget_bytes(config, device), storage=config.storage, spill=spill)

    def close(self) -> None:
        """Drop everything that is not pinned, and leave nothing on disk."""
        self.clear()
        if self._budget.spill is not None:
            self._budget.spill.close()

    @property
    def budget_bytes(self) -> int:
        """Return the memory that all keys and values together may take."""
        return self._budget.limit_bytes

    @property
    def num_bytes(self) -> int:
        """Return the memory that they take."""
        return self._budget.num_bytes

    @property
    def steps(self) -> Counter[str]:
        """Return how often nodes were ``packed``, ``spilled``, ``recalled`` and ``evicted``."""
        with self._lock:
            return self._budget.steps.copy()

    def match(self, token_ids: TokenIds, root: bytes) -> Match:
        """Return the longest known prefix of ``token_ids``, pinned.

        Token ids are compared one by one; keys only find a node's place.

        Args:
            token_ids: A prompt, or as much of it as is known.
            root: Names model and tenant, see ``root_key``; elsewhere nothing matches.
        """
        with self._lock:
            top = self._budget.roots.get(root)
            nodes, length = ([], 0) if top is None else longest(top, tuple(token_ids))
            for node in nodes:
                node.num_pins += 1
                self._budget.use(node)
            return Match(self, nodes, length)

    def find(self, labels: Collection[str], root: bytes) -> Copies:
        """Return the nodes of ``labels``, pinned; what they hold is valid at their places only.

        Args:
            labels: See ``Part``.
            root: See ``match``.
        """
        with self._lock:
            top = self._budget.roots.get(root)
            nodes = [n for n in (top.walk() if top else ()) if n.part.label in labels]
            for node in nodes:
                node.num_pins += 1
            return Copies(self, [(node.start, node) for node in nodes])

    def insert(
        self, parts: Sequence[Part], cache: Cache, root: bytes, *, cost_s_per_token: float = 0.0
    ) -> int:
        """Keep the parts that ``cache`` holds as segments; return how many tokens are kept.

        What is there already stays as it is. Stops, without harm, where the budget does not reach
        or the cache has no segments, or holds what was blended.

        Args:
            parts: What ``cache`` has read, from its first position; it may have read more or less.
            cache: Of a batch of one.
            root: See ``match``.
            cost_s_per_token: What reading one token took.
        """
        if cache.refusal or cache.is_blended:
            return 0
        with self._lock:
            node = self._budget.roots.setdefault(root, Node(root))
            path: list[Node] = []
            start = 0
            try:
                for part in parts:
                    if not part.token_ids:
                        continue
                    if (stop := start + len(part.token_ids)) > cache.length:
                        break
                    cost_s = cost_s_per_token * len(part.token_ids)
                    child = self._child(node, part, cost_s, partial(cache.cut, start, stop))
                    if child is None:
                        break
                    child.num_pins += 1
                    path.append(child)
                    node, start = child, stop
            finally:
                self._unpin(path)
            return start

    def drop(self, is_stale: Callable[[str], bool]) -> int:
        """Drop the nodes whose label ``is_stale`` and all behind them; return how many went.

        Requests that pinned one finish with what they hold.
        """
        with self._lock:
            stale = [n for n in self._budget.nodes() if n.part.label and is_stale(n.part.label)]
            return sum(self._budget.remove(node) for node in stale)

    def labels(self) -> set[str]:
        """Return the labels of all nodes."""
        with self._lock:
            return {node.part.label for node in self._budget.nodes()} - {""}

    def make_room(self, num_bytes: int) -> bool:
        """Give memory back until ``num_bytes`` more fit into the budget; return whether they do."""
        with self._lock:
            return self._budget.make_room(num_bytes)

    def shrink(self, num_bytes: int) -> int:
        """Give back ``num_bytes`` of memory, or what there is; return how many are free now.

        What still waits for the disk is not, yet.
        """
        with self._lock:
            before = self._budget.held_bytes
            self._budget.shrink_to(max(0, self.num_bytes - num_bytes))
            return max(0, before - self._budget.held_bytes)

    def clear(self) -> None:
        """Drop everything that is not pinned."""
        with self._lock:
            for node in list(self._budget.nodes()):
                is_there = node.parent is not None  # it did not go with one above it
                if is_there and not any(one.num_pins for one in node.walk()):
                    self._budget.remove(node)

    def check(self) -> list[str]:
        """Return what contradicts itself in the tree; empty if it is sound."""
        with self._lock:
            nodes = list(self._budget.nodes())
            wrong = [contradiction for node in nodes for contradiction in node.contradictions()]
            if (total := sum(node.num_bytes for node in nodes)) != self.num_bytes:
                wrong.append(f"{self.num_bytes} bytes counted, {total} held")
            return wrong

    def _recall(self, node: Node) -> Segment | None:
        """Return the segment of a pinned node, from the disk if need be; None if it is lost."""
        spill = self._budget.spill
        if node.segment is not None or spill is None:
            return node.segment
        segment = spill.get(node.key)  # without the lock: nobody else waits
        with self._lock:
            self._budget.take_back(node, segment)
        return segment

    def _child(
        self, parent: Node, part: Part, cost_s: float, cut: Callable[[], Segment]
    ) -> Node | None:
        """Return the child of ``parent`` for ``part``, made if need be and there is room."""
        key = child_key(parent.key, part.token_ids)
        if (known := parent.children.get(key)) is not None:
            return known if known.part.token_ids == part.token_ids else None
        segment = cut()
        parent.num_pins += 1  # it may be a leaf itself, and must be there for its child
        has_room = self.make_room(segment.num_bytes)
        parent.num_pins -= 1
        if not has_room:
            return None
        child = Node(key, parent, part, cost_s=cost_s)
        parent.children[key] = child
        self._budget.hold(child, segment)
        self._budget.use(child)
        self._absorb(child)
        return child

    def _absorb(self, node: Node) -> None:
        """Drop siblings that say no more than ``node``: what an interrupted reading left."""
        assert node.parent is not None
        for sibling in list(node.parent.children.values()):
            mine, its = node.part.token_ids, sibling.part.token_ids
            is_part = len(its) < len(mine) and mine[: len(its)] == its
            if is_part and not sibling.children and not sibling.num_pins:
                self._budget.remove(sibling)

    def _unpin(self, nodes: Sequence[Node]) -> None:
        with self._lock:
            for node in nodes:
                node.num_pins -= 1


def root_key(fingerprint: str, tenant: str = "") -> bytes:
    """Return the key under which one model reads for one tenant.

    Args:
        fingerprint: Of the model, see ``CachedModel``.
        tenant: A salt: what one tenant read is never shown, by its timing, to another.
    """
    return hashlib.sha256(ascii((fingerprint, tenant)).encode()).digest()


def load(match: Match, cache: Cache) -> None:
    """Put what ``match`` holds into ``cache``, which is empty."""
    cache.extend([segment.unpack() for segment in match.segments()])
