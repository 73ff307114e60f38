"""What transformers' ``generate`` hands over to a loop of one's own, and what it gets back.

``generate(custom_generate=…)`` prepares configuration, processors, criteria and cache, and calls.
What a loop over one sequence cannot serve is refused here, never ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from readahead.errors import InputError
from readahead.lm.kv import KVCache
from readahead.lm.model import TransformersModel
from readahead.lm.sample import Processor

if TYPE_CHECKING:
    from transformers import (
        GenerationConfig,
        LogitsProcessorList,
        PreTrainedModel,
        StoppingCriteriaList,
    )

_MODES = ("greedy_search", "sample")
# Arguments that change nothing for one sequence without padding, or are served.
_SERVED = {
    "attention_mask",
    "cache",
    "logits_to_keep",
    "past_key_values",
    "position_ids",
    "use_cache",
}
# These keep state between calls, and draft tokens that are rejected would be part of it.
_STATEFUL = ("guidance_scale", "watermarking_config")
_NOT_KEPT = ("output_attentions", "output_hidden_states")


def check_request(
    model: PreTrainedModel,
    input_ids: Tensor,
    config: GenerationConfig,
    inputs: Mapping[str, Any],
) -> None:
    """Refuse what one loop over one sequence cannot serve as ``generate`` itself would.

    Args:
        model: The target.
        input_ids: The prompt, (B, T).
        config: As prepared by ``generate``; never changed.
        inputs: All further arguments of the model's forward passes.

    Raises:
        InputError: There is something of the kind.
    """
    mode = str(config.get_generation_mode(None).value)
    if mode not in _MODES:
        raise InputError(
            f"The configuration asks for {mode}; here tokens are taken greedily or drawn.",
            remedy="Set num_beams=1 and no options of other decoding strategies.",
        )
    if input_ids.shape[0] != 1:
        raise InputError(
            f"The batch has {input_ids.shape[0]} sequences; tokens are drafted for one at a time.",
            remedy="Call generate once for each, with num_return_sequences=1.",
        )
    if model.training:
        raise InputError(
            "The model is in training mode, where no two passes agree.", remedy="Call model.eval()."
        )
    _check_options(config)
    _check_inputs(input_ids.shape[1], config, inputs)


def _check_options(config: GenerationConfig) -> None:
    for name in _STATEFUL:
        if getattr(config, name, None) not in (None, 1):
            raise InputError(
                f"{name} is set; its processor keeps state, which rejected draft tokens would "
                "spoil.",
                remedy="Leave it out.",
            )
    for name in _NOT_KEPT:
        if config.return_dict_in_generate and getattr(config, name, None):
            raise InputError(
                f"{name} is set; of a pass over draft tokens only scores and logits are kept.",
                remedy="Leave it out, or ask for output_scores or output_logits.",
            )


def _check_inputs(num_tokens: int, config: GenerationConfig, inputs: Mapping[str, Any]) -> None:
    unknown = sorted(name for name in inputs.keys() - _SERVED if inputs[name] is not None)
    if unknown:
        raise InputError(
            f"The model's inputs have {', '.join(unknown)}; only token ids are read here.",
            remedy="Use a model that reads nothing but text.",
        )
    mask, positions = inputs.get("attention_mask"), inputs.get("position_ids")
    is_padded = mask is not None and not bool((mask == 1).all())
    if positions is not None:
        counted = torch.arange(positions.shape[-1], device=positions.device)
        is_padded = is_padded or bool((positions != counted).any())
    if is_padded:
        raise InputError(
            "The prompt is padded or has positions of its own; it is read token by token.",
            remedy="Give input_ids without padding, and no position_ids.",
        )
    if getattr(config, "_mask_length", num_tokens) != num_tokens:
        raise InputError(
            f"The attention mask is not as long as the {num_tokens} tokens of the prompt.",
            remedy="Behind a cache, too, give the whole sequence as input_ids.",
        )


def adopt_cache(target: TransformersModel, given: Any, num_prompt_tokens: int) -> KVCache:
    """Return the cache that ``generate`` prepared or was given, as the target takes it.

    Args:
        target: What will read on top of it.
        given: A DynamicCache, which then holds what is read; or None: a new one.
        num_prompt_tokens: How many tokens the prompt has; the cache may hold the first of them.

    Raises:
        InputError: It is of another kind, or holds the whole prompt.
    """
    cache = target.new_cache()
    if given is None:
        return cache
    if type(given) is not type(cache.backend) or any(given.is_linear):
        raise InputError(
            f"The cache is a {type(given).__name__}, or has layers with one state for all "
            "positions; rejected draft tokens must be taken back.",
            remedy="Give a DynamicCache, or none, and leave cache_implementation out.",
        )
    if given.get_seq_length() >= num_prompt_tokens:
        raise InputError(
            f"The cache holds {given.get_seq_length()} tokens, the prompt {num_prompt_tokens}; the "
            "last one must be read to predict the next.",
            remedy="Give the whole sequence as input_ids, and a cache of less than that.",
        )
    cache.backend = given
    return cache


class Handed:
    """What ``generate`` handed over, and prompt and answer as they grow until a criterion ends it.

    Args:
        input_ids: The prompt, (1, T).
        processors: From the tokens so far, (1, T), and logits, (1, V), to scores, (1, V).
        criteria: From the tokens so far and the scores, where kept, to whether that is the end.
        config: As prepared; never changed.

    Attributes:
        ids: Prompt and answer, (1, T).
        scores: What each token was chosen by, (1, V) each; None where not asked for.
        logits: The same before the processors.
        is_done: Whether a criterion has ended the answer.
        is_drawn: Whether tokens are drawn; else the most likely are taken.
    """

    def __init__(
        self,
        input_ids: Tensor,
        processors: LogitsProcessorList,
        criteria: StoppingCriteriaList,
        config: GenerationConfig,
    ) -> None:
        self.ids = input_ids
        self.criteria = criteria
        self.is_done = False
        self.is_drawn = bool(config.do_sample)
        self._processors = processors
        self._is_told = bool(config.return_dict_in_generate)
        self.scores = _kept(self._is_told and config.output_scores)
        self.logits = _kept(self._is_told and config.output_logits)

    def write(self, token_ids: Sequence[int], logits: Tensor) -> Tensor:
        """Write an accepted run (n,) up to where it ends the answer, and return that much of it.

        Args:
            token_ids: The run.
            logits: The target's before each of its tokens, (≥ n, V).
        """
        num_before = self.ids.shape[1]
        for token_id, row in zip(token_ids, logits, strict=False):
            self._keep(row[None].to(self.ids.device))
            self.ids = torch.cat([self.ids, self.ids.new_tensor([[token_id]])], dim=1)
            if self._ends():
                self.is_done = True
                break
        return self.ids[0, num_before:]

    def _ends(self) -> bool:
        ids: Any = self.ids
        return bool(self.criteria(ids, self.scores).all())

    def _keep(self, row: Tensor) -> None:
        if self.scores is not None:
            self.scores += (self._scored(self.ids, row.clone()),)
        if self.logits is not None:
            self.logits += (row.clone(),)

    def _scored(self, ids: Any, row: Any) -> Tensor:
        scores: Tensor = self._processors(ids, row)
        return scores

    def processors(self) -> tuple[Processor, ...]:
        """Return all processors as one, for one row; on their device, as a drafter has its own."""
        device = self.ids.device

        def process(seen: Tensor, logits: Tensor) -> Tensor:
            row = logits[None].to(device, copy=True)  # some processors write into it
            return self._scored(seen[None].to(device), row)[0].to(logits.device)

        return (process,) if self._processors else ()

    def output(self, cache: Any) -> Any:
        """Return prompt and answer, (1, T), or the ModelOutput that was asked for."""
        from transformers.generation.utils import GenerateDecoderOnlyOutput

        if not self._is_told:
            return self.ids
        sequences: Any = self.ids
        scores: Any = self.scores
        logits: Any = self.logits
        return GenerateDecoderOnlyOutput(
            sequences=sequences, scores=scores, logits=logits, cache=cache
        )


def _kept(is_asked: bool | None) -> tuple[Tensor, ...] | None:
    return () if is_asked else None
