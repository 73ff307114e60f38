from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    LlamaForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
)

from readahead.errors import BackendError, ConfigError, ContextOverflow
from readahead.lm import generate as decoding
from readahead.lm.model import TransformersModel, pick_device, pick_dtype
from readahead.lm.prompt import build_prompt
from readahead.lm.sample import SamplingParams
from tests.conftest import make_llama, make_tokenizer


def make_longrope() -> TransformersModel:
    """Return a model whose keys turn by other factors where a pass goes beyond 64 positions."""
    tokenizer = make_tokenizer()
    config = Phi3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        original_max_position_embeddings=64,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": [1.0] * 4,
            "long_factor": [1.5, 2.0, 3.0, 4.0],
            "original_max_position_embeddings": 64,
        },
    )
    backend = Phi3ForCausalLM(config)
    generator = torch.Generator().manual_seed(0)
    for parameter in backend.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return TransformersModel(backend, tokenizer, prefill_step_tokens=16)


@pytest.fixture
def folder(llama: LlamaForCausalLM, tmp_path: Path) -> Path:
    llama.save_pretrained(tmp_path)
    make_tokenizer().save_pretrained(tmp_path)
    return tmp_path


def test_a_loaded_model_computes_what_the_saved_one_did(
    folder: Path, model: TransformersModel, capfd: pytest.CaptureFixture[str]
) -> None:
    loaded = TransformersModel.load(folder, device="cpu")
    ids = torch.tensor([list(b"The tide")])
    assert loaded.dtype == torch.float32
    assert torch.equal(
        loaded.forward(ids, loaded.new_cache(), num_logits=8),
        model.forward(ids, model.new_cache(), num_logits=8),
    )
    assert loaded.eos_token_ids == model.eos_token_ids == {make_tokenizer().eos_token_id}
    assert loaded.max_context_tokens == 2048
    assert capfd.readouterr() == ("", "")


def test_bfloat16_on_request_gives_float32_logits(folder: Path) -> None:
    loaded = TransformersModel.load(folder, dtype="bfloat16")
    assert loaded.dtype == torch.bfloat16
    assert loaded.forward(torch.tensor([[1, 2]]), loaded.new_cache()).dtype == torch.float32


def test_prompts_are_generated_and_scored(model: TransformersModel) -> None:
    prompts = [
        build_prompt(model.tokenizer, q, [], max_tokens=900) for q in ("Why?", "Where is it?")
    ]
    written = model.generate(prompts, SamplingParams(max_new_tokens=6))
    scores = model.score(prompts, [g.token_ids for g in written])
    assert [len(g.token_ids) for g in written] == [6, 6]
    for generation, scored in zip(written, scores, strict=True):
        assert scored.logprobs == pytest.approx(generation.logprobs, abs=1e-4)


def test_every_end_token_counts() -> None:
    llama = make_llama()
    llama.generation_config.eos_token_id = [11, 12]
    assert TransformersModel(llama, make_tokenizer()).eos_token_ids == {
        11,
        12,
        make_tokenizer().eos_token_id,
    }


def test_a_folder_without_a_model_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="cannot be loaded") as caught:
        TransformersModel.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_truncated_weights_are_one_clear_line(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(BackendError, match="cannot be loaded"):
        TransformersModel.load(folder)


def test_weights_that_lack_tensors_are_one_clear_line(folder: Path) -> None:
    save_file({"foo": torch.zeros(1)}, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BackendError, match=r"weights lack \d+ tensors"):
        TransformersModel.load(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "generation_config.json"])
def test_a_broken_file_of_a_folder_is_one_clear_line(folder: Path, name: str) -> None:
    (folder / name).write_text("[]", encoding="utf-8")
    with pytest.raises(BackendError, match="cannot be loaded") as caught:
        TransformersModel.load(folder)
    assert "\n" not in str(caught.value)


def test_a_model_without_positions_is_refused() -> None:
    config = BloomConfig(vocab_size=259, hidden_size=8, n_layer=1, n_head=2)
    with pytest.raises(BackendError, match="'bloom' are not supported"):
        TransformersModel(BloomForCausalLM(config), make_tokenizer())


def test_the_context_of_longrope_ends_where_its_factors_change() -> None:
    model = make_longrope()
    assert model.max_context_tokens == 64
    rows = [list(range(10)), list(range(100, 160))]
    with pytest.raises(ContextOverflow, match="context holds 64"):
        decoding.generate(model, [[*rows[1], 1, 2, 3, 4]], SamplingParams())
    params = SamplingParams(max_new_tokens=30, ignore_eos=True)
    together = decoding.generate(model, rows, params)  # the second row ends first
    alone = [decoding.generate(model, [row], params)[0] for row in rows]
    assert [len(one.token_ids) for one in together] == [30, 4]
    assert [one.token_ids for one in together] == [one.token_ids for one in alone]


def test_devices_and_dtypes() -> None:
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto").type in {"cpu", "cuda"}
    for missing in ("cuda:99", "warp", "meta"):
        with pytest.raises(ConfigError, match=missing):
            pick_device(missing)
    assert pick_dtype("auto", torch.device("cpu")) == torch.float32
    assert pick_dtype("auto", torch.device("cuda")) == torch.bfloat16
    assert pick_dtype("float16", torch.device("cpu")) == torch.float16


def test_the_fingerprint_is_that_of_the_weights_as_they_are() -> None:
    backend = make_llama()
    model = TransformersModel(backend, make_tokenizer())
    layer = backend.model.layers[0]
    first = model.fingerprint
    assert model.fingerprint == first
    seen = {first}
    with torch.no_grad():
        layer.mlp.up_proj.weight.mul_(1.0)  # written to
    seen.add(model.fingerprint)
    layer.mlp.up_proj.weight = torch.nn.Parameter(layer.mlp.up_proj.weight.clone())
    seen.add(model.fingerprint)
    layer.adapter = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False))
    seen.add(model.fingerprint)
    layer.adapter.register_parameter("gain", torch.nn.Parameter(torch.ones(1)))
    seen.add(model.fingerprint)
    assert len(seen) == 5
    del layer.adapter
    assert model.fingerprint in seen
