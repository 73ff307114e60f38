"""Weights in int8: each within half a step, short and long steps alike, nothing else changed."""

import copy
import weakref
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from readahead.errors import BackendError
from readahead.lm import quantize
from readahead.lm.model import TransformersModel, pick_dtype
from readahead.lm.prefixtree import PrefixTree
from readahead.lm.prompt import Part, joined
from readahead.lm.quantize import Int8Linear, is_quantized, quantize_, quantized
from readahead.lm.reuse import PrefixReader
from tests.conftest import make_llama, make_tokenizer

IDS = torch.tensor([list(b"The tide turns twice a day, and the ferry with it.")])
ROUNDING = 0.02
"""How far bfloat16 alone may move a product, relative to its length."""


def random_linear(num_in: int, num_out: int, *, bias: bool = True, seed: int = 0) -> nn.Linear:
    linear = nn.Linear(num_in, num_out, bias=bias)
    generator = torch.Generator().manual_seed(seed)
    for parameter in linear.parameters():
        nn.init.normal_(parameter, generator=generator)
    return linear


def gap(got: torch.Tensor, expected: torch.Tensor) -> float:
    got, expected = got.detach().float(), expected.detach().float()
    return float((got - expected).norm() / expected.norm())


def int8_llama(llama: PreTrainedModel) -> TransformersModel:
    backend = copy.deepcopy(llama).bfloat16()
    quantize_(backend)
    return TransformersModel(backend, make_tokenizer(), prefill_step_tokens=16)


@given(
    num_out=st.integers(1, 9),
    num_in=st.integers(1, 40),
    spread=st.sampled_from([1e-6, 0.02, 1.0, 3e4]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    seed=st.integers(0, 2**16),
)
def test_every_weight_is_within_half_a_step(
    num_out: int, num_in: int, spread: float, dtype: torch.dtype, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    weight = (spread * torch.randn(num_out, num_in, generator=generator)).to(dtype)
    codes, scale = quantized(weight)
    assert (codes.dtype, codes.shape, scale.shape) == (torch.int8, weight.shape, (num_out,))
    error = (weight.double() - scale.double()[:, None] * codes.double()).abs()
    assert (error <= scale.double()[:, None] / 2 * (1 + 1e-6)).all()
    assert (codes.abs().amax(dim=1) >= 126).all()  # all of int8 is used, or steps are too large


def test_rows_have_scales_of_their_own() -> None:
    weight = torch.tensor([[0.0, 0.0], [1e-3, -1e-3], [254.0, 2.0]])
    codes, scale = quantized(weight)
    assert codes.tolist() == [[0, 0], [127, -127], [127, 1]]
    assert scale[2] == 2
    assert (scale > 0).all()


def test_blocks_of_rows_are_one_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    linear = random_linear(24, 70)
    whole = Int8Linear.of(linear)
    inputs = torch.randn(3, 24, generator=torch.Generator().manual_seed(1)).bfloat16()
    expected = whole(inputs)
    monkeypatch.setattr(quantize, "_BLOCK_ROWS", 32)
    pieces = Int8Linear.of(linear)
    assert torch.equal(pieces.codes, whole.codes)
    assert torch.equal(pieces.scale, whole.scale)
    assert gap(pieces(inputs), expected) < ROUNDING


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("num_in", [32, 40, 96, 7])
@pytest.mark.parametrize("num_tokens", [1, 5, quantize.MAX_FUSED_TOKENS + 1])
def test_a_product_is_that_of_the_quantised_weights(
    num_tokens: int, num_in: int, bias: bool
) -> None:
    linear = random_linear(num_in, 33, bias=bias)
    layer = Int8Linear.of(linear)
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randn(2, num_tokens, num_in, generator=generator).bfloat16()
    weight = layer.scale.float()[:, None] * layer.codes.float()
    added = 0 if linear.bias is None else linear.bias
    expected = inputs.float() @ weight.T + added
    got = layer(inputs)
    assert (got.shape, got.dtype) == ((2, num_tokens, 33), torch.bfloat16)
    assert gap(got, expected) < ROUNDING
    assert gap(layer(inputs.transpose(0, 1)), expected.transpose(0, 1)) < ROUNDING


@pytest.mark.parametrize(
    ("num_tokens", "expected"),
    [(1, 1), (quantize.MAX_FUSED_TOKENS, 1), (quantize.MAX_FUSED_TOKENS + 1, 0)],
)
def test_short_steps_use_the_codes_as_they_are(
    num_tokens: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused = []
    original = Int8Linear._fused

    def noted(layer: Int8Linear, rows: torch.Tensor) -> torch.Tensor:
        fused.append(layer)
        return original(layer, rows)

    monkeypatch.setattr(Int8Linear, "_fused", noted)
    Int8Linear.of(random_linear(64, 8))(torch.zeros(num_tokens, 64, dtype=torch.bfloat16))
    assert len(fused) == expected


def test_a_model_stays_close_and_keeps_all_but_its_linear_layers(llama: LlamaForCausalLM) -> None:
    whole = TransformersModel(llama, make_tokenizer())
    model = int8_llama(llama)
    expected = whole.forward(IDS, whole.new_cache(), num_logits=IDS.shape[1])
    got = model.forward(IDS, model.new_cache(), num_logits=IDS.shape[1])
    assert gap(got, expected) < 0.05
    kinds = {type(part) for part in model.backend.modules()}
    assert nn.Linear not in kinds
    assert nn.Embedding in kinds
    for layer in model.backend.modules():
        if isinstance(layer, Int8Linear):
            layer.scale.data *= 1.1
    wrong = model.forward(IDS, model.new_cache(), num_logits=IDS.shape[1])
    assert gap(wrong, expected) > 0.05


def test_prefill_in_one_step_and_token_by_token_agree(llama: LlamaForCausalLM) -> None:
    model = int8_llama(llama)
    ids = IDS.repeat(1, 4)
    assert ids.shape[1] > quantize.MAX_FUSED_TOKENS
    at_once = model.forward(ids, model.new_cache(), num_logits=ids.shape[1])
    cache = model.new_cache()
    steps = [model.forward(ids[:, i : i + 1], cache) for i in range(ids.shape[1])]
    assert gap(torch.cat(steps, dim=1), at_once) < 0.05


def test_reading_on_top_of_the_tree_is_a_cold_reading(llama: LlamaForCausalLM) -> None:
    model = int8_llama(llama)
    parts = [Part(tuple(text.encode())) for text in ("system. ", "passage one. ", "Why is it?")]
    reader = PrefixReader(model, PrefixTree(10**9))
    reader.read(parts[:2])
    warm = reader.read(parts[:2])
    assert warm.num_reused_tokens > 0
    question = torch.tensor([parts[2].token_ids])
    got = model.forward(question, warm.cache, num_logits=question.shape[1])
    everything = torch.tensor([joined(parts)])
    expected = model.forward(everything, model.new_cache(), num_logits=question.shape[1])
    assert gap(got, expected) < 0.05
    segment = model.new_cache()
    model.forward(question, segment)
    assert segment.cut(0, segment.length).keys[0].dtype == model.dtype == torch.bfloat16


def make_qwen(*, tied: bool) -> Qwen2ForCausalLM:
    config = Qwen2Config(
        vocab_size=259,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=tied,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model: Qwen2ForCausalLM = Qwen2ForCausalLM(config)
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.3)
    model.eval()
    return model


@pytest.mark.parametrize("tied", [True, False])
def test_a_folder_loads_in_int8(tmp_path: Path, tied: bool) -> None:
    make_qwen(tied=tied).save_pretrained(tmp_path)
    make_tokenizer().save_pretrained(tmp_path)
    whole = TransformersModel.load(tmp_path, device="cpu", dtype="float32")
    model = TransformersModel.load(tmp_path, device="cpu", dtype="int8")
    ids = IDS[:, :12]
    expected = whole.forward(ids, whole.new_cache(), num_logits=12)
    assert gap(model.forward(ids, model.new_cache(), num_logits=12), expected) < 0.05
    embedding = model.backend.get_input_embeddings().weight
    assert embedding.dtype == model.dtype == torch.bfloat16
    assert isinstance(model.backend.lm_head, Int8Linear)
    assert isinstance(model.backend.model.layers[0].self_attn.q_proj.bias, nn.Parameter)


def test_the_fingerprint_tells_int8_from_bfloat16_and_from_other_codes(tmp_path: Path) -> None:
    make_qwen(tied=False).save_pretrained(tmp_path)
    make_tokenizer().save_pretrained(tmp_path)
    model = TransformersModel.load(tmp_path, device="cpu", dtype="int8")
    before = model.fingerprint
    assert before != TransformersModel.load(tmp_path, device="cpu", dtype="bfloat16").fingerprint
    layer = model.backend.model.layers[0].mlp.up_proj
    with torch.no_grad():
        layer.codes.neg_()
    assert model.fingerprint != before


def test_int8_is_a_dtype_of_weights() -> None:
    assert pick_dtype("int8", torch.device("cpu")) == torch.int8
    assert not is_quantized(make_llama())


def test_a_model_without_linear_layers_is_one_clear_line(tmp_path: Path) -> None:
    config = GPT2Config(vocab_size=259, n_embd=32, n_layer=1, n_head=2, n_positions=64)
    GPT2LMHeadModel(config).save_pretrained(tmp_path)
    make_tokenizer().save_pretrained(tmp_path)
    assert TransformersModel.load(tmp_path, device="cpu").dtype == torch.float32
    with pytest.raises(BackendError, match="cannot be quantised to int8: only 0 of") as caught:
        TransformersModel.load(tmp_path, device="cpu", dtype="int8")
    assert "\n" not in str(caught.value)
    assert "Pull it again" not in str(caught.value)


def test_weights_that_are_no_numbers_are_one_clear_line() -> None:
    model = make_llama()
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[3, 5] = float("nan")
    with pytest.raises(BackendError, match=r"layers\.1\.mlp\.up_proj: .* not finite") as caught:
        quantize_(model)
    assert "\n" not in str(caught.value)


def test_codes_are_not_quantised_again() -> None:
    with pytest.raises(ValueError, match="quantised already"):
        quantized(torch.ones(2, 2, dtype=torch.int8))


def test_one_layer_at_a_time_is_held_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    replaced: list[weakref.ref[torch.Tensor]] = []
    original = Int8Linear.of

    def noted(linear: nn.Linear) -> Int8Linear:
        assert all(weight() is None for weight in replaced)
        replaced.append(weakref.ref(linear.weight))
        return original(linear)

    monkeypatch.setattr(Int8Linear, "of", noted)
    quantize_(make_llama())
    assert len(replaced) == 2 * 7 + 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_multiplies_by_converted_codes() -> None:
    layer = Int8Linear.of(random_linear(64, 33))
    inputs = torch.randn(5, 64, generator=torch.Generator().manual_seed(4)).bfloat16()
    expected = layer(inputs)
    assert gap(layer.to("cuda")(inputs.to("cuda")).cpu(), expected) < ROUNDING


def test_a_model_takes_little_more_than_a_byte_for_a_weight() -> None:
    model = make_qwen(tied=False).bfloat16()
    num_weights = sum(p.numel() for p in model.parameters())
    num_embedded = model.model.embed_tokens.weight.numel()
    quantize_(model)
    num_bytes = sum(p.nbytes for p in model.parameters())
    assert num_bytes - 2 * num_embedded < 1.15 * (num_weights - num_embedded)
