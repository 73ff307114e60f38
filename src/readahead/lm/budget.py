"""What becomes of the nodes of a prefix tree when memory runs short; knows no prompt."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count

from readahead.lm.base import Segment
from readahead.lm.node import Node
from readahead.lm.pack import Storage, pack
from readahead.lm.spill import Spill

_Rank = tuple[float, bool]


class Budget:
    """The memory that all nodes together may take; for one thread at a time.

    When it is used up, the node of the lowest priority takes its next step down: it is packed, its
    segment goes to disk, it is gone; the last two only once nothing is in memory below it. The
    priority is the greedy-dual rule's for size and frequency [Cherkasova98]:

        priority = clock + uses · cost_s / num_bytes

    clock: the priority of the last one that left the memory, so that what was dear long ago ages.
    None of this waits for the disk: what cannot be written soon is gone.

    A packed node stays packed, and is unpacked for each use: what packing lost does not come back.

    Attributes:
        roots: The nodes at the top, by key.
        steps: How often nodes were ``packed``, ``spilled``, ``recalled`` and ``evicted``.
    """

    def __init__(self, limit_bytes: int, storage: Storage, spill: Spill | None) -> None:
        self.limit_bytes = limit_bytes
        self.num_bytes = 0
        self.steps: Counter[str] = Counter()
        self.spill = spill
        self.roots: dict[bytes, Node] = {}
        self._storage = storage
        self._clock = 0.0

    @property
    def held_bytes(self) -> int:
        """Return the memory of all nodes, and of what waits for the disk."""
        return self.num_bytes + (self.spill.waiting_bytes if self.spill else 0)

    def nodes(self) -> Iterator[Node]:
        """Yield all nodes but the roots."""
        for root in self.roots.values():
            yield from (node for node in root.walk() if node is not root)

    def hold(self, node: Node, segment: Segment | None) -> None:
        """Give ``node`` another segment; None if it is on disk from now on."""
        self.num_bytes -= node.num_bytes
        node.segment = segment
        self.num_bytes += node.num_bytes
        if segment is not None:
            node.is_exact = segment.is_exact

    def use(self, node: Node) -> None:
        """Note that ``node`` was used."""
        node.num_uses += 1
        node.priority = self._clock + node.worth

    def remove(self, node: Node) -> int:
        """Take ``node`` and all below it out of the tree; return how many there were."""
        if node.parent is None or node.parent.children.pop(node.key, None) is None:
            return 0  # went with an ancestor
        gone = list(node.walk())
        self.num_bytes -= sum(one.num_bytes for one in gone)
        for one in gone:
            one.parent = None
        if self.spill is not None:
            self.spill.discard(one.key for one in gone)
        return len(gone)

    def make_room(self, num_bytes: int) -> bool:
        """Give memory back until ``num_bytes`` more fit; return whether they do."""
        return num_bytes <= self.limit_bytes and self.shrink_to(self.limit_bytes - num_bytes)

    def shrink_to(self, num_bytes: int) -> bool:
        """Let the coldest nodes step down until all take ``num_bytes``; return whether they do."""
        waiting: list[tuple[_Rank, int, Node]] = []
        order = count()

        def wait(node: Node | None) -> None:
            if node is not None and self._can_step_down(node):
                heappush(waiting, (_rank(node), next(order), node))

        if self.num_bytes > num_bytes:
            for node in self.nodes():
                wait(node)
        while self.num_bytes > num_bytes and waiting:
            rank, _, coldest = heappop(waiting)
            parent = coldest.parent
            if parent is None or rank != _rank(coldest) or not self._can_step_down(coldest):
                continue  # gone, or waiting elsewhere: a node comes again once it was packed
            if not self._pack(coldest) and coldest.is_leaf:
                self._let_go(coldest)
            wait(coldest)
            wait(parent)
        return self.num_bytes <= num_bytes

    def take_back(self, node: Node, segment: Segment | None) -> None:
        """Hold what came from the disk for ``node`` if there is room; None: it is lost."""
        if segment is None:
            self.remove(node)
        elif node.parent and node.segment is None and self.make_room(segment.num_bytes):
            self.hold(node, segment)
            node.priority = self._clock + node.worth
            node.may_pack = True
            self.steps["recalled"] += 1

    def _can_step_down(self, node: Node) -> bool:
        may_pack = node.may_pack and self._storage != "same"
        return node.segment is not None and not node.num_pins and (may_pack or node.is_leaf)

    def _pack(self, node: Node) -> bool:
        """Store ``node`` in fewer bits if that was not tried before; return whether it is now."""
        if not node.may_pack or node.segment is None:
            return False
        node.may_pack = False
        if (packed := pack(node.segment, self._storage)) is None:
            return False
        before = node.worth
        self.hold(node, packed)
        node.priority += node.worth - before  # not younger than it was
        self.steps["packed"] += 1
        return True

    def _let_go(self, leaf: Node) -> None:
        """Take the memory of ``leaf``: at once, whether or not the disk takes over."""
        self._clock = max(self._clock, leaf.priority)
        if self.spill is None or not _put(leaf, self.spill):
            self.steps["evicted"] += 1
            self.remove(leaf)
            return
        self.steps["spilled"] += 1
        self.hold(leaf, None)
        for node in list(self.nodes()):
            if node.segment is None and not node.num_pins and node.key not in self.spill:
                self.remove(node)  # its file made room for others


def _rank(node: Node) -> _Rank:
    """Return what orders nodes by how cold they are; of two as cold, who need not go yet comes."""
    return node.priority, not node.may_pack


def _put(leaf: Node, spill: Spill) -> bool:
    """Return whether the disk takes ``leaf``; what is read again as soon is not worth it."""
    assert leaf.segment is not None
    if leaf.cost_s and leaf.cost_s < spill.load_s(leaf.num_bytes):
        return False
    tokens = hashlib.sha256(ascii(leaf.part.token_ids).encode()).hexdigest()
    return spill.put(leaf.key, leaf.segment, root=leaf.root.key.hex(), tokens=tokens)
