from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

from readahead.errors import BackendError, ConfigError
from readahead.lm.model import TransformersModel, pick_device, pick_dtype
from readahead.lm.prompt import build_prompt
from readahead.lm.sample import SamplingParams
from tests.conftest import make_llama, make_tokenizer


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
    for generation, logprobs in zip(written, scores, strict=True):
        assert logprobs == pytest.approx(generation.logprobs, abs=1e-4)


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


def test_devices_and_dtypes() -> None:
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto").type in {"cpu", "cuda"}
    for missing in ("cuda:99", "warp"):
        with pytest.raises(ConfigError, match=missing):
            pick_device(missing)
    assert pick_dtype("auto", torch.device("cpu")) == torch.float32
    assert pick_dtype("auto", torch.device("cuda")) == torch.bfloat16
    assert pick_dtype("float16", torch.device("cpu")) == torch.float16
