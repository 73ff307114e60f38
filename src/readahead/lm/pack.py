"""Keys and values in fewer bits, for prefixes that were not used lately; knows no tree.

*Approximate*: what packing loses does not come back. ``bfloat16`` keeps 8 bits of each number;
``int8`` keeps a whole number of at most 127 steps, with one step size per token and head:

    x ≈ step · round(x / step),    step = max |x| over D / 127

so that no number is off by more than half a step. A segment whose numbers already have as few bits
is not packed. ``benchmarks/bench_storage.py`` prints what it costs in answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from readahead.lm.base import Segment
from readahead.lm.kv import KVSegment

Storage = Literal["same", "bfloat16", "int8"]


@dataclass(frozen=True, slots=True)
class PackedSegment:
    """A ``KVSegment`` in fewer bits.

    Attributes:
        codes: The keys of all layers, then the values, (1, H_kv, T, D) each, bfloat16 or int8.
        steps: One (1, H_kv, T, 1), float16, for each of ``codes``; none for bfloat16.
        dtype: Of the numbers before.
    """

    codes: tuple[Tensor, ...]
    steps: tuple[Tensor, ...]
    dtype: torch.dtype

    @property
    def num_tokens(self) -> int:
        """Return how many positions it holds."""
        return self.codes[0].shape[-2]

    @property
    def num_bytes(self) -> int:
        """Return the memory that it takes."""
        return sum(tensor.nbytes for tensor in (*self.codes, *self.steps))

    @property
    def is_exact(self) -> bool:
        """Return False: bits were lost."""
        return False

    def head(self, num_tokens: int) -> PackedSegment:
        """Return its first ``num_tokens`` positions; shares the memory."""
        return PackedSegment(
            tuple(code[..., :num_tokens, :] for code in self.codes),
            tuple(step[..., :num_tokens, :] for step in self.steps),
            self.dtype,
        )

    def unpack(self) -> KVSegment:
        """Return the segment in its first dtype, on its device; it is not exact."""
        tensors = [code.to(self.dtype) for code in self.codes]
        if self.steps:
            pairs = zip(self.codes, self.steps, strict=True)
            # Multiplied in float32: a step and a code in float16 may exceed its range on the way.
            tensors = [(code * step.float()).to(self.dtype) for code, step in pairs]
        half = len(tensors) // 2
        return KVSegment(tuple(tensors[:half]), tuple(tensors[half:]), is_exact=False)


def pack(segment: Segment, storage: Storage) -> PackedSegment | None:
    """Return ``segment`` in fewer bits, None where that saves nothing or is not possible.

    Args:
        segment: Of any backend; those that are packed already, or not known here, stay as they are.
        storage: ``same`` packs nothing.
    """
    if storage == "same" or not isinstance(segment, KVSegment):
        return None
    tensors = (*segment.keys, *segment.values)
    dtype = tensors[0].dtype
    if storage == "bfloat16":
        if dtype.itemsize <= torch.bfloat16.itemsize:
            return None
        return PackedSegment(tuple(tensor.bfloat16() for tensor in tensors), (), dtype)
    pairs = [_quantised(tensor) for tensor in tensors]
    if not all(bool(step.isfinite().all()) for _, step in pairs):
        return None  # a number that is no number, or out of the range of the step's float16
    codes, steps = zip(*pairs, strict=True)
    packed = PackedSegment(codes, steps, dtype)
    return packed if packed.num_bytes < segment.num_bytes else None


def _quantised(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``tensor`` (…, D) as int8 (…, D) and float16 steps (…, 1)."""
    numbers = tensor.float()
    step = (numbers.abs().amax(dim=-1, keepdim=True) / 127).half()
    # A row of zeros has no step, and 0 / 0 is no number.
    codes = (numbers / step.float()).round().clamp(-127, 127).nan_to_num().to(torch.int8)
    return codes, step
