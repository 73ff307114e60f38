"""Reads and converts GGUF files; knows nothing about where they come from, or are kept."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from readahead.errors import BackendError, InputError, missing_extra
from readahead.lm.progress import Progress, task
from readahead.lm.quiet import first_line

if TYPE_CHECKING:
    from gguf import GGUFReader

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
        raise InputError(
            f"{gguf} is not a whole GGUF file: {first_line(error)}.", remedy="Download it again."
        ) from None
    if num_parts > 1:
        raise InputError(
            f"{gguf} is one of {num_parts} parts.",
            remedy="Join them first: llama-gguf-split --merge FIRST_PART JOINED.gguf",
        )
    return header


def convert(gguf: Path, header: GgufHeader, folder: Path, progress: Progress) -> None:
    """Write the model in ``gguf`` to ``folder``: config, weights, tokenizer and chat template.

    The folder of ``gguf`` must hold nothing else, or Transformers would read that, too. The work is
    done by a child process: its memory is free again at once, what the libraries print stays in
    it, and a hostile file can crash nothing else.

    Raises:
        InputError: Transformers does not know the architecture, or tensors are missing.
        BackendError: The child process was killed, most often for memory.
        ConfigError: The extra ``gguf`` is not installed.
    """
    if find_spec("accelerate") is None:  # Transformers would ask for it in words of its own
        raise missing_extra("accelerate", "gguf")
    ends = [str(end) for end in header.end_token_ids]
    command = [str(gguf), str(folder), header.dtype, *ends]
    with task(progress, f"Converting {header.architecture} weights to safetensors"):
        run = subprocess.run(
            [sys.executable, "-P", "-m", "readahead.lm.convert", *command],
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
    if run.returncode:
        raise _conversion_error(run.returncode, run.stdout.strip(), header)


def _conversion_error(status: int, reason: str, header: GgufHeader) -> Exception:
    if "No space left" in reason:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if status < 0 or not reason:
        return BackendError(
            f"The conversion stopped with status {status}.",
            remedy=f"It needs about {2 * header.converted_bytes / 1e9:.1f} GB of free memory.",
        )
    return InputError(
        f"The GGUF file ({header.architecture}) cannot be converted: {reason}.",
        remedy="Pull the original model by its hub id, or as a folder with safetensors.",
    )


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
