"""How probable given texts are: one forward pass, nothing is written."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from readahead.lm.base import CachedModel, Cancelled, Scored, never
from readahead.lm.batch import (
    TokenIds,
    begin,
    check_room,
    logprobs_of,
    num_common,
    padded,
    prefill,
)
from readahead.trace import Trace


def score(
    model: CachedModel,
    prompts: Sequence[TokenIds],
    continuations: Sequence[TokenIds],
    *,
    options: Sequence[int] = (),
    cancelled: Cancelled = never,
    trace: Trace | None = None,
) -> list[Scored]:
    """Return ln p of every token of each continuation given its prompt, in one padded batch.

    Args:
        model: Whose probabilities.
        prompts: One a continuation; the same prompt may be there many times.
        continuations: What follows each prompt.
        options: Tokens that may come behind a continuation.
        cancelled: Asked before each model step; then nothing is returned.
        trace: Gets a ``score`` span and the counter of tokens.

    Raises:
        InputError: A prompt is empty.
        ContextOverflow: A prompt with its continuation is longer than the model's context.
    """
    longest = max((len(ids) for ids in continuations), default=0)
    if not prompts or (longest == 0 and not options):
        return [Scored(()) for _ in continuations]
    whole = [[*ids, *more] for ids, more in zip(prompts, continuations, strict=True)]
    for ids, row in zip(prompts, whole, strict=True):
        check_room(model, max(1, len(row) - 1) if ids else 0)
    num_shared = min(num_common(whole), min(map(len, prompts)) - 1)
    trace = trace or Trace("score")
    with trace.span("score", num_rows=len(whole)):
        batch = begin(model, whole, num_shared, cancelled=cancelled, trace=trace)
        unread = padded(whole, num_shared if batch.length else 0)[:, batch.length :]
        num_held = batch.length
        head, tail = unread[:, : -longest - 1], unread[:, -longest - 1 :]
        if head.shape[1]:
            prefill(model, head, batch, cancelled=cancelled)
        if cancelled():
            trace.count("computed_tokens", len(whole) * (batch.length - num_held))
            return []
        logits = model.forward(tail, batch, num_logits=tail.shape[1])  # (B, longest + 1, V)
    trace.count("computed_tokens", unread.numel())
    # Row i of the tail's logits predicts its token i + 1, and the last row what comes behind.
    logprobs = logprobs_of(logits[:, :-1], tail[:, 1:].to(logits.device))
    behind = logits[:, -1].log_softmax(-1)[:, torch.tensor(options, dtype=torch.long)]
    return [
        Scored(tuple(row[longest - len(ids) :].tolist()), tuple(after.tolist()))
        for row, after, ids in zip(logprobs, behind, continuations, strict=True)
    ]
