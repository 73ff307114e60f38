"""Sequences of different lengths in one batch; what all of them begin with is read once.

The layout of a row: the shared beginning, padding, the rest. All rows end together, so the last
column predicts the next token of each.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from readahead.errors import ContextOverflow, InputError
from readahead.lm.base import Cache, CachedModel, Cancelled, never
from readahead.trace import Trace

TokenIds = Sequence[int]
Alternatives = tuple[tuple[int, float], ...]
"""The most likely tokens at one place, each with its ln p, the likeliest first."""
MIN_SHARED_TOKENS = 8  # fewer are read with each row


def prefill(
    model: CachedModel, token_ids: Tensor, cache: Cache, *, cancelled: Cancelled = never
) -> Tensor | None:
    """Read ``token_ids`` (B, T ≥ 1) in steps; return the last logits (B, V), None if cancelled."""
    logits: Tensor | None = None
    for step in token_ids.split(model.prefill_step_tokens, dim=1):
        if cancelled():
            return None
        logits = model.forward(step, cache)[:, -1]
    return logits


def num_common(sequences: Sequence[TokenIds]) -> int:
    """Return how many token ids all sequences begin with."""
    rows = [tuple(ids) for ids in sequences]
    low, high = min(rows), max(rows)  # if these agree, all between them do
    pairs = enumerate(zip(low, high, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(low), len(high)))


def begin(
    model: CachedModel,
    sequences: Sequence[TokenIds],
    num_shared: int,
    *,
    cancelled: Cancelled = never,
    trace: Trace,
) -> Cache:
    """Return a cache for the batch that holds the first ``num_shared`` tokens, or nothing.

    Args:
        model: What reads them.
        sequences: At least one, each longer than ``num_shared``.
        num_shared: How many token ids all of them begin with.
        cancelled: Asked before each model step; then nothing is held.
        trace: Gets a ``prefill`` span and the counter of tokens.
    """
    one, padding = model.new_cache(), padding_of(sequences)
    if len(sequences) == 1 or not one.can_spread or num_shared < MIN_SHARED_TOKENS:
        return model.new_cache(padding)
    shared = torch.tensor([list(sequences[0][:num_shared])])
    with trace.span("prefill", num_tokens=num_shared):
        logits = prefill(model, shared, one, cancelled=cancelled)
    trace.count("computed_tokens", one.length)
    return model.new_cache(padding) if logits is None else one.spread(padding)


def padding_of(sequences: Sequence[TokenIds]) -> list[int]:
    """Return how much shorter than the longest each sequence is."""
    longest = max(len(ids) for ids in sequences)
    return [longest - len(ids) for ids in sequences]


def padded(sequences: Sequence[TokenIds], num_shared: int) -> Tensor:
    """Return (B, T) token ids, padded behind the shared ones; padding is never attended to."""
    s = num_shared
    rows = [
        [*ids[:s], *[0] * padding, *ids[s:]]
        for padding, ids in zip(padding_of(sequences), sequences, strict=True)
    ]
    return torch.tensor(rows)


def check_room(model: CachedModel, num_tokens: int) -> int:
    """Return how many tokens may follow ``num_tokens``."""
    if num_tokens < 1:
        raise InputError("The prompt is empty.", remedy="Give at least one token.")
    room = model.max_context_tokens - num_tokens
    if room < 1:
        raise ContextOverflow(
            f"The prompt has {num_tokens} tokens; the model's context holds "
            f"{model.max_context_tokens}, the answer included.",
            remedy="Shorten it, or take a model with a longer context.",
        )
    return room


def logprobs_of(logits: Tensor, token_ids: Tensor) -> Tensor:
    """Return ln p(token) for ``logits`` (…, V) and ``token_ids`` (…)."""
    chosen = logits.gather(-1, token_ids[..., None])[..., 0]
    return chosen - logits.logsumexp(dim=-1)


def top_logprobs_of(logits: Tensor, num: int) -> list[Alternatives]:
    """Return the ``num`` most likely tokens of each row of ``logits`` (N, V)."""
    found, ids = logits.topk(min(num, logits.shape[-1]), dim=-1)  # (N, num)
    logprobs = found - logits.logsumexp(dim=-1, keepdim=True)
    rows = zip(ids.tolist(), logprobs.tolist(), strict=True)
    return [tuple(zip(some, values, strict=True)) for some, values in rows]
