"""What a decode step tells about the state of the model; knows nothing of questions or passages.

Each is the computable form of a signal that the method's source proposes; ``docs/signals.md`` has
both formulas side by side, and what each is worth.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from torch.nn import functional

from readahead.lm.watch import WatchedModel

WINDOW = 8  # tokens over which slope and key change look back


@dataclass(frozen=True, slots=True)
class TokenSignals:
    """The signals of one token; NaN where the model or the position has none.

    Attributes:
        entropy: Of the distribution that the token was drawn from, in nats.
        top_probability: Of the most likely token.
        entropy_slope: Nats a token, over the last ``WINDOW`` tokens.
        attention_entropy: In [0, 1]; 1 attends to all positions alike.
        value_sparsity: In [0, 1]; 1 has a single active value.
        key_change: Relative to the key's own length.
    """

    entropy: float
    top_probability: float
    entropy_slope: float
    attention_entropy: float
    value_sparsity: float
    key_change: float

    def to_json(self) -> dict[str, float | None]:
        """Return the signals by name; None stands for NaN."""
        return {name: None if math.isnan(v) else v for name, v in asdict(self).items()}


class SignalReader:
    """Reads the signals of each step of one answer, in order."""

    def __init__(self, model: WatchedModel, layer: int | None = None) -> None:
        self._model = model
        self._layer = layer
        self._entropies: deque[float] = deque(maxlen=WINDOW)
        self._keys: deque[Tensor] = deque(maxlen=WINDOW)

    @torch.no_grad()
    def read(self) -> TokenSignals:
        """Return the signals of the model's last step, which the next token is drawn from.

        Raises:
            ValueError: The model has made no step yet.
        """
        if self._model.logits is None:
            raise ValueError("The model has read nothing yet.")
        entropy, top_probability = uncertainty(self._model.logits)
        self._entropies.append(entropy)
        attended, sparsity, change = self._read_attention()
        return TokenSignals(
            entropy, top_probability, slope(self._entropies), attended, sparsity, change
        )

    def _read_attention(self) -> tuple[float, float, float]:
        attention = None if self._layer is None else self._model.attention.get(self._layer)
        if attention is None:
            return math.nan, math.nan, math.nan
        change = math.nan
        if attention.key is not None:
            change = key_change(attention.key[0], list(self._keys))
            self._keys.append(attention.key[0])
        sparsity = hoyer_sparsity(attention.values[0, :, -1].flatten())
        return attention_entropy(attention.weights()[0]), sparsity, change


def uncertainty(logits: Tensor) -> tuple[float, float]:
    """Return entropy and top probability of the next token.

        H = ln Z − Σ_x p(x) z(x),   p(x) = exp(z(x)) / Z,   top = max_x p(x)

    logits: (V,).
    """
    logits = logits.float() - logits.max()  # the largest is 0, so p of the most likely is 1 / Z
    weights = logits.exp()
    total = weights.sum()
    # exp(−∞) · −∞ is not a number; what cannot come adds nothing.
    entropy = total.log() - (weights * logits.clamp_min(-1e4)).sum() / total
    values: list[float] = torch.stack((entropy, 1 / total)).tolist()
    return max(0.0, values[0]), values[1]


def slope(values: Sequence[float]) -> float:
    """Return the slope of the least-squares line through ``values``, 0 for fewer than two.

    b = Σ_i (i − ī)(y_i − ȳ) / Σ_i (i − ī)²
    """
    n = len(values)
    if n < 2:
        return 0.0
    middle, mean = (n - 1) / 2, sum(values) / n
    covariance = sum((i - middle) * (y - mean) for i, y in enumerate(values))
    return covariance / sum((i - middle) ** 2 for i in range(n))


def attention_entropy(weights: Tensor) -> float:
    """Return how evenly the last token attends to the positions behind the first.

        a = mean_h  −Σ_t p_ht ln p_ht / ln n,   p_ht = w_ht / Σ_s w_hs,   t, s ∈ [1, n]

    weights: (H, n + 1), rows sum to 1. Position 0 is the sink: it takes what a head has no use
    for. Fewer than two positions behind it give 0.
    """
    behind = weights[:, 1:].float()
    n = behind.shape[-1]
    if n < 2:
        return 0.0
    share = behind / behind.sum(dim=-1, keepdim=True).clamp_min(1e-12)
    return float(torch.special.entr(share).sum(dim=-1).mean()) / math.log(n)


def hoyer_sparsity(values: Tensor) -> float:
    """Return how much of ``values`` (n,) is in few of them.

        s = (√n − ‖v‖₁ / ‖v‖₂) / (√n − 1)  ∈ [0, 1]

    0: all alike; 1: a single one is not 0. A vector of zeros gives 0, as does n = 1.   [Hoyer04]
    """
    values = values.float()
    root, length = math.sqrt(values.numel()), float(values.norm())
    if length == 0 or root <= 1:
        return 0.0
    sparsity = (root - float(values.abs().sum()) / length) / (root - 1)
    return min(1.0, max(0.0, sparsity))


def key_change(key: Tensor, before: Sequence[Tensor]) -> float:
    """Return how far the new token's key is from the mean of those before it.

        c = ‖k_t − mean(k_{t−w} … k_{t−1})‖ / ‖k_t‖

    Keys are (H_kv · D,), without their positions: rotated keys differ even where nothing changes.
    NaN without any before.
    """
    if not before:
        return math.nan
    mean = torch.stack(list(before)).float().mean(dim=0)
    return float((key.float() - mean).norm() / key.float().norm().clamp_min(1e-12))


def source_key_entropy(keys: Tensor) -> float:
    """Return the "attention entropy" of the method's source, in nats; for comparison only.

        mean_h −Σ_g s_hg ln s_hg,   s_h = softmax_g(cos(k̄_h, k̄_g)),   k̄_h = mean_t k_ht

    keys: (H_kv, S, D). Cosines differ by at most 2, so a row is never far from ln H_kv: the number
    of heads decides which side of the source's 1.2 it is on.
    """
    pooled = functional.normalize(keys.float().mean(dim=1), dim=-1)  # (H_kv, D)
    share = (pooled @ pooled.T).softmax(dim=-1)
    return float(torch.special.entr(share).sum(dim=-1).mean())


def source_head_ratio(values: Tensor) -> float:
    """Return the "value sparsity" of the method's source; for comparison only.

        ‖a‖₁ / ‖a‖₂,   a_h = Σ_td |v_htd|

    values: (H_kv, S, D). It lies in [1, √H_kv], always over the source's 0.85, and is the larger
    the less sparse.
    """
    activity = values.float().abs().sum(dim=(1, 2))  # (H_kv,)
    return float(activity.sum() / activity.norm().clamp_min(1e-12))


def source_key_shift(keys: Tensor, before: Tensor) -> float:
    """Return the "key stability" of the method's source; for comparison only.

        ‖K_t − K_{t−1}‖_F  over the positions that both have

    keys, before: (H_kv, S, D). As the source writes it the shapes never match; over the common
    positions it is 0, for a cache only grows.
    """
    common = min(keys.shape[1], before.shape[1])
    return float((keys[:, :common].float() - before[:, :common].float()).norm())
