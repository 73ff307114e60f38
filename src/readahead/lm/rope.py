"""Rotary positions: keys as they would be at another place; knows no tree and no prompt.

A key is rotated by an angle that grows with its position, so a further rotation moves it [Su21].
*Exact* for the key itself, up to rounding; what the token had read before it stays what it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from readahead.lm.kv import KVCache, KVSegment

if TYPE_CHECKING:
    from readahead.lm.model import TransformersModel

_STATIC = frozenset({"default", "linear", "llama3", "yarn"})
# Plain words: control tokens are so large in some models that short floats lose the rest.
_PROBE, _NUM_PROBES, _PROBE_SHIFT = "The keeper of the lamp wrote down what was seen.", 8, 61
# Of what is left of a move once it is rotated back: about nothing, or about all of it.
_TOLERANCE, _TOLERANCE_SHORT = 0.01, 0.2


def rotated(keys: Tensor, inv_freq: Tensor, delta: int) -> Tensor:
    """Return ``keys`` as they are ``delta`` positions further on.

        K′ = K·cos Δθ + rotate_half(K)·sin Δθ,    θ = (inv_freq, inv_freq)

    Args:
        keys: (…, D), rotated for their old positions. Of partial rotary only the first 2·|inv_freq|
            of D turn; a scaling of attention is in them already, and is not applied again.
        inv_freq: The angle by which each pair turns from one position to the next.
        delta: New position less old.
    """
    angle = torch.cat((inv_freq, inv_freq)).float() * delta
    num_rotary = len(angle)
    turned, rest = keys[..., :num_rotary].float(), keys[..., num_rotary:]
    first, second = turned.chunk(2, dim=-1)
    half = torch.cat((-second, first), dim=-1)
    moved = turned * angle.cos() + half * angle.sin()
    return torch.cat((moved.to(keys.dtype), rest), dim=-1)


def moved(segment: KVSegment, inv_freq: Tensor, delta: int) -> KVSegment:
    """Return ``segment`` ``delta`` positions further on; *approximate* behind other tokens."""
    keys = tuple(rotated(key, inv_freq, delta) for key in segment.keys)
    return KVSegment(keys, segment.values, is_exact=False)


def rope_refusal(model: TransformersModel) -> str:
    """Return why the keys of ``model`` cannot be moved, "" if they can.

    What the configuration does not rule out is tried: some tokens are read twice, far apart, and
    the keys of every layer must differ by the rotation alone. That rules out learned positions,
    biases, layers without rotation, and pairs in another layout, whatever they are called.
    """
    return _config_refusal(model.backend.config) or _buffer_refusal(model) or _probed(model)


def inverse_frequencies(model: TransformersModel) -> Tensor:
    """Return by how much each pair turns; asks for a model that ``rope_refusal`` lets pass."""
    return _buffers(model)[0]


def _config_refusal(config: Any) -> str:
    """Return what in the configuration makes a key's angle depend on more than its position."""
    text = config.get_text_config(decoder=True)
    rope = getattr(text, "rope_parameters", None) or {}
    if any(isinstance(value, dict) for value in rope.values()):
        return "its layers rotate by different angles"
    if "mrope_section" in rope:
        return "its positions have several axes (M-RoPE)"
    kind = rope.get("rope_type", "default")
    if kind not in _STATIC:
        return f"its rotation ({kind}) may depend on the length of the prompt"
    return ""


def _buffer_refusal(model: TransformersModel) -> str:
    buffers = _buffers(model)
    if not buffers:
        return "it has no rotary positions"
    if any(not torch.equal(buffer, buffers[0]) for buffer in buffers):
        return "its layers rotate by different angles"
    return ""


def _buffers(model: TransformersModel) -> list[Tensor]:
    named = model.backend.named_buffers()
    return [buffer.float() for name, buffer in named if name.rpartition(".")[2] == "inv_freq"]


def _probed(model: TransformersModel) -> str:
    """Read a few tokens at two places; return how their keys contradict the rotation."""
    near, far = (_read_at(model, start) for start in (0, _PROBE_SHIFT))
    if refusal := near.refusal or far.refusal:
        return refusal
    inv_freq = inverse_frequencies(model)
    pairs = zip(near.cut(0, near.length).keys, far.cut(0, far.length).keys, strict=True)
    tolerance = _TOLERANCE if model.dtype.itemsize >= 4 else _TOLERANCE_SHORT
    for layer, (key, at_far) in enumerate(pairs):
        if 2 * len(inv_freq) > key.shape[-1]:
            return "its angles do not fit its keys"
        gap = (rotated(key, inv_freq, _PROBE_SHIFT).float() - at_far.float()).norm()
        if not gap <= tolerance * (key.float() - at_far.float()).norm():
            return f"the keys of its layer {layer} do not move by rotation"
    return ""


def _read_at(model: TransformersModel, start: int) -> KVCache:
    cache = _Shifted(model.backend.config.get_text_config(decoder=True), device=model.device)
    cache.start = start
    model.forward(torch.tensor([model.tokenizer.encode(_PROBE)[:_NUM_PROBES]]), cache)
    return cache


class _Shifted(KVCache):
    """A cache whose first token is not at position 0."""

    start = 0

    def positions(self, num_new: int, device: torch.device) -> Tensor:
        """Return the positions from ``start`` on."""
        return super().positions(num_new, device) + self.start
