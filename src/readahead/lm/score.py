"""How probable given texts are: one forward pass, nothing is written."""

from __future__ import annotations

from collections.abc import Sequence

from readahead.lm.base import Cache, CachedModel
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
    cache: Cache | None = None,
    trace: Trace | None = None,
) -> list[tuple[float, ...]]:
    """Return ln p of every token of each continuation given its prompt, in one padded batch.

    Args:
        model: Whose probabilities.
        prompts: One a continuation; the same prompt may be there many times.
        continuations: What follows each prompt.
        cache: Holds tokens that all prompts begin with, at most all but one of the shortest; it
            is left as it was.
        trace: Gets a ``score`` span and the counter of tokens.

    Raises:
        InputError: A prompt is empty.
        ContextOverflow: A prompt with its continuation is longer than the model's context.
    """
    longest = max((len(ids) for ids in continuations), default=0)
    if longest == 0:
        return [() for _ in continuations]
    whole = [[*ids, *more] for ids, more in zip(prompts, continuations, strict=True)]
    for ids, row in zip(prompts, whole, strict=True):
        check_room(model, len(row) - 1 if ids else 0)
    num_shared = min(num_common(whole), min(map(len, prompts)) - 1)
    trace = trace or Trace("score")
    with trace.span("score", num_rows=len(whole)):
        batch = begin(model, whole, num_shared, cache=cache, trace=trace)
        unread = padded(whole, num_shared if batch.length else 0)[:, batch.length :]
        head, tail = unread[:, : -longest - 1], unread[:, -longest - 1 :]
        if head.shape[1]:
            prefill(model, head, batch)
        # Row i of the tail's logits predicts its token i + 1; the last has nothing to predict.
        logits = model.forward(tail, batch, num_logits=tail.shape[1])[:, :-1]  # (B, longest, V)
    trace.count("computed_tokens", unread.numel())
    logprobs = logprobs_of(logits, tail[:, 1:].to(logits.device))
    return [
        tuple(row[longest - len(ids) :].tolist())
        for row, ids in zip(logprobs, continuations, strict=True)
    ]
