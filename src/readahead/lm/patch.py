"""A cache of a whole prompt, of which chosen positions are computed anew; knows no tree.

A plain cache grows at its end. In this one every position has its place from the start: a forward
pass over some of them reads all that stands before each, and puts their keys and values in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from transformers.cache_utils import DynamicLayer

from readahead.lm.kv import KVCache, KVSegment
from readahead.lm.watch import TORCH_ATTENTIONS

if TYPE_CHECKING:
    from readahead.lm.model import TransformersModel


class PatchCache(KVCache):
    """Keys and values of the positions ``[0, length)`` of one sequence.

    Args:
        model: What reads on it.
        length: How many positions there will be.
        placed: What is known, each with its first position; the rest is not attended to until it
            is computed.
    """

    def __init__(
        self, model: TransformersModel, length: int, placed: Sequence[tuple[int, KVSegment]]
    ) -> None:
        super().__init__(model.backend.config.get_text_config(decoder=True), device=model.device)
        self._is_held = torch.zeros(length, dtype=torch.bool, device=model.device)
        self._layers: list[_Layer] = []
        for index in range(len(placed[0][1].keys)):
            keys = [(start, segment.keys[index]) for start, segment in placed]
            values = [(start, segment.values[index]) for start, segment in placed]
            self._layers.append(_Layer(_laid_out(keys, length), _laid_out(values, length)))
        backend: Any = self.backend
        backend.layers = self._layers
        for start, segment in placed:
            self._is_held[start : start + segment.num_tokens] = True

    def aim(self, rows: Tensor) -> None:
        """Let the next forward pass compute the positions ``rows``, (T,), in ascending order."""
        self._rows = rows
        self._is_held[rows] = True
        for layer in self._layers:
            layer.rows = rows

    def whole(self) -> KVSegment:
        """Return all that is held; shares the memory."""
        keys = tuple(layer.keys for layer in self._layers)
        return KVSegment(keys, tuple(layer.values for layer in self._layers), is_exact=False)

    def mask(self, num_new: int, device: torch.device) -> Tensor:
        """Return which positions each of ``rows`` attends to, (1, 1, T, length)."""
        columns = torch.arange(len(self._is_held), device=device)
        return ((columns <= self._rows[:, None]) & self._is_held)[None, None]

    def positions(self, num_new: int, device: torch.device) -> Tensor:
        """Return ``rows``, (1, T)."""
        return self._rows[None]


class _Layer(DynamicLayer):
    """One layer, as the model's attention sees it; ``update`` replaces ``rows`` of it."""

    keys: Tensor
    values: Tensor
    rows: Tensor

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys, self.values = keys, values
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Put the new keys and values, (1, H_kv, T, D), in their places; return all."""
        self.keys.index_copy_(-2, self.rows, key_states)
        self.values.index_copy_(-2, self.rows, value_states)
        return self.keys, self.values


class AttentionPaid(TorchFunctionMode):
    """Sums what the tokens of the forward passes within attend to.

    Attributes:
        total: What each position was paid, over layers, heads and tokens, (S,); None if no layer
            calls torch's attention.
    """

    total: Tensor | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Look on as attention is computed."""
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            query, key = args[:2]
            paid = _attention(query, key, kwargs["attn_mask"], kwargs["scale"]).sum(dim=(0, 1, 2))
            self.total = paid if self.total is None else self.total + paid
        return func(*args, **kwargs)


def patch_refusal(model: TransformersModel) -> str:
    """Return why no position can be computed alone, "" if it can."""
    if model.backend.config._attn_implementation not in TORCH_ATTENTIONS:
        return "its attention is not torch's"
    kinds = {type(layer).__name__ for layer in model.new_cache().backend.layers}
    if kinds != {"DynamicLayer"}:
        return f"not all of its layers hold every position ({', '.join(sorted(kinds))})"
    return ""


def _attention(query: Tensor, key: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Return softmax(Q·Kᵀ·scale), (B, H, T, S), in float32."""
    key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    scores = (query.float() * scale) @ key.float().transpose(-1, -2)
    return scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)


def _laid_out(runs: Sequence[tuple[int, Tensor]], length: int) -> Tensor:
    """Return a tensor (1, H_kv, length, D) with each run at its place, and zeros elsewhere."""
    first = runs[0][1]
    whole = first.new_zeros(*first.shape[:-2], length, first.shape[-1])
    for start, run in runs:
        whole[..., start : start + run.shape[-2], :] = run
    return whole
