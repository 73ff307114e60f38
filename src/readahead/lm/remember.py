"""Ask one model several things about the same prompt, and read the prompt once; exact."""

from __future__ import annotations

from collections.abc import Sequence

from readahead.lm import generate as decoding
from readahead.lm import score as scoring
from readahead.lm.base import Cache, CachedModel, Cancelled, Generation, Scored, never
from readahead.lm.prompt import Prompt
from readahead.lm.sample import SamplingParams
from readahead.lm.tokenizer import Tokenizer
from readahead.trace import Trace


class Remembering:
    """A text model that keeps the keys and values of the last prompt that it answered alone.

    Args:
        model: What reads and writes.
    """

    def __init__(self, model: CachedModel) -> None:
        self._model = model
        self._prompt_ids: tuple[int, ...] = ()
        self._cache: Cache | None = None

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer of the model's vocabulary."""
        return self._model.tokenizer

    @property
    def max_context_tokens(self) -> int:
        """Return the number of positions that the model can attend to."""
        return self._model.max_context_tokens

    def forget(self) -> None:
        """Give the memory back."""
        self._prompt_ids, self._cache = (), None

    def generate(
        self,
        prompts: Sequence[Prompt],
        params: SamplingParams,
        *,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> list[Generation]:
        """Return one generation per prompt, in order; remember the prompt if there is but one."""
        ids = [prompt.token_ids for prompt in prompts]
        if len(prompts) != 1:
            return decoding.generate(self._model, ids, params, cancelled=cancelled, trace=trace)
        self.forget()
        cache = self._model.new_cache()
        written = decoding.generate(
            self._model, ids, params, cache=cache, cancelled=cancelled, trace=trace
        )
        if cache.can_spread and cache.length >= len(ids[0]):
            cache.crop(len(ids[0]) - 1)  # the last must be read again, to predict what follows
            self._prompt_ids, self._cache = ids[0], cache
        return written

    def score(
        self,
        prompts: Sequence[Prompt],
        continuations: Sequence[Sequence[int]],
        *,
        options: Sequence[int] = (),
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> list[Scored]:
        """Return ln p of every token of each continuation, and of each option behind it."""
        ids = [prompt.token_ids for prompt in prompts]
        is_known = all(row == self._prompt_ids for row in ids)
        return scoring.score(
            self._model,
            ids,
            continuations,
            options=options,
            cache=self._cache if is_known else None,
            cancelled=cancelled,
            trace=trace,
        )
