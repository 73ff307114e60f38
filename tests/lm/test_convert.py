import json
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from readahead.lm.convert import convert, main
from tests.conftest import make_tokenizer
from tests.lm.tiny_gguf import Types, reference, write_gguf

TEXTS = ["plain text", "a  b\n\n\tc", "naïve 2024 – 劳动合同 🙂", "<|im_start|>user\nhi<|im_end|>"]


def load(folder: Path) -> PreTrainedModel:
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("converted")
    convert(write_gguf(folder / "a.gguf"), folder / "m", "float32", [])
    return folder / "m"


def test_the_weights_are_those_of_the_model_that_was_written(converted: Path) -> None:
    expected, found = reference().state_dict(), load(converted).state_dict()
    assert found.keys() == expected.keys()
    for name, weight in found.items():
        torch.testing.assert_close(weight, expected[name], rtol=0, atol=0, msg=name)


def test_the_tokenizer_and_the_chat_template_come_along(converted: Path) -> None:
    expected, found = make_tokenizer(), AutoTokenizer.from_pretrained(converted)
    for text in TEXTS:
        assert found(text)["input_ids"] == expected(text)["input_ids"]
    messages = [{"role": "user", "content": "hi"}]
    assert found.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=False
    ) == expected.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)


def test_float16_keeps_quantised_weights_better_than_bfloat16(tmp_path: Path) -> None:
    gguf = write_gguf(tmp_path / "a.gguf", qtype=Types.Q8_0)
    exact = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="a.gguf", dtype=torch.float32)
    ids = torch.arange(100)[None]
    gaps = {}
    for dtype in ("float16", "bfloat16"):
        convert(gguf, tmp_path / dtype, dtype, [])
        with safe_open(tmp_path / dtype / "model.safetensors", "pt") as file:
            stored = {file.get_tensor(name).dtype for name in file.keys()}  # noqa: SIM118
        assert stored == {getattr(torch, dtype)}
        with torch.no_grad():
            gap = load(tmp_path / dtype)(ids).logits - exact(ids).logits
        gaps[dtype] = float(gap.abs().mean())
    assert 0 < gaps["float16"] < gaps["bfloat16"] / 4


@pytest.mark.parametrize("tied", [True, False])
def test_tied_weights_stay_tied(tmp_path: Path, tied: bool) -> None:
    convert(write_gguf(tmp_path / "a.gguf", tied=tied), tmp_path / "m", "float32", [])
    with safe_open(tmp_path / "m" / "model.safetensors", "pt") as file:
        assert ("lm_head.weight" in file.keys()) is not tied  # noqa: SIM118
    model = load(tmp_path / "m")
    head, embeddings = model.get_output_embeddings(), model.get_input_embeddings()
    assert head is not None
    assert (head.weight is embeddings.weight) is tied


def test_every_end_token_ends_and_a_pad_token_is_there(tmp_path: Path) -> None:
    tokenizer = make_tokenizer()
    end, other = tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<|endoftext|>")
    assert isinstance(end, int)
    assert isinstance(other, int)
    convert(write_gguf(tmp_path / "a.gguf"), tmp_path / "m", "float32", [end, other])
    settings = load(tmp_path / "m").generation_config
    assert settings is not None
    assert settings.eos_token_id == [end, other]
    assert settings.pad_token_id == end
    assert AutoTokenizer.from_pretrained(tmp_path / "m").pad_token == "<|im_end|>"


def test_the_config_says_nothing_of_a_quantisation(converted: Path) -> None:
    config = json.loads((converted / "config.json").read_text())
    assert "quantization_config" not in config
    assert config["architectures"] == ["LlamaForCausalLM"]


def test_a_file_without_all_tensors_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def drop(tensors: dict[str, NDArray[np.float32]]) -> None:
        del tensors["blk.1.ffn_up.weight"]

    gguf = write_gguf(tmp_path / "a.gguf", change=drop)
    assert main([str(gguf), str(tmp_path / "m"), "float32"]) == 1
    assert capsys.readouterr().out == (
        "1 tensors are missing, such as model.layers.1.mlp.up_proj.weight"
    )
    assert not (tmp_path / "m").exists()


def test_weights_that_the_type_cannot_hold_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def enlarge(tensors: dict[str, NDArray[np.float32]]) -> None:
        tensors["output_norm.weight"][0] = 1e6

    gguf = write_gguf(tmp_path / "a.gguf", change=enlarge)
    assert main([str(gguf), str(tmp_path / "m"), "float16", "1"]) == 1
    assert "not finite numbers in float16" in capsys.readouterr().out
    assert main([str(gguf), str(tmp_path / "m"), "float32", "1"]) == 0
