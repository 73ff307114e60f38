"""The decode loop: prefill, choose, feed back; the plain path that speculation is compared with.

Works on any ``CachedModel``; one loop serves a stream and a padded batch. What all prompts of a
batch begin with is read once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from readahead.lm.base import Cache, CachedModel, Cancelled, Generation, never
from readahead.lm.batch import (
    Alternatives,
    TokenIds,
    begin,
    check_room,
    logprobs_of,
    num_common,
    padded,
    prefill,
    top_logprobs_of,
)
from readahead.lm.sample import SamplingParams, distribution, draw
from readahead.lm.textstream import TextStream
from readahead.trace import Trace
from readahead.types import FinishReason


@dataclass(frozen=True, slots=True)
class Piece:
    """What one step added to an answer; its text may be empty while a character is incomplete.

    The last piece has a ``finish_reason``; the others have None.

    Attributes:
        logprobs: ln p of each token under the model's own distribution, before temperature,
            top-k, top-p or penalties.
        top: The most likely tokens at the place of each token, by the same distribution; empty
            where ``num_top_logprobs`` is 0.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    finish_reason: FinishReason | None = None
    top: tuple[Alternatives, ...] = ()


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
    rows = [Row(model, prompt_ids, params)]
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
    """Return one generation per prompt, decoded in one padded batch.

    *Exact* in float32: each equals the generation of a batch of one whose seed is ``seed + row``.

    Args:
        model: The target.
        prompts: The whole prompts.
        params: How tokens are chosen.
        cancelled: Asked before every model step.
        trace: Gets a ``prefill`` and a ``decode`` span and the counters of tokens.

    Raises:
        InputError: A prompt is empty.
        ContextOverflow: A prompt leaves no room for an answer.
    """
    if not prompts:
        return []
    rows = [Row(model, ids, params, index) for index, ids in enumerate(prompts)]
    trace = trace or Trace("generate")
    num_shared = min(num_common(prompts), min(map(len, prompts)) - 1)
    cache = begin(model, prompts, num_shared, cancelled=cancelled, trace=trace)
    collected: list[list[Piece]] = [[] for _ in rows]
    for pieces in _decode(model, rows, cache, params, cancelled, trace):
        for into, piece in zip(collected, pieces, strict=True):
            if piece is not None:
                into.append(piece)
    return [_joined(pieces, len(ids)) for pieces, ids in zip(collected, prompts, strict=True)]


class Row:
    """One sequence while it is decoded: its tokens, its text, and whether it has ended.

    Attributes:
        new_ids: What was written, without the end-of-sequence token.
    """

    def __init__(
        self, model: CachedModel, prompt_ids: TokenIds, params: SamplingParams, index: int = 0
    ) -> None:
        room = check_room(model, len(prompt_ids))
        self.prompt_ids = prompt_ids
        self.finished = False
        self.generator = torch.Generator().manual_seed(params.seed + index)
        self._eos = frozenset() if params.ignore_eos else model.eos_token_ids
        self._max_new_tokens = min(params.max_new_tokens, room)
        self._text = TextStream(model.tokenizer, params.stop)
        self.new_ids: list[int] = []

    @property
    def num_left(self) -> int:
        """Return how many tokens may still be written."""
        return self._max_new_tokens - len(self.new_ids)

    def seen_ids(self) -> Tensor:
        """Return the prompt and what was written, (T,)."""
        return torch.tensor([*self.prompt_ids, *self.new_ids])

    def push(self, token_id: int, logprob: float, top: tuple[Alternatives, ...] = ()) -> Piece:
        """Write a token, and return what it adds to the answer; ``top`` is the piece's."""
        if token_id in self._eos:
            self.finished = True
            return Piece(self._text.finish(), finish_reason="stop")
        self.new_ids.append(token_id)
        text = self._text.push(token_id)
        reason: FinishReason | None = None
        if self._text.stopped:
            reason = "stop"
        elif len(self.new_ids) == self._max_new_tokens:
            text, reason = text + self._text.finish(), "length"
        self.finished = reason is not None
        return Piece(text, (token_id,), (logprob,), reason, top)

    def cancel(self) -> Piece:
        """End the answer here."""
        self.finished = True
        return Piece(self._text.finish(), finish_reason="cancelled")


def _decode(
    model: CachedModel,
    rows: list[Row],
    cache: Cache,
    params: SamplingParams,
    cancelled: Cancelled,
    trace: Trace,
) -> Iterator[list[Piece | None]]:
    """Yield what each row got in each step, None for rows that have finished."""
    prompts = [row.prompt_ids for row in rows]
    num_cached = cache.length
    unread = padded(prompts, num_cached)[:, num_cached:]  # (B, T)
    with trace.span("prefill", num_tokens=unread.shape[1], num_cached_tokens=num_cached):
        logits = prefill(model, unread, cache, cancelled=cancelled)
    trace.count("computed_tokens", len(rows) * (cache.length - num_cached))
    while logits is not None and not cancelled():
        token_ids = _choose(logits, rows, params)  # (B,)
        logprobs = logprobs_of(logits, token_ids)
        tops = tops_of(logits, params.num_top_logprobs)
        yield [
            None if row.finished else row.push(int(token_id), float(logprob), top)
            for row, token_id, logprob, top in zip(rows, token_ids, logprobs, tops, strict=True)
        ]
        if all(row.finished for row in rows):
            return
        with trace.step("decode"):
            logits = model.forward(token_ids[:, None], cache)[:, -1]
        trace.count("computed_tokens", len(rows))
    yield [None if row.finished else row.cancel() for row in rows]


def tops_of(logits: Tensor, num: int) -> list[tuple[Alternatives, ...]]:
    """Return the ``top`` of a piece for each row of ``logits`` (N, V); empty where ``num`` is 0."""
    if not num:
        return [()] * len(logits)
    return [(alternatives,) for alternatives in top_logprobs_of(logits, num)]


def _choose(logits: Tensor, rows: Sequence[Row], params: SamplingParams) -> Tensor:
    """Return the next token id of each row, (B,), on the device of the logits."""
    seen = [row.seen_ids().to(logits.device) for row in rows] if params.looks_back else []
    probs = distribution(logits, params, seen, [len(row.prompt_ids) for row in rows])
    if params.temperature == 0:
        return probs.argmax(dim=-1)
    # Drawn on the CPU, so that a seed means the same tokens on every device.
    return draw(probs.cpu(), [row.generator for row in rows]).to(logits.device)


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
