"""Logits to the distribution that a token is drawn from; pure tensor functions.

All in float32; logits and probabilities are (B, V). The order is repetition penalty, processors,
temperature, top-k, top-p, as in transformers, so that both draw the same token from the same
generator state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from readahead.errors import InputError

MAX_TOP_LOGPROBS = 20  # [OpenAI]
Processor = Callable[[Tensor, Tensor], Tensor]
"""From the tokens so far, (T,), and the logits of the next one, (V,), to other logits (V,)."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are chosen, and when to stop.

    Attributes:
        temperature: 0 takes the most likely token.
        top_k: Keep the k most likely tokens; 0 keeps all.
        top_p: Keep the smallest set of most likely tokens whose probability reaches this.
        repetition_penalty: Divides (or, below zero, multiplies) the logits of tokens seen in the
            prompt or the answer; 1 does nothing.
        frequency_penalty: Taken off the logit of a token each time the answer has it.
        presence_penalty: Taken off the logit of each token that the answer has.
        stop: Strings that end the answer; they are not part of it.
        seed: Row b of a batch draws from a generator seeded with ``seed + b``.
        num_top_logprobs: How many of the most likely tokens are told of beside each that is chosen;
            at most 20.
        ignore_eos: Decode on past the end of the answer, for benchmarks.
        processors: Change the logits before temperature, for instance to keep to a grammar; they
            hold for draft tokens, too.

    Raises:
        InputError: A value is out of its range.
    """

    max_new_tokens: int = 256
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    stop: tuple[str, ...] = ()
    seed: int = 0
    num_top_logprobs: int = 0
    ignore_eos: bool = False
    processors: tuple[Processor, ...] = ()

    @property
    def looks_back(self) -> bool:
        """Return whether the next token's distribution depends on which tokens were there."""
        penalties = self.frequency_penalty, self.presence_penalty
        return self.repetition_penalty != 1.0 or any(penalties) or bool(self.processors)

    def __post_init__(self) -> None:
        usable = isinstance(self.max_new_tokens, int) and self.max_new_tokens >= 1
        _require("max_new_tokens", self.max_new_tokens, usable, "a whole number of at least 1")
        usable = math.isfinite(self.temperature) and self.temperature >= 0
        _require("temperature", self.temperature, usable, "0 or more")
        _require("top_k", self.top_k, self.top_k >= 0, "0 or more")
        _require("top_p", self.top_p, 0 < self.top_p <= 1, "over 0 and at most 1")
        usable = 0.01 <= self.repetition_penalty <= 100
        _require("repetition_penalty", self.repetition_penalty, usable, "between 0.01 and 100")
        for name in ("frequency_penalty", "presence_penalty"):
            value = getattr(self, name)
            _require(name, value, -2 <= value <= 2, "between -2 and 2")
        usable = not isinstance(self.stop, str) and all(self.stop)
        _require("stop", self.stop, usable, "a tuple of strings that are not empty")
        usable = 0 <= self.num_top_logprobs <= MAX_TOP_LOGPROBS
        limit = f"between 0 and {MAX_TOP_LOGPROBS}"
        _require("num_top_logprobs", self.num_top_logprobs, usable, limit)
        _require("seed", self.seed, 0 <= self.seed < 2**63, "between 0 and 2**63 - 1")


def _require(name: str, value: object, holds: bool, limit: str) -> None:
    if not holds:
        raise InputError(f"{name} is {value!r}; it must be {limit}.")


def penalise(logits: Tensor, seen_ids: Sequence[Tensor], penalty: float) -> Tensor:
    """Return logits with the tokens already seen made less likely.

        z′(x) = z(x) / θ  if z(x) > 0,  else z(x) · θ        for x in seen

    logits: (B, V); seen_ids: B tensors of token ids; θ: the penalty.   [Keskar19]
    """
    if penalty == 1.0:
        return logits
    logits = logits.clone()
    for row, ids in zip(logits, seen_ids, strict=True):
        seen = row[ids]
        row[ids] = torch.where(seen > 0, seen / penalty, seen * penalty)
    return logits


def discourage(logits: Tensor, answer_ids: Tensor, frequency: float, presence: float) -> Tensor:
    """Return logits with the tokens that the answer has already made less likely.

        z′(x) = z(x) − α · count(x) − β · [count(x) > 0]

    logits: (V,); answer_ids: (T,); α: the frequency penalty, β: the presence penalty.   [OpenAI]
    """
    ids, counts = answer_ids.unique(return_counts=True)
    logits = logits.clone()
    logits[ids] -= frequency * counts.to(logits.dtype) + presence
    return logits


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    """Return logits with all but the k largest of each row at −∞; ties with the k-th stay."""
    if k == 0 or k >= logits.shape[-1]:
        return logits
    kth = logits.topk(k, dim=-1).values[:, -1:]  # (B, 1)
    return logits.masked_fill(logits < kth, -math.inf)


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """Return logits with the unlikely tail at −∞, the most likely token always kept.

    A token is dropped if it and all less likely ones together have at most 1 − p.   [Holtzman20]
    """
    if p == 1.0:
        return logits
    ascending, order = logits.sort(dim=-1)
    dropped = ascending.softmax(dim=-1).cumsum(dim=-1) <= 1 - p  # (B, V), in sorted order
    dropped[:, -1] = False
    return logits.masked_fill(dropped.scatter(-1, order, dropped), -math.inf)


def distribution(
    logits: Tensor,
    params: SamplingParams,
    seen_ids: Sequence[Tensor],
    num_prompt_tokens: Sequence[int] = (),
) -> Tensor:
    """Return the probabilities (B, V) that the next token is really drawn from.

    With temperature 0 each row is 1 at its first largest logit.

    Args:
        logits: (B, V).
        params: How tokens are chosen.
        seen_ids: Of each row, prompt and answer; may be empty unless ``params.looks_back``.
        num_prompt_tokens: How many of those are the prompt's; may be empty likewise.
    """
    logits = penalise(logits.float(), seen_ids, params.repetition_penalty)
    if params.frequency_penalty or params.presence_penalty:
        rows = zip(logits, seen_ids, num_prompt_tokens, strict=True)
        penalties = params.frequency_penalty, params.presence_penalty
        logits = torch.stack([discourage(row, seen[num:], *penalties) for row, seen, num in rows])
    for process in params.processors:
        pairs = zip(seen_ids, logits, strict=True)
        logits = torch.stack([process(seen, row) for seen, row in pairs]).float()
    if params.temperature == 0:
        best = logits.argmax(dim=-1, keepdim=True)
        return torch.zeros_like(logits).scatter_(-1, best, 1.0)
    # The largest becomes 0, so that no temperature, however low, makes it infinite; the smallest
    # ones would be 0 in float32.
    temperature = max(params.temperature, torch.finfo(logits.dtype).tiny)
    logits = (logits - logits.amax(dim=-1, keepdim=True)) / temperature
    logits = keep_top_k(logits, params.top_k)
    return keep_top_p(logits, params.top_p).softmax(dim=-1)


def draw(probs: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
    """Return one token id per row of ``probs`` (B, V), each row from its own generator: (B,)."""
    rows = [
        torch.multinomial(row, num_samples=1, generator=generator)
        for row, generator in zip(probs, generators, strict=True)
    ]
    return torch.cat(rows)
