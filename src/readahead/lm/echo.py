"""How probable a text is, read in steps that others may go between; leaves what goes on from it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from readahead.lm.base import Cache, CachedModel, Cancelled, never
from readahead.lm.batch import Alternatives, TokenIds, check_room, logprobs_of, top_logprobs_of
from readahead.trace import Trace


@dataclass(frozen=True, slots=True)
class Echo:
    """What the model expected of a text, T tokens long.

    Attributes:
        logprobs: ln p of each token but the first behind those in front of it, T − 1 values.
        top: The most likely tokens in place of each of these; empty where none were asked for.
        cache: Holds the first T − 1 tokens.
    """

    logprobs: tuple[float, ...]
    top: tuple[Alternatives, ...]
    cache: Cache


def echo(
    model: CachedModel,
    token_ids: TokenIds,
    num_top_logprobs: int = 0,
    *,
    cancelled: Cancelled = never,
    trace: Trace | None = None,
) -> Echo | None:
    """Return what ``model`` expected of ``token_ids``, None if it was cancelled.

    *Exact* in float32: ln p as ``score`` gives them. Unlike there, each step is one that a
    cancellation ends, and the logits of one step are all that is held.

    Args:
        model: Whose probabilities.
        token_ids: The text; all but its last token is read.
        num_top_logprobs: How many of the most likely tokens are told of beside each.
        cancelled: Asked before each model step.
        trace: Gets a ``prefill`` span and the counter of tokens.

    Raises:
        InputError: The text is empty.
        ContextOverflow: It is longer than the model's context.
    """
    check_room(model, max(1, len(token_ids) - 1) if token_ids else 0)
    cache = model.new_cache()
    logprobs: list[float] = []
    top: list[Alternatives] = []
    trace = trace or Trace("echo")
    unread = torch.tensor([list(token_ids[:-1])], dtype=torch.long)  # (1, T − 1)
    with trace.span("prefill", num_tokens=unread.shape[1]):
        for step in unread.split(model.prefill_step_tokens, dim=1) if unread.numel() else ():
            if cancelled():
                return None
            logits = model.forward(step, cache, num_logits=step.shape[1])[0]  # (t, V)
            trace.count("computed_tokens", step.shape[1])
            told = token_ids[cache.length - len(logits) + 1 : cache.length + 1]
            logprobs += logprobs_of(logits, torch.tensor(told, device=logits.device)).tolist()
            top += top_logprobs_of(logits, num_top_logprobs) if num_top_logprobs else ()
    return Echo(tuple(logprobs), tuple(top), cache)
