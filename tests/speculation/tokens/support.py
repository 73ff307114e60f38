"""Drafters that are perfect, hopeless or random, and what a plain run writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from readahead.lm.base import Cancelled, never
from readahead.lm.generate import Piece, stream
from readahead.lm.model import TransformersModel
from readahead.lm.sample import SamplingParams
from readahead.speculation.tokens import decode
from readahead.speculation.tokens.acceptance import Rule
from readahead.speculation.tokens.base import Drafter, Kind, Pacer, Proposal
from readahead.speculation.tokens.governor import FixedPacer
from readahead.trace import Trace


@dataclass
class Scripted:
    """Proposes what stands in ``answer``, each token spoilt with probability ``noise``."""

    answer: Sequence[int]
    noise: float = 0.0
    num_tokens: int = 259
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def begin(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> None:
        pass

    def propose(
        self,
        new_ids: Sequence[int],
        pacer: Pacer,
        max_tokens: int,
        *,
        with_soft: bool = False,
        cancelled: Cancelled = never,
    ) -> Proposal:
        ids = [
            int(self.random.integers(self.num_tokens)) if self.random.random() < self.noise else t
            for t in self.answer[len(new_ids) : len(new_ids) + max_tokens]
        ]
        return Proposal(tuple(ids), (None,) * len(ids), (Kind("lookup", 1),) * len(ids))


class ByHand(Trace):
    """A trace whose clock goes on only where it is told to."""

    def __init__(self) -> None:
        self.time_s = 0.0
        super().__init__("test")

    def now_s(self) -> float:
        return self.time_s


def plain(model: TransformersModel, ids: Sequence[int], params: SamplingParams) -> list[Piece]:
    return list(stream(model, ids, params))


def speculated(
    model: TransformersModel,
    ids: Sequence[int],
    params: SamplingParams,
    drafter: Drafter,
    *,
    gamma: int | None = None,
    rule: Rule = decode.EXACT,
    trace: Trace | None = None,
) -> list[Piece]:
    pacer = None if gamma is None else FixedPacer(gamma)
    return list(decode.stream(model, ids, params, drafter, rule=rule, pacer=pacer, trace=trace))


def tokens(pieces: Sequence[Piece]) -> list[int]:
    return [token_id for piece in pieces for token_id in piece.token_ids]


def text(pieces: Sequence[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def prompt(seed: int, num_tokens: int = 24) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (num_tokens,), generator=generator).tolist()


def chi_square(
    counts: Mapping[tuple[int, ...], int], law: Mapping[tuple[int, ...], float]
) -> float:
    """Return χ² over its quantile at 0.9999; cells that expect less than five are put together."""
    num = sum(counts.values())
    big = [cell for cell, probability in law.items() if num * probability >= 5]
    pairs = [(counts.get(cell, 0), num * law[cell]) for cell in big]
    seen, expected = (sum(some) for some in zip(*pairs, strict=True))
    rest = num - seen, max(num - expected, 1e-9)
    pairs += [rest] if rest[1] >= 5 or rest[0] > rest[1] + 5 else []
    assert len(pairs) > 5
    chi2 = float(sum((seen - expected) ** 2 / expected for seen, expected in pairs))
    share = 2 / (9 * (len(pairs) - 1))  # by Wilson and Hilferty
    return chi2 / ((len(pairs) - 1) * float(1 - share + 3.719 * share**0.5) ** 3)
