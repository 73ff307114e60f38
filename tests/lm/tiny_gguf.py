"""Writes the tiny test Llama as a GGUF file, the way llama.cpp's converter would."""

from collections.abc import Callable, Mapping
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf.quants import quantize
from numpy.typing import NDArray
from transformers import LlamaForCausalLM

from tests.conftest import CHAT_TEMPLATE, make_llama, make_tokenizer

CONTROL = int(gguf.TokenType.CONTROL)
NORMAL = int(gguf.TokenType.NORMAL)
Types = gguf.GGMLQuantizationType

TENSORS = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def reference(*, tied: bool = False) -> LlamaForCausalLM:
    """Return the model that ``write_gguf`` writes."""
    model = make_llama()
    if tied:
        model.config.tie_word_embeddings = True
        model.tie_weights()
    return model


def write_gguf(
    path: Path,
    *,
    qtype: gguf.GGMLQuantizationType = Types.F32,
    tied: bool = False,
    architecture: str = "llama",
    change: Callable[[dict[str, NDArray[np.float32]]], None] | None = None,
    fields: Mapping[str, int] | None = None,
) -> Path:
    """Write the reference model; ``change`` may alter its tensors, ``fields`` add token ids."""
    model = reference(tied=tied)
    writer = gguf.GGUFWriter(path, architecture)
    _add_config(writer, model, architecture)
    _add_tokenizer(writer, fields or {})
    tensors = _tensors(model, tied=tied)
    if change:
        change(tensors)
    for name, values in tensors.items():
        kind = qtype if values.ndim > 1 else Types.F32
        writer.add_tensor(name, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_config(writer: gguf.GGUFWriter, model: LlamaForCausalLM, architecture: str) -> None:
    config = model.config
    writer.add_name("tiny")
    writer.add_license("mit")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads or 0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)


def _add_tokenizer(writer: gguf.GGUFWriter, fields: Mapping[str, int]) -> None:
    tokenizer = make_tokenizer()
    tokens = [str(tokenizer.convert_ids_to_tokens(i)) for i in range(len(tokenizer))]
    special = set(tokenizer.all_special_tokens)
    # A GGUF cannot hold an empty list of merges; this one is of bytes that no text holds.
    tokens[tokens.index("ý")] = "ÿþ"
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([CONTROL if token in special else NORMAL for token in tokens])
    writer.add_token_merges(["ÿ þ"])
    writer.add_chat_template(CHAT_TEMPLATE)
    assert tokenizer.eos_token_id is not None
    writer.add_eos_token_id(tokenizer.eos_token_id)
    for name, value in fields.items():
        writer.add_uint32(f"tokenizer.ggml.{name}", value)


def _tensors(model: LlamaForCausalLM, *, tied: bool) -> dict[str, NDArray[np.float32]]:
    tensors = {}
    for name, weight in model.state_dict().items():
        values = weight.to(torch.float32).numpy().copy()
        if "q_proj" in name:
            values = _interleave(values, model.config.num_attention_heads)
        if "k_proj" in name:
            values = _interleave(values, model.config.num_key_value_heads or 0)
        if not (tied and name.startswith("lm_head")):
            tensors[_gguf_name(name)] = values
    return tensors


def _gguf_name(name: str) -> str:
    stem = name.removesuffix(".weight")
    if stem.startswith("model.layers."):
        _, _, layer, part = stem.split(".", 3)
        return f"blk.{layer}.{TENSORS[part]}.weight"
    return f"{TENSORS[stem]}.weight"


def _interleave(values: NDArray[np.float32], num_heads: int) -> NDArray[np.float32]:
    """Reorder the rows of a head as llama.cpp's rotary embedding wants them."""
    rows, columns = values.shape
    halves = values.reshape(num_heads, 2, rows // num_heads // 2, columns)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, columns))
