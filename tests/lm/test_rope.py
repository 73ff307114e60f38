"""Keys that are moved are those of a reading at the new place; what cannot be moved is refused."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    CohereConfig,
    CohereForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PhiConfig,
    PhiForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    SmolLM3Config,
    SmolLM3ForCausalLM,
)

from readahead.lm.model import TransformersModel
from readahead.lm.rope import inverse_frequencies, rope_refusal, rotated
from tests.conftest import make_llama, make_tokenizer

SMALL: dict[str, Any] = dict(
    vocab_size=259,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=256,
    pad_token_id=None,
    bos_token_id=None,
    eos_token_id=None,
)
SCALED: dict[str, Any] = dict(
    llama3=dict(
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=32,
    ),
    yarn=dict(factor=4.0, original_max_position_embeddings=64),
    linear=dict(factor=2.0),
)


def made(model: PreTrainedModel) -> TransformersModel:
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return TransformersModel(model, make_tokenizer())


def llama(**rope: Any) -> TransformersModel:
    return made(
        LlamaForCausalLM(LlamaConfig(**SMALL, rope_parameters=dict(rope_theta=1e4, **rope)))
    )


MODELS: dict[str, Callable[[], TransformersModel]] = {
    "llama": lambda: TransformersModel(make_llama(), make_tokenizer()),
    "qwen2": lambda: made(Qwen2ForCausalLM(Qwen2Config(**SMALL))),
    "phi, half rotary": lambda: made(PhiForCausalLM(PhiConfig(**SMALL))),
    **{kind: partial(llama, rope_type=kind, **scaling) for kind, scaling in SCALED.items()},
}


@pytest.mark.parametrize("name", MODELS)
def test_moved_keys_are_those_of_the_new_place(name: str) -> None:
    model = MODELS[name]()
    assert rope_refusal(model) == ""
    inv_freq = inverse_frequencies(model)
    text = list(b"a passage. ")

    def first_layer(before: int) -> torch.Tensor:
        """Return keys that depend on nothing but token and position."""
        cache = model.new_cache()
        model.forward(torch.tensor([[7] * before + text]), cache)
        return cache.cut(before, before + len(text)).keys[0]

    got = rotated(first_layer(3), inv_freq, 90 - 3)
    torch.testing.assert_close(got, first_layer(90), atol=1e-4, rtol=0)
    back = rotated(first_layer(90), inv_freq, 3 - 90)
    torch.testing.assert_close(back, first_layer(3), atol=1e-4, rtol=0)


def test_of_partial_rotary_the_rest_stays() -> None:
    model = MODELS["phi, half rotary"]()
    inv_freq = inverse_frequencies(model)
    keys = torch.randn(1, 2, 5, 8, generator=torch.Generator().manual_seed(0))
    num_rotary = 2 * len(inv_freq)
    assert num_rotary == 4
    assert torch.equal(rotated(keys, inv_freq, 9)[..., num_rotary:], keys[..., num_rotary:])


@given(first=st.integers(-500, 500), second=st.integers(-500, 500))
def test_two_moves_are_one(first: int, second: int) -> None:
    inv_freq = torch.tensor([1.0, 0.1, 0.01, 0.001])
    keys = torch.randn(1, 2, 5, 8, generator=torch.Generator().manual_seed(0))
    twice = rotated(rotated(keys, inv_freq, first), inv_freq, second)
    torch.testing.assert_close(twice, rotated(keys, inv_freq, first + second), atol=1e-3, rtol=0)
    torch.testing.assert_close(twice.norm(dim=-1), keys.norm(dim=-1))


def test_bits_stay_as_few_as_they_were() -> None:
    keys = torch.ones(1, 1, 1, 4, dtype=torch.bfloat16)
    assert rotated(keys, torch.tensor([1.0, 0.5]), 3).dtype == torch.bfloat16


NO_ROPE_LAYER: dict[str, Any] = dict(no_rope_layers=[1, 0])
REFUSED: dict[str, tuple[Any, str]] = {
    "learned": (
        lambda: GPT2LMHeadModel(
            GPT2Config(vocab_size=259, n_embd=32, n_layer=2, n_head=4, n_positions=256)
        ),
        "no rotary positions",
    ),
    "dynamic": (
        lambda: llama(rope_type="dynamic", factor=2.0).backend,
        r"\(dynamic\) may depend on the length",
    ),
    "longrope": (
        lambda: (
            llama(
                rope_type="longrope",
                factor=2.0,
                short_factor=[1.0] * 4,
                long_factor=[2.0] * 4,
                original_max_position_embeddings=64,
            ).backend
        ),
        r"\(longrope\) may depend on the length",
    ),
    "several axes": (
        lambda: llama(rope_type="default", mrope_section=[1, 1, 2]).backend,
        "several axes",
    ),
    "by layer": (
        lambda: Gemma3ForCausalLM(Gemma3TextConfig(**SMALL, head_dim=8)),
        "different angles",
    ),
    "pairs side by side": (
        lambda: CohereForCausalLM(CohereConfig(**SMALL)),
        "layer 0 do not move by rotation",
    ),
    "a layer without rotation": (
        lambda: SmolLM3ForCausalLM(SmolLM3Config(**SMALL, **NO_ROPE_LAYER)),
        "layer 1 do not move by rotation",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_moved_is_refused(name: str) -> None:
    make, reason = REFUSED[name]
    with torch.random.fork_rng(devices=[]):
        assert reason.replace("\\", "") in rope_refusal(made(make()))


def test_biases_by_distance_are_refused() -> None:
    config = BloomConfig(vocab_size=259, hidden_size=32, n_layer=2, n_head=4)
    config.max_position_embeddings = 256
    assert rope_refusal(made(BloomForCausalLM(config))) == "it has no rotary positions"


@pytest.mark.real
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_real_model_is_not_refused(smollm: TransformersModel, dtype: torch.dtype) -> None:
    backend = copy.deepcopy(smollm.backend).to(dtype)
    model = TransformersModel(backend, smollm.tokenizer._control)
    assert rope_refusal(model) == ""


def test_short_floats_are_no_reason_to_refuse() -> None:
    model = TransformersModel(make_llama().bfloat16(), make_tokenizer())
    assert rope_refusal(model) == ""
