from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    MistralConfig,
    MistralForCausalLM,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
)

from readahead.errors import BackendError
from readahead.lm.model import TransformersModel
from tests.conftest import make_llama, make_tokenizer

MODEL = TransformersModel(make_llama(), make_tokenizer())
IDS = torch.arange(40).remainder(256)[None]
RECURRENT: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "layer_types": ["linear_attention", "full_attention"],
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "num_experts": 0,
    "max_position_embeddings": 256,
}


def logits_after(*parts: torch.Tensor) -> torch.Tensor:
    cache = MODEL.new_cache()
    for part in parts:
        logits = MODEL.forward(part, cache)
    return logits


@settings(max_examples=30, deadline=None)
@given(keep=st.integers(0, 20))
def test_cropping_equals_never_having_read_the_rest(keep: int) -> None:
    cache = MODEL.new_cache()
    MODEL.forward(IDS[:, :20], cache)
    cache.crop(keep)
    assert cache.length == keep
    got = MODEL.forward(IDS[:, 30:], cache)
    expected = logits_after(*[p for p in (IDS[:, :keep], IDS[:, 30:]) if p.shape[1]])
    torch.testing.assert_close(got, expected)


def test_a_fork_is_independent() -> None:
    cache = MODEL.new_cache()
    MODEL.forward(IDS[:, :10], cache)
    twin = cache.fork()
    MODEL.forward(IDS[:, 30:], twin)
    assert (cache.length, twin.length) == (10, 20)
    got = MODEL.forward(IDS[:, 10:20], cache)
    torch.testing.assert_close(got, logits_after(IDS[:, :10], IDS[:, 10:20]))


def test_an_empty_cache_can_be_forked() -> None:
    twin = MODEL.new_cache().fork()
    torch.testing.assert_close(MODEL.forward(IDS, twin), logits_after(IDS))


def test_bytes_are_those_of_keys_and_values() -> None:
    cache = MODEL.new_cache()
    assert cache.num_bytes == 0
    MODEL.forward(IDS, cache)
    num_layers, num_kv_heads, head_size, float32_bytes = 2, 2, 8, 4
    assert cache.num_bytes == 2 * num_layers * num_kv_heads * 40 * head_size * float32_bytes


def test_padding_is_never_attended_to() -> None:
    """A row padded on the left gives the logits of the row alone, whatever stands there."""
    alone = logits_after(IDS[:, 10:20])
    for filler in (0, 99):
        cache = MODEL.new_cache(padding=(0, 10))
        rows = torch.cat([IDS[:, :20], IDS[:, :20]])
        rows[1, :10] = filler
        MODEL.forward(rows[:, :7], cache)
        together = MODEL.forward(rows[:, 7:], cache)
        torch.testing.assert_close(together[1:], alone)
        torch.testing.assert_close(together[:1], logits_after(IDS[:, :20]))


def test_a_sliding_window_says_why_it_cannot_go_back() -> None:
    config = MistralConfig(
        vocab_size=259,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=8,
    )
    model = TransformersModel(MistralForCausalLM(config), make_tokenizer())
    cache = model.new_cache()
    model.forward(IDS, cache)
    with pytest.raises(BackendError, match="sliding-window"):
        cache.crop(20)


def test_a_segment_owns_just_its_memory() -> None:
    """A view would keep the whole cache alive and its bytes uncounted."""
    cache = MODEL.new_cache()
    MODEL.forward(IDS, cache)
    segment = cache.cut(5, 9)
    assert segment.num_tokens == 4
    for tensor in (*segment.keys, *segment.values):
        assert tensor.untyped_storage().nbytes() == tensor.nbytes
    assert segment.num_bytes * 10 == cache.num_bytes
    assert segment.head(2).num_tokens == 2


def test_a_recurrent_state_cannot_go_back() -> None:
    """transformers crops the rest and leaves that state as it is, which no one would notice."""
    tokenizer = make_tokenizer()
    backend = Qwen3NextForCausalLM(Qwen3NextConfig(**RECURRENT, vocab_size=len(tokenizer)))
    model = TransformersModel(backend, tokenizer)
    cache = model.new_cache()
    model.forward(IDS[:, :10], cache)
    cache.record_past()
    assert not cache.can_go_back
    cache.crop(10)
    with pytest.raises(BackendError, match="one state for all"):
        cache.crop(9)
    assert cache.length == 10
    assert MODEL.new_cache().can_go_back
