"""The KV cache of a batch, with its padding; the one place that touches backend caches."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from readahead.errors import BackendError
from readahead.lm.base import Segment
from readahead.lm.memory import free_bytes

if TYPE_CHECKING:
    from transformers import DynamicCache, PretrainedConfig


@dataclass(frozen=True, slots=True)
class KVSegment:
    """What one sequence's cache holds of the positions ``[start, start + num_tokens)``.

    Valid only behind the very tokens that it was cut from, at the same positions.

    Attributes:
        keys: One tensor a layer, (1, H_kv, num_tokens, D), positions already rotated in.
        values: The same shape.
        is_exact: Whether they are what the model computes from the tokens alone; False if they
            were stored in fewer bits, or computed behind something that was.
    """

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    is_exact: bool = True

    @property
    def num_tokens(self) -> int:
        """Return how many positions it holds."""
        return self.keys[0].shape[-2]

    @property
    def num_bytes(self) -> int:
        """Return the memory that it takes."""
        return sum(tensor.nbytes for tensor in (*self.keys, *self.values))

    def head(self, num_tokens: int) -> KVSegment:
        """Return its first ``num_tokens`` positions; shares the memory."""
        return self.part(0, num_tokens)

    def part(self, start: int, stop: int) -> KVSegment:
        """Return what it holds of ``[start, stop)``, counted from its own first position."""
        if (start, stop) == (0, self.num_tokens):
            return self
        return KVSegment(
            tuple(key[..., start:stop, :] for key in self.keys),
            tuple(value[..., start:stop, :] for value in self.values),
            self.is_exact,
        )

    def unpack(self) -> KVSegment:
        """Return the segment itself: it is not packed."""
        return self


def num_positions(config: PretrainedConfig) -> int | None:
    """Return for how many positions keys stay what they are; None where the model names no number.

    With longrope that is the original length. A pass that goes beyond it rotates all its tokens by
    other factors, and keys that were read before would not fit them any more.
    """
    limit = getattr(config, "max_position_embeddings", None)
    rope = getattr(config, "rope_parameters", None) or {}
    for kind in (rope, *rope.values()):  # of all layers, or of each type of them
        if isinstance(kind, dict) and kind.get("rope_type") == "longrope":
            limit = min(limit or inf, kind["original_max_position_embeddings"])
    return limit if isinstance(limit, int) else None


class KVCache:
    """Keys and values of all layers, (B, H_kv, S, D) each, and which of them are padding.

    Behind the columns that all rows share, ``padding[b]`` columns of row b are never attended to,
    and its next token has the next position; so a padded row computes what it would compute alone.

    Attributes:
        num_shared: Columns in front of the padding; 0 unless the rows were spread.
        is_blended: Whether some of it was computed behind other tokens; then nothing of it is kept.
    """

    def __init__(
        self,
        config: PretrainedConfig,
        padding: Sequence[int] = (0,),
        device: torch.device | None = None,
    ) -> None:
        from transformers import DynamicCache

        self.padding = tuple(padding)
        self.num_shared = 0
        self.device = device or torch.device("cpu")
        self._max_position = num_positions(config)
        self.is_blended = False
        self._records_past = False
        self._num_exact: int | None = None  # leading positions; None: all, and all to come
        self.backend: DynamicCache = DynamicCache(config=config)

    @property
    def batch_size(self) -> int:
        """Return B."""
        return len(self.padding)

    @property
    def length(self) -> int:
        """Return S, the number of positions held, padding included."""
        return int(self.backend.get_seq_length())

    @property
    def num_bytes(self) -> int:
        """Return the memory that the held keys and values take."""
        tensors = [
            value
            for layer in self.backend.layers
            for value in vars(layer).values()
            if isinstance(value, Tensor)
        ]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    @property
    def free_bytes(self) -> int:
        """Return the memory that can still be taken on its device."""
        return free_bytes(self.device)

    @property
    def is_exact(self) -> bool:
        """Return whether all that is held is what the model computes from the tokens alone."""
        return self._num_exact is None

    def fork(self) -> Self:
        """Return an independent copy."""
        twin = copy.copy(self)
        # Deep, because layers differ in what they hold beside keys and values.
        twin.backend = copy.deepcopy(self.backend)
        return twin

    @property
    def can_spread(self) -> bool:
        """Return whether it holds one sequence, each layer one column a position."""
        from transformers.cache_utils import DynamicLayer

        # Windows count columns, padding among them; linear attention has none.
        layers = self.backend.layers
        return self.padding == (0,) and all(type(layer) is DynamicLayer for layer in layers)

    def spread(self, padding: Sequence[int]) -> Self:
        """Return a batch of which each row holds what is held, ``padding[b]`` ignored behind it."""
        assert self.can_spread, "only one sequence, without windows, can be spread"
        twin = self.fork()
        twin.padding, twin.num_shared = tuple(padding), self.length
        if self.length:
            twin.backend.batch_repeat_interleave(len(padding))
        return twin

    def record_past(self) -> None:
        """Keep what slides out of a window until the next ``crop``, which can then take it back."""
        self.backend.activate_past_recording()
        self._records_past = True

    def forget_past(self) -> None:
        """Let go again of what slides out of a window, as before ``record_past``."""
        layers: Any = self.backend.layers
        for layer in layers:
            if hasattr(layer, "record_past"):
                layer.record_past = False
        self._records_past = False

    @property
    def can_go_back(self) -> bool:
        """Return whether ``crop`` can take positions back: no layer has one state for all."""
        layers: Any = self.backend.layers
        recurrent = (getattr(layer, "is_recurrent_states_initialized", {}) for layer in layers)
        return not any(is_held for states in recurrent for is_held in states.values())

    def crop(self, length: int) -> None:
        """Keep the first ``length`` positions.

        Raises:
            BackendError: A sliding-window layer has already dropped what is to be kept, or a
                recurrent one has no state of it.
        """
        surplus = self.length - length
        assert surplus >= 0, f"cannot crop {self.length} positions to {length}"
        if surplus == 0 and not (self._records_past and self.length):
            return
        if surplus and not self.can_go_back:  # transformers would leave that state as it is
            raise BackendError(
                f"The cache cannot go back to {length} positions: a layer keeps one state for all.",
                remedy="Read all anew, or use a model without recurrent layers.",
            )
        if self._num_exact is not None and length <= self._num_exact:
            self._num_exact, self.is_blended = None, False
        try:
            self.backend.crop(-surplus)
        except RuntimeError as error:
            raise BackendError(
                f"The cache cannot go back to {length} positions: {error}",
                remedy="Models with sliding-window attention cannot roll back past their window.",
            ) from error

    @property
    def refusal(self) -> str:
        """Return why no segments can be cut from this cache or put into it, "" if they can."""
        if self.batch_size > 1 or any(self.padding):
            return "the cache holds a batch"
        reasons = (_refusal(layer) for layer in self.backend.layers)
        return next((reason for reason in reasons if reason), "")

    def cut(self, start: int, stop: int) -> KVSegment:
        """Return a copy of what is held of ``[start, stop)``.

        Raises:
            BackendError: The kind of cache has no such segments; see ``refusal``.
        """
        self._check_segments()
        assert 0 <= start < stop <= self.length, f"[{start}, {stop}) of {self.length}"
        layers: Any = self.backend.layers
        return KVSegment(
            tuple(layer.keys[..., start:stop, :].clone() for layer in layers),
            tuple(layer.values[..., start:stop, :].clone() for layer in layers),
            self._num_exact is None or stop <= self._num_exact,
        )

    def extend(self, segments: Sequence[Segment]) -> None:
        """Put ``segments`` behind what is held, as if their tokens had been read here.

        Behind one that is not exact nothing is.

        Raises:
            BackendError: The kind of cache takes no segments; see ``refusal``.
        """
        own = [segment for segment in segments if isinstance(segment, KVSegment)]
        assert len(own) == len(segments), "a segment of another backend"
        if not own:
            return
        self._check_segments()
        length = self.length
        for segment in own:
            if self._num_exact is None and not segment.is_exact:
                self._num_exact = length
            length += segment.num_tokens
        for index in range(len(own[0].keys)):
            keys = torch.cat([segment.keys[index] for segment in own], dim=-2)
            values = torch.cat([segment.values[index] for segment in own], dim=-2)
            self.backend.update(keys, values, index)
        self._check_segments()  # they may have filled a window

    def replace(self, segment: KVSegment, num_exact: int) -> None:
        """Hold ``segment``, which was blended, in place of everything; copies nothing.

        Args:
            segment: All positions from the first on; its memory is taken over.
            num_exact: How many of its first positions are those held now.
        """
        self._check_segments()
        layers: Any = self.backend.layers
        for layer, keys, values in zip(layers, segment.keys, segment.values, strict=True):
            if not layer.is_initialized:
                layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys, values
        if self._num_exact is None:
            self._num_exact = num_exact
        self.is_blended = True

    def _check_segments(self) -> None:
        if reason := self.refusal:
            raise BackendError(
                f"No part of this KV cache can be kept: {reason}.",
                remedy="Read the whole prompt instead.",
            )

    def mask(self, num_new: int, device: torch.device) -> Tensor | None:
        """Return the attention mask (B, S + num_new), None where no row is padded."""
        if not any(self.padding):
            return None
        columns = torch.arange(self.length + num_new, device=device)
        ends = self.num_shared + torch.tensor(self.padding, device=device)[:, None]
        return (columns < self.num_shared) | (columns >= ends)

    def positions(self, num_new: int, device: torch.device) -> Tensor:
        """Return the position ids (B, num_new) of the next tokens; padding gets 0.

        A row that has finished at the end of the context goes on in its batch, unread.
        """
        columns = torch.arange(self.length, self.length + num_new, device=device)
        shifted: Tensor = columns - torch.tensor(self.padding, device=device)[:, None]
        last = None if self._max_position is None else self._max_position - 1
        return shifted.clamp(min=0, max=last)


def _refusal(layer: object) -> str:
    """Return why a layer's past cannot be cut by position, "" if it can."""
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    kind = type(layer)
    if kind is DynamicLayer:
        return ""
    if isinstance(layer, DynamicSlidingWindowLayer):
        # Up to here nothing has slid out of the window yet.
        if layer.cumulative_length < layer.sliding_window:
            return ""
        return f"a sliding-window layer is past its window of {layer.sliding_window} tokens"
    if "LinearAttention" in kind.__name__:
        return "a linear-attention layer keeps one state for all positions"
    if "Quantized" in kind.__name__:
        return "the cache is quantised, which blends neighbouring positions"
    return f"layers of kind {kind.__name__} are not known"
