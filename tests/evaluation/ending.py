"""A tiny model whose drafts come to an end, as those of real ones do."""

import torch

from readahead.lm.model import TransformersModel
from tests.conftest import make_llama, make_tokenizer


def ending(seed: int) -> TransformersModel:
    """Return the tiny Llama with an end-of-sequence token that is often the most probable."""
    llama, tokenizer = make_llama(seed), make_tokenizer()
    with torch.no_grad():
        llama.lm_head.weight[tokenizer.eos_token_id] *= 3
    return TransformersModel(llama, tokenizer, name=f"ending {seed}")
