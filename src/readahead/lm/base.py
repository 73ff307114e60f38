"""The two protocols that speculation speaks; knows no backend.

``TextModel`` turns prompts into texts and scores given texts, so a remote server can be one.
``CachedModel`` turns token ids and a cache into logits, so prefixes can be kept and taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from readahead.lm.prompt import Prompt
from readahead.lm.sample import SamplingParams
from readahead.lm.tokenizer import Tokenizer
from readahead.trace import Trace
from readahead.types import FinishReason

Cancelled = Callable[[], bool]
"""Asked between model steps; True ends the work at once."""


def never() -> bool:
    """Return False: the request is not cancelled."""
    return False


@dataclass(frozen=True, slots=True)
class Generation:
    """What a model wrote for one prompt.

    Attributes:
        text: Without the stop string or end-of-sequence token that ended it.
        token_ids: Without the end-of-sequence token.
        logprobs: ln p(token) under the model's own distribution, before temperature, top-k,
            top-p or penalties; one per token.
    """

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason
    num_prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Scored:
    """How probable a given continuation is.

    Attributes:
        logprobs: ln p of each of its tokens.
        options: ln p of each option as the token behind it.
    """

    logprobs: tuple[float, ...]
    options: tuple[float, ...] = ()


class TextModel(Protocol):
    """Writes continuations and scores given ones.

    Attributes of a trace are those of the backend: its counter ``computed_tokens`` grows by the
    tokens that went through the model.
    """

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer of the model's vocabulary."""
        ...

    @property
    def max_context_tokens(self) -> int:
        """Return the number of positions that the model can attend to."""
        ...

    def generate(
        self,
        prompts: Sequence[Prompt],
        params: SamplingParams,
        *,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> list[Generation]:
        """Return one generation per prompt, in order."""
        ...

    def score(
        self,
        prompts: Sequence[Prompt],
        continuations: Sequence[Sequence[int]],
        *,
        options: Sequence[int] = (),
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> list[Scored]:
        """Return ln p of every token of each continuation, and of each option behind it.

        Nothing if it was cancelled.
        """
        ...


class Segment(Protocol):
    """What a cache holds of a run of positions; valid only behind the same tokens."""

    @property
    def num_tokens(self) -> int:
        """Return how many positions it holds."""
        ...

    @property
    def num_bytes(self) -> int:
        """Return the memory that it takes."""
        ...

    @property
    def is_exact(self) -> bool:
        """Return whether it is what the model computes from the tokens alone."""
        ...

    def head(self, num_tokens: int) -> Segment:
        """Return its first ``num_tokens`` positions."""
        ...

    def unpack(self) -> Segment:
        """Return it as caches take it."""
        ...


class Cache(Protocol):
    """The KV cache of a batch: what the model has read so far."""

    @property
    def batch_size(self) -> int:
        """Return B."""
        ...

    @property
    def length(self) -> int:
        """Return S, the number of positions held, padding included."""
        ...

    @property
    def num_bytes(self) -> int:
        """Return the memory that the held keys and values take."""
        ...

    @property
    def free_bytes(self) -> int:
        """Return the memory that can still be taken where it is."""
        ...

    @property
    def is_exact(self) -> bool:
        """Return whether all that is held is what the model computes from the tokens alone."""
        ...

    @property
    def is_blended(self) -> bool:
        """Return whether some of it was computed behind other tokens; then nothing is kept."""
        ...

    def fork(self) -> Cache:
        """Return an independent copy."""
        ...

    @property
    def can_spread(self) -> bool:
        """Return whether ``spread`` can be called."""
        ...

    def spread(self, padding: Sequence[int]) -> Cache:
        """Return a batch of which each row holds what is held, ``padding[b]`` ignored behind it."""
        ...

    def record_past(self) -> None:
        """Keep what slides out of a window until the next ``crop``, which can then take it back."""
        ...

    @property
    def can_go_back(self) -> bool:
        """Return whether ``crop`` can take back what is held; one state for all cannot."""
        ...

    def crop(self, length: int) -> None:
        """Keep the first ``length`` positions.

        Raises:
            BackendError: It cannot go back to them.
        """
        ...

    @property
    def refusal(self) -> str:
        """Return why no segments can be cut from this cache or put into it, "" if they can."""
        ...

    def cut(self, start: int, stop: int) -> Segment:
        """Return a copy of what is held of ``[start, stop)``."""
        ...

    def extend(self, segments: Sequence[Segment]) -> None:
        """Put ``segments`` behind what is held, as if their tokens had been read here."""
        ...


class CachedModel(Protocol):
    """Reads token ids on top of a cache."""

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer of the model's vocabulary."""
        ...

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """Return the tokens that end an answer."""
        ...

    @property
    def max_context_tokens(self) -> int:
        """Return the number of positions that the model can attend to."""
        ...

    @property
    def prefill_step_tokens(self) -> int:
        """Return how many tokens are prefilled between two looks at ``cancelled``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identify all that keys and values depend on beside the tokens: weights, precision, …."""
        ...

    def new_cache(self, padding: Sequence[int] = (0,)) -> Cache:
        """Return an empty cache; ``padding[b]`` leading tokens of row b will be ignored."""
        ...

    def forward(self, token_ids: Tensor, cache: Cache, *, num_logits: int = 1) -> Tensor:
        """Read ``token_ids`` (B, T), extend ``cache`` by T, return the last logits.

        Returns:
            (B, num_logits, V), float32; the last ones, so [:, -1] predicts the next token.

        ``cache`` must come from ``new_cache`` or ``fork`` of this backend.
        """
        ...
