"""Speculative decoding inside transformers' own ``generate``, as its ``custom_generate``.

``generate`` prepares processors, stopping criteria, configuration and cache; the loop of ``decode``
writes the tokens. *Exact* with the rule ``exact``: in float32 greedy tokens are those of plain
``generate``, and drawn ones have its law.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any, Protocol

import torch
from torch import Tensor

from readahead.errors import ConfigError, InputError, VocabularyMismatch
from readahead.lm.base import Cache
from readahead.lm.handover import Handed, adopt_cache, check_request
from readahead.lm.model import TransformersModel
from readahead.lm.sample import SamplingParams
from readahead.lm.tokenizer import Tokenizer
from readahead.speculation.tokens.acceptance import Rule
from readahead.speculation.tokens.base import Drafter, Pacer
from readahead.speculation.tokens.decode import EXACT, stream
from readahead.speculation.tokens.drafters import (
    DrafterKind,
    ModelDrafter,
    check_vocabularies,
    make_drafter,
)
from readahead.speculation.tokens.governor import FixedPacer, Governor
from readahead.speculation.tokens.lookup import LookupDrafter, Sources, no_distribution
from readahead.speculation.tokens.tally import Tally

Text = str | Sequence[int] | Tensor
"""Plain text, in which nothing becomes a control token, or token ids, (T,)."""


class Streamer(Protocol):
    """A streamer of transformers: gets the prompt, then the answer, then its end."""

    def put(self, value: Tensor) -> None:
        """Take token ids, the prompt's (1, T) or a run of the answer's (n,)."""
        ...

    def end(self) -> None:
        """Take notice that nothing follows."""
        ...


class RapidDecoder:
    """Decodes for ``model.generate(**inputs, custom_generate=decoder)``; one call at a time.

    ``generate`` forwards neither streamer nor tokenizer nor assistant_model to a callable, so these
    are given here. It may be used for any number of calls: what drafting costs and brings is
    remembered. Of what it is given, it changes the cache, which afterwards holds what plain
    ``generate`` leaves there, and puts the models into evaluation mode. An answer ends where the
    model's context is full.

    Args:
        tokenizer: The target's, of transformers.
        drafter: ``lookup`` copies; else a model of transformers with the target's tokens, the
            target itself among them, or a ``TransformersModel``, whose tokenizer is compared.
        context: What a drafting model reads in place of the prompt; None: the prompt. As ids it
            may hold the control tokens of a chat template.
        sources: Texts to copy from before prompt and answer, best first. With a drafting model,
            None: nothing is copied; else both draft, and whichever is expected to save more.
        rule: How draft tokens are accepted.
        num_draft_tokens: γ; None: as many as measured costs make worth it.
        streamer: Gets every accepted run, and its end whatever happens. One of transformers' own
            that was given to ``generate``, too, gets the prompt once.
        seed: Of drawn tokens; None: taken from torch's own generator, as ``generate`` does, so that
            ``torch.manual_seed`` decides. The same tokens are drawn again only where γ is set: by
            measured costs, which tokens are drafted differs from call to call, though not the law.

    Attributes:
        tally: What came of the last call.

    Raises:
        ConfigError: There is no such drafter, or the rule needs the distributions of one.
        InputError: γ is below 1, ``context`` is empty, or ids are not one sequence.
    """

    def __init__(
        self,
        tokenizer: Any,
        drafter: Any = "lookup",
        *,
        context: Text | None = None,
        sources: Sequence[Text] | None = None,
        rule: Rule = EXACT,
        num_draft_tokens: int | None = None,
        streamer: Streamer | None = None,
        seed: int | None = None,
    ) -> None:
        copies = isinstance(drafter, str)
        if copies and drafter != "lookup":
            raise ConfigError(
                f"There is no drafter {drafter!r}.", remedy="Use 'lookup', or give a model."
            )
        if not rule.is_exact and (copies or sources is not None):
            raise no_distribution()
        if num_draft_tokens is not None and num_draft_tokens < 1:
            raise InputError(f"num_draft_tokens is {num_draft_tokens}; it must be 1 or more.")
        own = Tokenizer(tokenizer)
        self._tokenizer = tokenizer
        self._given_drafter = None if copies else drafter
        self._context = None if context is None else _ids(own, context)
        if self._context == []:
            raise InputError("context is empty.", remedy="Leave it out, or give some text.")
        self._copies = copies or sources is not None
        self._sources = Sources(
            [_ids(own, text) for text in (sources if sources is not None else ())]
        )
        self._rule = rule
        self._pacer: Pacer = FixedPacer(num_draft_tokens) if num_draft_tokens else Governor()
        self._streamer = streamer
        self._seed = seed
        self._pair: tuple[_Target, TransformersModel | None] | None = None
        self.tally = Tally()

    def __call__(
        self,
        model: Any,
        input_ids: Tensor,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        **inputs: Any,
    ) -> Any:
        """Return prompt and answer, (1, T), or the ModelOutput that the configuration asks for.

        Args:
            model: The target, of transformers.
            input_ids: The prompt, (1, T).
            logits_processor: Temperature, top-k and top-p among them; each must go by its
                arguments alone.
            stopping_criteria: Asked after each accepted token; nothing behind a stop is returned.
            generation_config: As prepared.
            inputs: Mask, positions, and a cache, under its new or its old name.

        Raises:
            InputError: Several sequences, beams, padding, or whatever else is not served.
            VocabularyMismatch: The drafter has other tokens than the target.
            ContextOverflow: The prompt leaves no room for an answer.
        """
        self.tally = Tally()
        try:
            check_request(model, input_ids, generation_config, inputs)
            if self._streamer is not None and not _has_begun(self._streamer):
                self._streamer.put(input_ids.cpu())
            handed = Handed(input_ids, logits_processor, stopping_criteria, generation_config)
            given = inputs.get("cache", inputs.get("past_key_values"))
            self._write(handed, model, given)
        finally:
            if self._streamer is not None:
                self._streamer.end()
        return handed.output(given)

    def _write(self, handed: Handed, model: Any, given: Any) -> None:
        target, drafter = self._models(model)
        prompt_ids = handed.ids[0].tolist()
        cache = adopt_cache(target, given, len(prompt_ids))
        pieces = stream(
            target,
            prompt_ids,
            self._params(handed, target.max_context_tokens),
            self._drafter(target, drafter),
            rule=self._rule,
            pacer=self._pacer,
            cache=cache,
            tally=self.tally,
        )
        try:
            with closing(pieces):
                for piece in pieces:
                    run = handed.write(piece.token_ids, target.last_logits)
                    if self._streamer is not None:
                        self._streamer.put(run.cpu())
                    if handed.is_done:
                        break
                num_tokens = handed.ids.shape[1]
                cache.crop(min(cache.length, num_tokens - 1))
        finally:  # only now, as closing crops
            cache.forget_past()
        self.tally.num_new_tokens = num_tokens - len(prompt_ids)

    def _params(self, handed: Handed, max_context_tokens: int) -> SamplingParams:
        """Return the parameters under which the prepared processors and criteria decide all."""
        max_tokens = handed.criteria.max_length or max_context_tokens
        seed = self._seed or 0
        if handed.is_drawn and self._seed is None:
            seed = int(torch.randint(2**63 - 1, ()))
        return SamplingParams(
            max_new_tokens=max(1, max_tokens - handed.ids.shape[1]),
            temperature=1.0 if handed.is_drawn else 0.0,
            seed=seed,
            ignore_eos=True,
            processors=handed.processors(),
        )

    def _models(self, model: Any) -> tuple[_Target, TransformersModel | None]:
        """Return target and drafter as the loop takes them; made once for each target."""
        if self._pair is None or self._pair[0].backend is not model:
            target = _Target(model, self._tokenizer)
            self._pair = target, self._checked_drafter(target)
        return self._pair

    def _checked_drafter(self, target: _Target) -> TransformersModel | None:
        given = self._given_drafter
        if given is None:
            return None
        if isinstance(given, TransformersModel):
            check_vocabularies(target, given)
            return given
        drafter = TransformersModel(given, self._tokenizer)
        if drafter.vocabulary_size != target.vocabulary_size:
            raise VocabularyMismatch(
                f"The drafter has {drafter.vocabulary_size} logits, the target "
                f"{target.vocabulary_size}; draft tokens must mean the same to both.",
                remedy="If only their padding differs, give it as TransformersModel(drafter, its "
                "tokenizer); else take a drafter of the target's family, or 'lookup'.",
            )
        return drafter

    def _drafter(self, target: _Target, model: TransformersModel | None) -> Drafter:
        drafting = None
        if model is not None:
            drafting = ModelDrafter(model, self._context, vocabulary_size=target.vocabulary_size)
        kind: DrafterKind = "hybrid" if self._copies else "rag"
        return make_drafter(kind, LookupDrafter(self._sources), drafting)


class _Target(TransformersModel):
    """The target, which keeps what it said last, (γ + 1, V), for scores and logits."""

    last_logits: Tensor

    def forward(self, token_ids: Tensor, cache: Cache, *, num_logits: int = 1) -> Tensor:
        logits = super().forward(token_ids, cache, num_logits=num_logits)
        self.last_logits = logits[0]
        return logits


def _ids(tokenizer: Tokenizer, text: Text) -> list[int]:
    if isinstance(text, str):
        return tokenizer.encode(text)
    ids = torch.as_tensor(text, dtype=torch.long)  # may be a tensor, whose items match no id
    if ids.dim() != 1:
        raise InputError(
            f"Token ids have the shape {tuple(ids.shape)}; they must be one sequence.",
            remedy="Give one row: ids[0].",
        )
    return [int(token_id) for token_id in ids.tolist()]


def _has_begun(streamer: Streamer) -> bool:
    """Return whether ``generate`` has put the prompt, which transformers' streamers show."""
    waits = getattr(streamer, "next_tokens_are_prompt", True)
    return not waits or bool(getattr(streamer, "token_cache", ()))
