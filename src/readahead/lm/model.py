"""Forward passes of a causal language model through transformers; knows no decoding."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from readahead.config import Dtype
from readahead.errors import BackendError, ConfigError, InputError, ReadaheadError
from readahead.lm import generate as decoding
from readahead.lm import score as scoring
from readahead.lm.base import Cache, Cancelled, Generation, Scored, never
from readahead.lm.kv import KVCache, num_positions
from readahead.lm.memory import is_out_of_memory
from readahead.lm.prompt import Prompt
from readahead.lm.quantize import ACTIVATIONS, is_quantized, quantize_
from readahead.lm.quiet import first_line, quiet_transformers
from readahead.lm.sample import SamplingParams
from readahead.lm.tokenizer import Tokenizer
from readahead.lm.weights import resolve
from readahead.trace import Trace

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


class TransformersModel:
    """A model and its tokenizer on one device, in one dtype; a ``CachedModel`` and ``TextModel``.

    *Exact* in float32: a prompt read in steps, on top of a cache, or in a padded batch gives the
    logits of one plain pass up to rounding.

    Attributes:
        vocabulary_size: V, the number of logits; some have more than tokens, as padding.
        backend: The transformers model itself, the oracle of tests and benchmarks; nothing above
            ``lm`` may touch it.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str = "",
        prefill_step_tokens: int = 256,
    ) -> None:
        self.name = name
        self.tokenizer = Tokenizer(tokenizer)
        self.prefill_step_tokens = prefill_step_tokens
        self.eos_token_ids = _eos_token_ids(model, tokenizer)
        self.backend = model.eval()
        self._device = torch.device(model.device)
        self._dtype: torch.dtype = model.dtype
        self._config = model.config.get_text_config(decoder=True)
        self._described: str | None = None
        self._fingerprinted: tuple[list[tuple[int, int]] | None, str] = None, ""  # weights, digest
        self.max_context_tokens = _max_context_tokens(self._config)
        self.vocabulary_size = int(self._config.vocab_size)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        device: str = "auto",
        dtype: Dtype = "auto",
        name: str = "",
        prefill_step_tokens: int = 256,
    ) -> TransformersModel:
        """Load a local folder; nothing is downloaded, no code of the folder is run.

        Args:
            folder: Holds config, safetensors and tokenizer, as ``pull`` leaves them.
            device: ``auto`` takes CUDA where there is one.
            dtype: ``auto`` is float32 on a CPU (the exact mode) and bfloat16 elsewhere; ``int8``
                is of the weights alone.
            name: How messages call the model.
            prefill_step_tokens: How many tokens are prefilled between two looks at a cancellation.

        Raises:
            ConfigError: There is no such device.
            BackendError: The folder does not hold a model that transformers can load, or not one
                that can be quantised.
        """
        from transformers import AutoTokenizer

        place = pick_device(device)
        try:
            with quiet_transformers():
                tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
                model = _read_weights(folder, pick_dtype(dtype, place), place)
            loaded = cls(
                model, tokenizer, name=name or str(folder), prefill_step_tokens=prefill_step_tokens
            )
            loaded.tokenizer.frame("")  # a chat template that does not work shows here
        except ReadaheadError:
            raise
        # What is wrong with a folder shows as any kind of exception, deep inside the libraries.
        except Exception as error:
            raise BackendError(
                f"The model in {str(folder)!r} cannot be loaded: {first_line(error)}.",
                remedy="Pull it again, or free memory if that is what is missing.",
            ) from error
        return loaded

    @property
    def device(self) -> torch.device:
        """Return where the weights are."""
        return self._device

    @property
    def dtype(self) -> torch.dtype:
        """Return the precision of activations, keys and values; weights may be in fewer bits."""
        return self._dtype

    @property
    def fingerprint(self) -> str:
        """Identify what keys and values depend on beside the tokens.

        The configuration (rope parameters and attention among it), the precision, the device, and
        which weights stand where and in which state: adapters add some, and what writes into a
        weight raises its version, so keys and values of weights that changed never match again.
        Which of several adapters is active is no part of it: who switches one opens a new engine.
        """
        if self._described is None:
            config = self._config.to_json_string(use_diff=False)
            attention = self._config._attn_implementation  # not part of the JSON
            precision = torch.int8 if is_quantized(self.backend) else self.dtype
            self._described = f"{self.name}|{config}|{attention}|{precision}|{self.device}"
        weights = [(weight.data_ptr(), weight._version) for weight in _weights(self.backend)]
        known, fingerprint = self._fingerprinted
        if weights != known:
            fingerprint = hashlib.sha256(f"{self._described}|{weights}".encode()).hexdigest()
            self._fingerprinted = weights, fingerprint
        return fingerprint

    def new_cache(self, padding: Sequence[int] = (0,)) -> KVCache:
        """Return an empty cache; ``padding[b]`` leading tokens of row b will be ignored."""
        return KVCache(self._config, padding, self.device)

    @torch.no_grad()
    def forward(self, token_ids: Tensor, cache: Cache, *, num_logits: int = 1) -> Tensor:
        """Read ``token_ids`` (B, T), extend ``cache`` by T, return logits (B, num_logits, V).

        Raises:
            BackendError: The device ran out of memory.
        """
        assert isinstance(cache, KVCache)
        num_new = token_ids.shape[1]
        try:
            output = self.backend(
                input_ids=token_ids.to(self.device),
                attention_mask=cache.mask(num_new, self.device),
                position_ids=cache.positions(num_new, self.device),
                cache=cache.backend,
                use_cache=True,
                logits_to_keep=num_logits,
            )
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise BackendError(
                f"{self.device} ran out of memory at {cache.length + num_new} tokens.",
                remedy="Show fewer passages (retrieval.k), or take a smaller model or dtype.",
            ) from error
        logits: Tensor = output.logits.float()
        return logits  # (B, num_logits, V)

    def generate(
        self,
        prompts: Sequence[Prompt],
        params: SamplingParams,
        *,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> list[Generation]:
        """Return one generation per prompt, all decoded in one padded batch."""
        ids = [prompt.token_ids for prompt in prompts]
        return decoding.generate(self, ids, params, cancelled=cancelled, trace=trace)

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
        return scoring.score(
            self, ids, continuations, options=options, cancelled=cancelled, trace=trace
        )


def load_named(
    name: str, device: str, dtype: Dtype, *, prefill_step_tokens: int = 256
) -> TransformersModel:
    """Load a language model that was pulled.

    Raises:
        NotFound: It was not pulled.
        InputError: It is an embedding model.
    """
    found = resolve(name, "target")
    if found.kind != "target":
        raise InputError(
            f"{name!r} is an embedding model and cannot answer.",
            remedy="Choose a language model, for instance qwen2.5-coder-0.5b.",
        )
    return TransformersModel.load(
        found.folder,
        device=device,
        dtype=dtype,
        name=name,
        prefill_step_tokens=prefill_step_tokens,
    )


def pick_device(device: str) -> torch.device:
    """Return the device that ``device`` names; ``auto`` is CUDA where there is one.

    Raises:
        ConfigError: There is no such device here.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(device)
        torch.zeros(1, device=place).item()  # the meta device computes nothing
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ConfigError(
            f"There is no device {device!r}: {first_line(error)}.",
            remedy="Use auto, cpu, or cuda on a machine with a CUDA build of torch.",
        ) from None
    return place


def pick_dtype(dtype: Dtype, device: torch.device) -> torch.dtype:
    """Return the dtype of weights that is named; ``auto`` is float32 on a CPU, else bfloat16."""
    if dtype == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    return {
        "float32": torch.float32,
        "bfloat16": torch.bfloat16,
        "float16": torch.float16,
        "int8": torch.int8,
    }[dtype]


def _read_weights(folder: str | Path, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """Return the model of a folder with its weights in ``dtype``.

    Raises:
        ValueError: Some weights are missing, and transformers would make them up.
        BackendError: They cannot be quantised.
    """
    from transformers import AutoModelForCausalLM

    is_int8 = dtype == torch.int8
    found: Any = AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=ACTIVATIONS if is_int8 else dtype,
        local_files_only=True,
        output_loading_info=True,
    )
    model, loading = found
    if missing := sorted(loading["missing_keys"]):
        raise ValueError(f"the weights lack {len(missing)} tensors, such as {missing[0]}")
    if is_int8:
        quantize_(model)
    loaded: PreTrainedModel = model.to(device)
    return loaded


def _max_context_tokens(config: PretrainedConfig) -> int:
    """Return the number of positions that the model was made for, and reads alike in steps.

    Raises:
        BackendError: The architecture has no such number, and no cache that can be cropped.
    """
    limit = num_positions(config)
    if limit is None:
        raise BackendError(
            f"Models of type {config.model_type!r} are not supported: they name no context length.",
            remedy="Choose a decoder with positions, such as Llama, Qwen, Mistral or GPT-2.",
        )
    return limit


def _eos_token_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Return every token that ends an answer: the model's list joined with the tokenizer's own."""
    generation = getattr(model, "generation_config", None)
    listed = getattr(generation, "eos_token_id", None)
    ids = set(listed if isinstance(listed, list) else [listed]) | {tokenizer.eos_token_id}
    return frozenset(int(token_id) for token_id in ids if token_id is not None)


def _weights(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters of ``model``, in half the time that ``parameters`` takes."""
    found: list[nn.Parameter] = []
    waiting: list[nn.Module] = [model]
    while waiting:
        module = waiting.pop()
        found += [weight for weight in module._parameters.values() if weight is not None]
        waiting += [child for child in module._modules.values() if child is not None]
    return found
