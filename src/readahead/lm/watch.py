"""A model whose last step can be looked at: its logits, and what chosen layers attended to.

Looking changes nothing. *Exact*: without a bias the logits are those of the model, to the bit. What
is kept are references to tensors that the step made anyway; whoever wants a figure computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from readahead.lm.base import Cache, CachedModel
from readahead.lm.model import TransformersModel
from readahead.lm.tokenizer import Tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_NAME = "sdpa_watched"  # of the attention function, in the configuration of a watched model
TORCH_ATTENTIONS = ("sdpa", _NAME)  # the watched one calls the other


@dataclass(frozen=True, slots=True)
class Attention:
    """What one layer's attention worked with in the last step, for its last token.

    Attributes:
        query: (B, H, D), its position rotated in.
        keys: (B, H_kv, S, D), positions rotated in.
        values: (B, H_kv, S, D).
        key: (B, H_kv · D), the last token's before its position was rotated in; None where the
            architecture has no projection of its own for keys.
        scale: By which query times key is multiplied.
    """

    query: Tensor
    keys: Tensor
    values: Tensor
    key: Tensor | None
    scale: float

    def weights(self) -> Tensor:
        """Return how the last token's attention was shared out, (B, H, S), float32.

        Head h reads key-value head ⌊h · H_kv / H⌋. Padding is not masked.
        """
        num_rows, num_heads, size = self.query.shape
        query = self.query.float().view(num_rows, self.keys.shape[1], -1, size)
        scores = query @ self.keys.float().transpose(-1, -2) * self.scale  # (B, H_kv, H/H_kv, S)
        return scores.softmax(dim=-1).view(num_rows, num_heads, -1)


@dataclass(slots=True)
class _Watch:
    """What a forward pass leaves behind for the one who asked for it."""

    layers: frozenset[int]
    attention: dict[int, Attention] = field(default_factory=dict)
    keys: dict[int, Tensor] = field(default_factory=dict)


# Each thread has its own, so requests in other threads are neither watched nor disturbed.
_watching: ContextVar[_Watch | None] = ContextVar("watching", default=None)


class WatchedModel:
    """A ``CachedModel`` that remembers its last step.

    Attributes:
        logits: (V,), of the first row; what the model itself said, before any bias.
        attention: By layer, counted from 0; empty if the model's attention cannot be watched.
        bias: By token id, added to the logits that are returned.
    """

    def __init__(self, model: CachedModel, layers: Sequence[int] = ()) -> None:
        self.logits: Tensor | None = None
        self.attention: dict[int, Attention] = {}
        self.bias: dict[int, float] = {}
        self._model = model
        self._layers = frozenset(layers if layers and make_watchable(model) else ())

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the model's tokenizer."""
        return self._model.tokenizer

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """Return the tokens that end an answer."""
        return self._model.eos_token_ids

    @property
    def max_context_tokens(self) -> int:
        """Return the number of positions that the model can attend to."""
        return self._model.max_context_tokens

    @property
    def prefill_step_tokens(self) -> int:
        """Return how many tokens are prefilled between two looks at ``cancelled``."""
        return self._model.prefill_step_tokens

    @property
    def fingerprint(self) -> str:
        """Identify the model; what is watched changes no key and no value."""
        return self._model.fingerprint

    def new_cache(self, padding: Sequence[int] = (0,)) -> Cache:
        """Return an empty cache."""
        return self._model.new_cache(padding)

    def forward(self, token_ids: Tensor, cache: Cache, *, num_logits: int = 1) -> Tensor:
        """Read ``token_ids`` (B, T) and return logits (B, num_logits, V), with the bias on top."""
        watch = _Watch(self._layers)
        before = _watching.set(watch if self._layers else None)
        try:
            logits = self._model.forward(token_ids, cache, num_logits=num_logits)
        finally:
            _watching.reset(before)
        self.logits = logits[0, -1]
        self.attention = watch.attention
        return self._biased(logits) if self.bias else logits

    def _biased(self, logits: Tensor) -> Tensor:
        raised = logits.clone()
        raised[..., list(self.bias)] += torch.tensor([*self.bias.values()], device=logits.device)
        return raised


def num_layers(model: CachedModel) -> int:
    """Return how many layers can be watched, 0 where none can."""
    if not isinstance(model, TransformersModel):
        return 0
    config = model.backend.config.get_text_config(decoder=True)
    return int(getattr(config, "num_hidden_layers", 0))


def make_watchable(model: CachedModel) -> bool:
    """Let the attention of ``model`` be watched from now on; return whether it can be.

    Only PyTorch's own attention (``sdpa``) can be. Call it before requests run in parallel: it
    changes how the model's layers are called, not what they compute.
    """
    return isinstance(model, TransformersModel) and _make_watchable(model.backend)


def _make_watchable(backend: PreTrainedModel) -> bool:
    config: Any = backend.config
    if config._attn_implementation == _NAME:
        return True
    if config._attn_implementation != "sdpa":
        return False
    _register()
    backend.set_attn_implementation(_NAME)
    if config._attn_implementation != _NAME:
        return False
    for module in backend.modules():
        layer, projection = getattr(module, "layer_idx", None), getattr(module, "k_proj", None)
        if layer is not None and projection is not None:
            projection.register_forward_hook(partial(_keep_key, layer))
    return True


def _register() -> None:
    """Make the watched attention known to transformers; registering it again changes nothing."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(_NAME, partial(_attend, sdpa_attention_forward))
    # Without the mask of the same name, padded batches would silently attend to their padding.
    AttentionMaskInterface.register(_NAME, sdpa_mask)


def _attend(
    attend: Callable[..., tuple[Tensor, None]],
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend as transformers does, and keep what a watched layer worked with."""
    watch = _watching.get()
    layer: Any = getattr(module, "layer_idx", None)
    if watch is not None and layer in watch.layers:
        scale = options.get("scaling") or query.shape[-1] ** -0.5
        raw = watch.keys.get(layer)
        watch.attention[layer] = Attention(query[:, :, -1], key, value, raw, scale)
    return attend(module, query, key, value, attention_mask, **options)


def _keep_key(layer: int, module: torch.nn.Module, inputs: object, output: Tensor) -> None:
    watch = _watching.get()
    if watch is not None and layer in watch.layers:
        watch.keys[layer] = output[:, -1]
