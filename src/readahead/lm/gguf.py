"""Converts a GGUF file to a Transformers folder with safetensors; knows nothing about downloads.

Loading a GGUF takes minutes because every block is dequantised and the vocabulary parsed in
Python; the converted folder loads in seconds. The conversion changes the container, not the model:
weights that the file holds twice at different precisions stay two, and tied weights stay tied.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from readahead.errors import InputError, missing_extra
from readahead.lm.progress import Progress, task
from readahead.lm.quiet import quiet_transformers

if TYPE_CHECKING:
    from gguf import GGUFReader
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Fields that name tokens after which a text is over. A pad token is never part of a text, and some
# models (Qwen2.5) end with it; llama.cpp writes "eot" and "eom" where turns end with another token.
_END_FIELDS = ("eos_token_id", "eot_token_id", "eom_token_id", "padding_token_id")

_ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a GGUF file says about itself.

    Attributes:
        dtype: In which the converted weights are stored.
        converted_bytes: Of the weights in that type.
        end_token_ids: The end-of-text token first.
    """

    architecture: str
    licence: str
    dtype: str
    converted_bytes: int
    end_token_ids: tuple[int, ...]


def read_header(gguf: Path) -> GgufHeader:
    """Read the header of ``gguf``, and check that its tensors lie within the file.

    Raises:
        InputError: It is not a GGUF file, is damaged, or is one part of several.
        ConfigError: The extra ``gguf`` is not installed.
    """
    try:
        from gguf import GGUFReader
    except ImportError:
        raise missing_extra("gguf", "gguf") from None
    try:
        reader = GGUFReader(gguf)
        header = _header(reader)
        num_parts = _field(reader, "split.count", 1)
    except Exception as error:  # a parser of untrusted bytes can fail in any way
        reason = (str(error) or type(error).__name__).strip().splitlines()[0]
        raise InputError(
            f"{gguf} is not a whole GGUF file: {reason}.", remedy="Download it again."
        ) from None
    if num_parts > 1:
        raise InputError(
            f"{gguf} is one of {num_parts} parts.",
            remedy="Join them first: llama-gguf-split --merge FIRST_PART JOINED.gguf",
        )
    return header


def convert(gguf: Path, header: GgufHeader, folder: Path, progress: Progress) -> None:
    """Write the model in ``gguf`` to ``folder``: config, weights, tokenizer and chat template.

    The folder of ``gguf`` must hold nothing else, or Transformers would read that, too.

    Raises:
        InputError: Transformers does not know the architecture, or tensors are missing.
        ConfigError: The extra ``gguf`` is not installed.
    """
    if find_spec("accelerate") is None:  # Transformers would ask for it in words of its own
        raise missing_extra("accelerate", "gguf")
    with (
        task(progress, f"Converting {header.architecture} weights to safetensors"),
        quiet_transformers(),
        _conversion_errors(header.architecture),
    ):
        tokenizer = _load_tokenizer(gguf)
        model = _load_model(gguf, header.dtype)
        _set_ends(model, tokenizer, header.end_token_ids)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def _header(reader: GGUFReader) -> GgufHeader:
    matrices = [tensor for tensor in reader.tensors if len(tensor.shape) > 1]
    dtype = _stored_dtype({tensor.tensor_type.name for tensor in matrices})
    num_weights = sum(int(tensor.n_elements) for tensor in reader.tensors)
    ends = (_field(reader, f"tokenizer.ggml.{field}", None) for field in _END_FIELDS)
    return GgufHeader(
        architecture=str(_field(reader, "general.architecture", "unknown")),
        licence=str(_field(reader, "general.license", "unknown")),
        dtype=dtype,
        converted_bytes=num_weights * _ITEM_BYTES[dtype],
        end_token_ids=tuple(dict.fromkeys(int(end) for end in ends if end is not None)),
    )


def _stored_dtype(types: set[str]) -> str:
    """Return the smallest type that keeps what matrices of these GGUF ``types`` say.

    A quantised weight is a float16 scale times a small integer. float16 keeps eleven bits of it,
    which errs far less than the quantisation did; the eight bits of bfloat16 would not.
    """
    if types <= {"F32"}:
        return "float32"
    if types <= {"F32", "BF16"}:
        return "bfloat16"
    return "float16"


def _field(reader: GGUFReader, key: str, default: Any) -> Any:
    field = reader.get_field(key)
    return default if field is None else field.contents()


def _load_tokenizer(gguf: Path) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
        gguf.parent, gguf_file=gguf.name
    )
    return tokenizer


def _load_model(gguf: Path, dtype: str) -> PreTrainedModel:
    import torch
    from transformers import AutoModelForCausalLM

    loaded: Any = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=dtype, output_loading_info=True
    )
    model: PreTrainedModel = loaded[0]
    report: dict[str, set[str]] = loaded[1]
    if missing := sorted(report["missing_keys"]):
        raise ValueError(f"{len(missing)} tensors are missing, such as {missing[0]}")
    if not all(torch.isfinite(weight).all() for weight in model.parameters()):
        raise ValueError(f"some weights are not finite numbers in {dtype}")
    # Transformers takes a dequantised model for a quantised one still, and refuses to save it.
    model.hf_quantizer = None
    del model.config.quantization_config
    return model


def _set_ends(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, end_token_ids: tuple[int, ...]
) -> None:
    settings = model.generation_config
    assert settings is not None
    settings._from_model_config = False  # or loading would derive the settings again
    if not end_token_ids:
        return
    settings.eos_token_id = list(end_token_ids)
    if tokenizer.pad_token is None:  # batches need one
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(end_token_ids[0])
        settings.pad_token_id = end_token_ids[0]


@contextmanager
def _conversion_errors(architecture: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # Transformers fails in many ways on what it does not know
        if isinstance(error, OSError) and error.errno is not None:
            raise
        if "No space left" in str(error):  # the safetensors writer has an exception of its own
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None
        reason = (str(error) or type(error).__name__).strip().splitlines()[0].rstrip(".")
        raise InputError(
            f"The GGUF file ({architecture}) cannot be converted: {reason}.",
            remedy="Pull the original model by its hub id, or as a folder with safetensors.",
        ) from None
