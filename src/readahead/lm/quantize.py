"""Weights in int8: linear layers in half the bytes of bfloat16, faster where a step is short.

Weight-only: every row of a linear layer's matrix is stored as whole numbers with one scale, and
activations, keys and values stay bfloat16. *Approximate*: ``benchmarks/bench_quantize.py``
measures how far the next token's distribution moves.

    W[i, j] ≈ ŵ[i, j] = scale[i] · codes[i, j],   |W − ŵ|[i, j] ≤ scale[i] / 2

Activations in int8, too, ruin small models, and there is nothing here to choose them with.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from readahead.errors import BackendError

ACTIVATIONS = torch.bfloat16
"""What everything but the codes is in: torch's int8 product is many times slower in float32."""

MAX_FUSED_TOKENS = 8
"""The longest step that multiplies by the codes as they are; measured on the matrices of Qwen2.5.

The fused product reads half of the bytes, which is what a step of one token waits for, but it takes
four tokens at a time and costs as much for each four. Converting the codes costs the same for any
number of tokens, and the product in bfloat16 behind it little more for each.
"""

_BLOCK_ROWS = 1024  # converted at once: a whole output matrix would take hundreds of MiB
_FUSED_MULTIPLE = 32  # torch's fused product crashes on rows that do not fill its registers
_MIN_SHARE = 0.5  # of the weights outside embeddings, or int8 would hardly be int8


class Int8Linear(nn.Module):
    """A linear layer, y = x Ŵᵀ + b, whose matrix is held in int8 with a scale per row.

    Attributes:
        codes: Whole numbers from -127 to 127, (out, in), int8.
        scale: What a code of 1 stands for, (out,), in the dtype of activations.
        bias: (out,) in the dtype of activations, or None.
    """

    def __init__(self, codes: Tensor, scale: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = codes.shape
        self.codes = nn.Parameter(codes, requires_grad=False)
        self.scale = nn.Parameter(scale, requires_grad=False)
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)

    @classmethod
    def of(cls, linear: nn.Linear) -> Int8Linear:
        """Quantise ``linear``, which stays as it is.

        Raises:
            ValueError: Its weights are not finite floating-point numbers.
        """
        codes, scale = quantized(linear.weight.detach())
        bias = linear.bias
        return cls(codes, scale, None if bias is None else bias.detach().to(ACTIVATIONS))

    def forward(self, inputs: Tensor) -> Tensor:
        """Map ``inputs`` (..., in) to (..., out)."""
        rows = inputs.reshape(-1, self.in_features).contiguous()  # (T, in)
        product = self._fused(rows) if self._can_fuse(rows) else self._converted(rows)
        if self.bias is not None:
            product += self.bias
        return product.view(*inputs.shape[:-1], self.out_features)

    def _can_fuse(self, rows: Tensor) -> bool:
        is_short = rows.shape[0] <= MAX_FUSED_TOKENS
        return is_short and rows.device.type == "cpu" and self.in_features % _FUSED_MULTIPLE == 0

    def _fused(self, rows: Tensor) -> Tensor:
        product: Tensor = torch.ops.aten._weight_int8pack_mm(rows, self.codes, self.scale)
        return product  # (T, out)

    def _converted(self, rows: Tensor) -> Tensor:
        # The scale comes after the sum: a code is exact in bfloat16, a code times a scale is not.
        blocks = self.codes.split(_BLOCK_ROWS)
        product = [functional.linear(rows, block.to(rows.dtype)) for block in blocks]
        return torch.cat(product, dim=-1).mul_(self.scale)  # (T, out)

    def extra_repr(self) -> str:
        """Return what torch prints of a layer."""
        bias = self.bias is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={bias}"


def quantized(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the codes (out, in) and the scale (out,) of ``weight`` (out, in).

    The scale is rounded to the dtype of activations first and the codes are made for that, so its
    rounding costs no precision: ``|weight - scale * codes| <= scale / 2`` for what is stored.

    Raises:
        ValueError: The weights are not finite floating-point numbers.
    """
    if not weight.is_floating_point():
        raise ValueError(f"weights in {weight.dtype} are quantised already")
    pairs = [_quantized_block(block.float()) for block in weight.split(_BLOCK_ROWS)]
    codes, scales = zip(*pairs, strict=True)
    return torch.cat(codes), torch.cat(scales)


def _quantized_block(weight: Tensor) -> tuple[Tensor, Tensor]:
    largest = weight.abs().amax(dim=1)
    if not torch.isfinite(largest).all():
        raise ValueError("some weights are not finite numbers")
    scale = (largest / 127).to(ACTIVATIONS)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))  # a row of zeros
    codes = (weight / scale.float()[:, None]).round().clamp(-127, 127)
    return codes.to(torch.int8), scale


def quantize_(model: nn.Module) -> None:
    """Put an ``Int8Linear`` in the place of every linear layer, one after the other.

    One layer at a time is held twice. Embeddings and norms stay. An output matrix that is tied to
    the embedding is quantised and the embedding is kept, because both are needed in their own form:
    the int8 copy takes one byte more for each of its weights, and a step reads half as much.

    Raises:
        BackendError: The model holds most of its weights elsewhere, or in another form.
    """
    linears = {name: part for name, part in model.named_modules() if type(part) is nn.Linear}
    _check(model, linears)
    for name in list(linears):
        parent, _, child = name.rpartition(".")
        try:
            layer = Int8Linear.of(linears.pop(name))  # popped: the old weights are let go at once
        except ValueError as error:
            raise _refusal(f"{name}: {error}") from None
        setattr(model.get_submodule(parent), child, layer)


def is_quantized(model: nn.Module) -> bool:
    """Return whether some layer of ``model`` is in int8."""
    return any(isinstance(part, Int8Linear) for part in model.modules())


def _check(model: nn.Module, linears: dict[str, nn.Linear]) -> None:
    """Refuse a model most of whose weights are not in linear layers.

    Raises:
        BackendError: It is so.
    """
    embedded = {
        id(p) for m in model.modules() if isinstance(m, nn.Embedding) for p in m.parameters()
    }
    inside = sum(
        linear.weight.numel() for linear in linears.values() if id(linear.weight) not in embedded
    )
    total = sum(p.numel() for p in model.parameters() if id(p) not in embedded)
    if inside < _MIN_SHARE * total:
        raise _refusal(f"only {inside} of {total} weights are in plain linear layers")


def _refusal(reason: str) -> BackendError:
    return BackendError(
        f"The model cannot be quantised to int8: {reason}.",
        remedy="Load it in bfloat16 or float32, or choose a Llama, Qwen or Mistral.",
    )
