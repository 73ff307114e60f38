"""The decode loop: prefill, choose, feed back; the plain path that speculation is compared with.

Works on any ``CachedModel``; one loop serves a stream and a left-padded batch.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from readahead.errors import ContextOverflow, InputError
from readahead.lm.base import Cache, CachedModel, Cancelled, Generation, never
from readahead.lm.sample import SamplingParams, distribution, draw
from readahead.lm.textstream import TextStream
from readahead.trace import Trace
from readahead.types import FinishReason

TokenIds = Sequence[int]


@dataclass(frozen=True, slots=True)
class Piece:
    """What one step added to an answer; its text may be empty while a character is incomplete.

    The last piece has a ``finish_reason``; the others have None.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    finish_reason: FinishReason | None = None


def stream(
    model: CachedModel,
    prompt_ids: TokenIds,
    params: SamplingParams,
    *,
    cache: Cache | None = None,
    cancelled: Cancelled = never,
    trace: Trace | None = None,
) -> Generator[Piece]:
    """Yield the answer piece by piece; closing the generator ends the request.

    Args:
        model: The target.
        prompt_ids: The whole prompt.
        params: How tokens are chosen.
        cache: Holds the first ``cache.length`` tokens of the prompt already, at most all but one;
            afterwards holds all that the model has read.
        cancelled: Asked before every model step.
        trace: Gets a ``prefill`` and a ``decode`` span and the counters of tokens.

    Raises:
        InputError: The prompt is empty.
        ContextOverflow: The prompt leaves no room for an answer.
    """
    rows = [_Row(model, prompt_ids, params)]
    cache = model.new_cache() if cache is None else cache
    assert cache.length < len(prompt_ids), "the last token must be read to predict the next"
    for pieces in _decode(model, rows, cache, params, cancelled, trace or Trace("generate")):
        piece = pieces[0]
        assert piece is not None
        yield piece


def generate(
    model: CachedModel,
    prompts: Sequence[TokenIds],
    params: SamplingParams,
    *,
    cancelled: Cancelled = never,
    trace: Trace | None = None,
) -> list[Generation]:
    """Return one generation per prompt, decoded in one left-padded batch.

    *Exact* in float32: each equals the generation of a batch of one whose seed is ``seed + row``.

    Raises:
        InputError: A prompt is empty.
        ContextOverflow: A prompt leaves no room for an answer.
    """
    if not prompts:
        return []
    rows = [_Row(model, ids, params, index) for index, ids in enumerate(prompts)]
    cache = model.new_cache(_padding(prompts))
    collected: list[list[Piece]] = [[] for _ in rows]
    for pieces in _decode(model, rows, cache, params, cancelled, trace or Trace("generate")):
        for into, piece in zip(collected, pieces, strict=True):
            if piece is not None:
                into.append(piece)
    return [_joined(pieces, len(ids)) for pieces, ids in zip(collected, prompts, strict=True)]


def score(
    model: CachedModel,
    prompts: Sequence[TokenIds],
    continuations: Sequence[TokenIds],
) -> list[tuple[float, ...]]:
    """Return ln p of every token of each continuation given its prompt, in one padded batch.

    Raises:
        InputError: A prompt is empty.
        ContextOverflow: A prompt with its continuation is longer than the model's context.
    """
    longest = max((len(ids) for ids in continuations), default=0)
    if longest == 0:
        return [() for _ in continuations]
    whole = [[*ids, *more] for ids, more in zip(prompts, continuations, strict=True)]
    for ids, row in zip(prompts, whole, strict=True):
        _check_room(model, len(row) - 1 if ids else 0)
    padding = _padding(whole)
    token_ids = _left_padded(whole, padding)
    cache = model.new_cache(padding)
    head, tail = token_ids[:, : -longest - 1], token_ids[:, -longest - 1 :]
    if head.shape[1]:
        prefill(model, head, cache)
    # Row i of the tail's logits predicts its token i + 1, so the last row has nothing to predict.
    logits = model.forward(tail, cache, num_logits=tail.shape[1])[:, :-1]  # (B, longest, V)
    logprobs = _logprobs(logits, tail[:, 1:].to(logits.device))
    return [
        tuple(row[longest - len(ids) :].tolist())
        for row, ids in zip(logprobs, continuations, strict=True)
    ]


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


class _Row:
    """One sequence of a batch while it is decoded."""

    def __init__(
        self, model: CachedModel, prompt_ids: TokenIds, params: SamplingParams, index: int = 0
    ) -> None:
        room = _check_room(model, len(prompt_ids))
        self.prompt_ids = prompt_ids
        self.finished = False
        self.generator = torch.Generator().manual_seed(params.seed + index)
        self._eos = frozenset() if params.ignore_eos else model.eos_token_ids
        self._max_new_tokens = min(params.max_new_tokens, room)
        self._text = TextStream(model.tokenizer, params.stop)
        self._new_ids: list[int] = []

    def seen_ids(self) -> Tensor:
        return torch.tensor([*self.prompt_ids, *self._new_ids])

    def push(self, token_id: int, logprob: float) -> Piece:
        if token_id in self._eos:
            self.finished = True
            return Piece(self._text.finish(), finish_reason="stop")
        self._new_ids.append(token_id)
        text = self._text.push(token_id)
        reason: FinishReason | None = None
        if self._text.stopped:
            reason = "stop"
        elif len(self._new_ids) == self._max_new_tokens:
            text, reason = text + self._text.finish(), "length"
        self.finished = reason is not None
        return Piece(text, (token_id,), (logprob,), reason)

    def cancel(self) -> Piece:
        self.finished = True
        return Piece(self._text.finish(), finish_reason="cancelled")


def _decode(
    model: CachedModel,
    rows: list[_Row],
    cache: Cache,
    params: SamplingParams,
    cancelled: Cancelled,
    trace: Trace,
) -> Iterator[list[Piece | None]]:
    """Yield what each row got in each step, None for rows that have finished."""
    prompts = [row.prompt_ids for row in rows]
    num_cached = cache.length
    unread = _left_padded(prompts, _padding(prompts))[:, num_cached:]  # (B, T)
    with trace.span("prefill", num_tokens=unread.shape[1], num_cached_tokens=num_cached):
        logits = prefill(model, unread, cache, cancelled=cancelled)
    trace.count("computed_tokens", len(rows) * (cache.length - num_cached))
    while logits is not None and not cancelled():
        token_ids = _choose(logits, rows, params)  # (B,)
        logprobs = _logprobs(logits, token_ids)
        yield [
            None if row.finished else row.push(int(token_id), float(logprob))
            for row, token_id, logprob in zip(rows, token_ids, logprobs, strict=True)
        ]
        if all(row.finished for row in rows):
            return
        with trace.step("decode"):
            logits = model.forward(token_ids[:, None], cache)[:, -1]
        trace.count("computed_tokens", len(rows))
    yield [None if row.finished else row.cancel() for row in rows]


def _choose(logits: Tensor, rows: Sequence[_Row], params: SamplingParams) -> Tensor:
    """Return the next token id of each row, (B,), on the device of the logits."""
    penalised = params.repetition_penalty != 1.0
    seen = [row.seen_ids().to(logits.device) for row in rows] if penalised else []
    probs = distribution(logits, params, seen)
    if params.temperature == 0:
        return probs.argmax(dim=-1)
    # Drawn on the CPU, so that a seed means the same tokens on every device.
    return draw(probs.cpu(), [row.generator for row in rows]).to(logits.device)


def _logprobs(logits: Tensor, token_ids: Tensor) -> Tensor:
    """Return ln p(token) for ``logits`` (…, V) and ``token_ids`` (…)."""
    chosen = logits.gather(-1, token_ids[..., None])[..., 0]
    return chosen - logits.logsumexp(dim=-1)


def _joined(pieces: Sequence[Piece], num_prompt_tokens: int) -> Generation:
    reason = pieces[-1].finish_reason
    assert reason is not None
    return Generation(
        text="".join(piece.text for piece in pieces),
        token_ids=tuple(token_id for piece in pieces for token_id in piece.token_ids),
        logprobs=tuple(logprob for piece in pieces for logprob in piece.logprobs),
        finish_reason=reason,
        num_prompt_tokens=num_prompt_tokens,
    )


def _check_room(model: CachedModel, num_tokens: int) -> int:
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


def _padding(prompts: Sequence[TokenIds]) -> list[int]:
    longest = max(len(ids) for ids in prompts)
    return [longest - len(ids) for ids in prompts]


def _left_padded(prompts: Sequence[TokenIds], padding: Sequence[int]) -> Tensor:
    """Return (B, T) token ids; what stands at padding is never attended to."""
    return torch.tensor([[0] * pad + list(ids) for pad, ids in zip(padding, prompts, strict=True)])
