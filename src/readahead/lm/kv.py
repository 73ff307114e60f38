"""The KV cache of a batch, with its left padding; the one place that touches backend caches."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from readahead.errors import BackendError

if TYPE_CHECKING:
    from transformers import DynamicCache, PretrainedConfig


class KVCache:
    """Keys and values of all layers, (B, H_kv, S, D) each, and how many leading rows are padding.

    Positions ``[0, padding[b])`` of row b are never attended to; its first real token has
    position 0, so a padded row computes what it would compute alone.
    """

    def __init__(self, config: PretrainedConfig, padding: Sequence[int] = (0,)) -> None:
        from transformers import DynamicCache

        self.padding = tuple(padding)
        self._max_position = getattr(config, "max_position_embeddings", None)
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

    def fork(self) -> Self:
        """Return an independent copy."""
        twin = copy.copy(self)
        # Deep, because layers differ in what they hold beside keys and values.
        twin.backend = copy.deepcopy(self.backend)
        return twin

    def crop(self, length: int) -> None:
        """Keep the first ``length`` positions.

        Raises:
            BackendError: A sliding-window layer has already dropped what is to be kept.
        """
        surplus = self.length - length
        assert surplus >= 0, f"cannot crop {self.length} positions to {length}"
        if surplus == 0:
            return
        try:
            self.backend.crop(-surplus)
        except RuntimeError as error:
            raise BackendError(
                f"The cache cannot go back to {length} positions: {error}",
                remedy="Models with sliding-window attention cannot roll back past their window.",
            ) from error

    def mask(self, num_new: int, device: torch.device) -> Tensor | None:
        """Return the attention mask (B, S + num_new), None where no row is padded."""
        if not any(self.padding):
            return None
        columns = torch.arange(self.length + num_new, device=device)
        return columns >= torch.tensor(self.padding, device=device)[:, None]

    def positions(self, num_new: int, device: torch.device) -> Tensor:
        """Return the position ids (B, num_new) of the next tokens; padding gets 0.

        A row that has finished at the end of the context goes on in its batch, unread.
        """
        columns = torch.arange(self.length, self.length + num_new, device=device)
        shifted: Tensor = columns - torch.tensor(self.padding, device=device)[:, None]
        last = None if self._max_position is None else self._max_position - 1
        return shifted.clamp(min=0, max=last)
