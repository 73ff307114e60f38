"""What a model reads ahead while a question is typed, and how long it takes; simulated.

A step of n tokens takes ``step_s + n / prefill_per_s``, so a small step costs more a token than a
large one. *Approximate*: a line is a good fit to the steps of a small model on two CPU cores. The
defaults are chosen by hand so that the simulation comes to the ratios and the waste that
``bench_prefetch.py`` measured there with SmolLM2-135M in float32 (``benchmarks/results``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from readahead.config import ModelsConfig, PrefetchConfig
from readahead.evaluation.typing import WORDS_PER_S
from readahead.types import Passage

PREFILL_STEP_TOKENS = ModelsConfig().prefill_step_tokens
QUESTION = Passage("", "", 0, 0, id="the question")
"""Stands behind the passages of an order; all of it but the last token, which gives the first of
the answer."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """How a question is typed and read ahead.

    Attributes:
        pause_s: Between the last stroke and Enter.
        step_s: What a step takes beside its tokens.
        guess_s: The time between a new word and the first step: the search, and what is planned.
        system_tokens: Of the prompt before the passages; known, but for the plain prompt.
        question_tokens: Of the prompt behind the passages, all but the last of which are read ahead
            only where the question seems finished.
    """

    config: PrefetchConfig = PrefetchConfig()
    pause_s: float = 0.0
    words_per_s: float = WORDS_PER_S
    prefill_per_s: float = 730.0
    step_s: float = 0.08
    retrieval_s: float = 0.02
    guess_s: float = 0.045
    system_tokens: int = 40
    question_tokens: int = 30

    def reading_s(self, num_tokens: int, step_tokens: int = PREFILL_STEP_TOKENS) -> float:
        """Return how long reading takes."""
        return ceil(num_tokens / step_tokens) * self.step_s + num_tokens / self.prefill_per_s


@dataclass(frozen=True, slots=True)
class Outcome:
    """What reading ahead did to one question.

    Attributes:
        num_tokens: Of the plain prompt.
        num_kept: How many tokens read ahead were of use.
        num_wasted: How many were not.
    """

    ttft_s: float
    plain_s: float
    num_tokens: int
    num_kept: int
    num_wasted: int

    @property
    def ttft_ratio(self) -> float:
        """Return the time to first token in times of the plain one."""
        return self.ttft_s / self.plain_s

    @property
    def wasted(self) -> float:
        """Return what was read in vain, in plain prompts."""
        return self.num_wasted / self.num_tokens

    @property
    def reused(self) -> float:
        """Return the share of the plain prompt that was read ahead."""
        return self.num_kept / self.num_tokens


@dataclass(slots=True)
class Reader:
    """What has been read: of each order of passages, how many tokens of its last one."""

    scheme: Scheme
    lengths: Mapping[str, int]
    clock_s: float = 0.0
    num_read: int = 0
    read: dict[tuple[str, ...], int] = field(default_factory=dict)

    def known(self, passages: Sequence[Passage]) -> tuple[int, int]:
        """Return how many tokens of an order were read, and how many it has."""
        num_known, is_known = 0, True
        for order in _beginnings(passages):
            have = self.read.get(order, 0) if is_known else 0
            num_known += have
            is_known = have == self._length(order[-1])
        return num_known, sum(self._length(passage.id) for passage in passages)

    def go_on(self, passages: Sequence[Passage], until_s: float) -> None:
        """Read passages, until it is time."""
        num_known, num_tokens = self.known(passages)
        while num_known < num_tokens and self.clock_s < until_s:
            step = min(self.scheme.config.step_tokens, num_tokens - num_known)
            self.clock_s += self.scheme.reading_s(step)
            self._add(passages, step)
            num_known += step

    def _add(self, passages: Sequence[Passage], num_tokens: int) -> None:
        """Remember that so many more tokens of an order were read."""
        self.num_read += num_tokens
        for order in _beginnings(passages):
            have = self.read.get(order, 0)
            self.read[order] = min(self._length(order[-1]), have + num_tokens)
            num_tokens -= self.read[order] - have

    def _length(self, id: str) -> int:
        return self.scheme.question_tokens - 1 if id == QUESTION.id else self.lengths[id]


def _beginnings(passages: Sequence[Passage]) -> Iterator[tuple[str, ...]]:
    ids = tuple(passage.id for passage in passages)
    return (ids[:end] for end in range(1, len(ids) + 1))


def with_config(scheme: Scheme, **changes: object) -> Scheme:
    """Return the scheme with other settings."""
    return replace(scheme, config=scheme.config.model_copy(update=changes))
