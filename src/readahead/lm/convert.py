"""The child process that turns a GGUF file into a Transformers folder; knows nothing else.

    python -m readahead.lm.convert FILE.gguf FOLDER DTYPE [END_TOKEN_ID ...]

Loading a GGUF takes a minute and more, because every block is dequantised and the vocabulary is
parsed in Python; the folder loads in seconds. The conversion changes the container, not the model:
tied weights stay tied, and embeddings that the file holds twice, at two precisions, stay two.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def main(arguments: Sequence[str]) -> int:
    """Convert as the arguments say; print the reason in one line where that fails."""
    gguf, folder, dtype, *end_token_ids = arguments
    try:
        convert(Path(gguf), Path(folder), dtype, [int(end) for end in end_token_ids])
    except Exception as error:  # Transformers fails in many ways on what it does not know
        reason = str(error).strip() or type(error).__name__
        sys.stdout.write(reason.splitlines()[0].rstrip("."))
        return 1
    return 0


def convert(gguf: Path, folder: Path, dtype: str, end_token_ids: list[int]) -> None:
    """Write config, generation settings, weights, tokenizer and chat template to ``folder``.

    Raises:
        ValueError: A tensor is missing, or holds what ``dtype`` cannot hold.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = load(gguf, dtype)
    _set_ends(model, tokenizer, end_token_ids)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def load(gguf: Path, dtype: str) -> PreTrainedModel:
    """Return the dequantised model, in a state that can be saved.

    Raises:
        ValueError: A tensor is missing, or holds what ``dtype`` cannot hold.
    """
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
    del model.hf_quantizer
    del model.config.quantization_config
    return model


def _set_ends(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, end_token_ids: list[int]
) -> None:
    settings = model.generation_config
    assert settings is not None
    settings._from_model_config = False  # or loading would derive the settings again
    if not end_token_ids:
        return
    settings.eos_token_id = end_token_ids
    if tokenizer.pad_token is None:  # batches need one
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(end_token_ids[0])
        settings.pad_token_id = end_token_ids[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
