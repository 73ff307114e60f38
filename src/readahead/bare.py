"""The target by itself goes on with a prompt: nothing is retrieved, nothing is kept."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch

from readahead.lm import generate
from readahead.lm.base import Cache, Cancelled, never
from readahead.lm.batch import TokenIds, check_room, prefill
from readahead.lm.echo import Echo, echo
from readahead.lm.generate import Piece
from readahead.lm.sample import SamplingParams
from readahead.loading import Loaded
from readahead.trace import Trace

METHOD = "bare"


@contextmanager
def bare_trace(
    loaded: Loaded, kind: str, num_prompt_tokens: int, saw: Callable[[Trace], None]
) -> Iterator[Trace]:
    """Trace one request during the ``with`` body, and tell ``saw`` of it however it ends."""
    trace = Trace(kind, method=METHOD, target=loaded.target.name)
    trace.count("prompt_tokens", num_prompt_tokens)
    try:
        yield trace
        trace.attributes["e2e_s"] = trace.now_s()
    finally:
        # Who stops reading the stream has cancelled the request.
        trace.attributes.setdefault("finish_reason", "cancelled")
        saw(trace)


def stream_bare(
    loaded: Loaded,
    prompt_ids: TokenIds,
    params: SamplingParams,
    cancelled: Cancelled = never,
    *,
    cache: Cache | None = None,
    trace: Trace | None = None,
) -> Generator[Piece]:
    """Yield what the target writes behind ``prompt_ids``, its steps between those of others.

    Args:
        loaded: Has the target, and the thread that runs it.
        prompt_ids: The whole prompt.
        params: How tokens are chosen.
        cancelled: Asked before every model step.
        cache: Holds the beginning of the prompt already, see ``generate.stream``.
        trace: Gets what that gives, ``completion_tokens``, ``ttft_s`` and ``finish_reason``.

    Raises:
        InputError: The prompt is empty.
        ContextOverflow: The prompt leaves no room for an answer.
    """
    trace, turns = trace or Trace(METHOD), loaded.turns
    pieces = generate.stream(
        loaded.target,
        prompt_ids,
        params,
        cache=cache,
        cancelled=turns.or_interrupted(cancelled),
        trace=trace,
    )
    with turns.answer():
        for piece in turns.steps(pieces, trace=trace):
            trace.count("completion_tokens", len(piece.token_ids))
            if piece.text:
                trace.attributes.setdefault("ttft_s", trace.now_s())
            if piece.finish_reason:
                trace.attributes["finish_reason"] = piece.finish_reason
            yield piece


def stream_choices(
    loaded: Loaded,
    prompt_ids: TokenIds,
    choices: Sequence[SamplingParams],
    cancelled: Cancelled = never,
    *,
    cache: Cache | None = None,
    trace: Trace | None = None,
) -> Iterator[Generator[Piece]]:
    """Yield several answers to one prompt, each to be taken piece by piece before the next.

    *Exact* in float32: each equals the answer of ``stream_bare``. The prompt is read once.

    Args:
        loaded: Has the target, and the thread that runs it.
        prompt_ids: The whole prompt.
        choices: How the tokens of each answer are chosen.
        cancelled: Asked before every model step.
        cache: Holds the beginning of the prompt already; used up.
        trace: Gets what ``stream_bare`` gives, the counters of all answers together.

    Raises:
        InputError: The prompt is empty.
        ContextOverflow: The prompt leaves no room for an answer.
    """
    if cache is None and len(choices) > 1:
        cache = _read(loaded, prompt_ids, cancelled, trace or Trace(METHOD))
    for place, params in enumerate(choices):
        is_last = place == len(choices) - 1
        own = cache if cache is None or is_last else loaded.turns.run(cache.fork)
        yield stream_bare(loaded, prompt_ids, params, cancelled, cache=own, trace=trace)


def echo_bare(
    loaded: Loaded,
    prompt_ids: TokenIds,
    num_top_logprobs: int,
    cancelled: Cancelled = never,
    *,
    trace: Trace | None = None,
) -> Echo | None:
    """Return what the target expected of a prompt, None if it was cancelled; see ``echo``."""
    turns = loaded.turns
    read = partial(
        echo,
        loaded.target,
        prompt_ids,
        num_top_logprobs,
        cancelled=turns.or_interrupted(cancelled),
        trace=trace,
    )
    with turns.answer():
        return turns.run(read, trace=trace)


def _read(loaded: Loaded, prompt_ids: TokenIds, cancelled: Cancelled, trace: Trace) -> Cache:
    """Return a cache of all but the last token of the prompt, of fewer if it was cancelled."""
    check_room(loaded.target, len(prompt_ids))
    turns, cache = loaded.turns, loaded.target.new_cache()
    unread = torch.tensor([list(prompt_ids[:-1])], dtype=torch.long)
    between = turns.or_interrupted(cancelled)

    def read() -> None:
        with trace.span("prefill", num_tokens=unread.shape[1]):
            prefill(loaded.target, unread, cache, cancelled=between)

    if unread.numel():
        with turns.answer():
            turns.run(read, trace=trace)
        trace.count("computed_tokens", cache.length)
    return cache
