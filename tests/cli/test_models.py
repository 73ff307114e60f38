from pathlib import Path

from tests.cli.conftest import Cli


def test_without_models_there_is_a_hint(cli: Cli) -> None:
    outcome = cli("pull", "--list")
    assert (outcome.status, outcome.out) == (0, "")
    assert "readahead pull" in outcome.err
    assert cli("pull", "--list", "--json").json == {"models": []}


def test_a_folder_is_used_where_it_lies(cli: Cli, target: Path) -> None:
    outcome = cli("pull", target, "--json")
    assert outcome.status == 0
    [model] = outcome.json["models"]
    assert set(model) == {"name", "kind", "folder", "num_bytes", "licence", "origin", "sha256"}
    assert (model["folder"], model["kind"]) == (str(target), "target")
    assert model["num_bytes"] > 1000
    assert str(target) in cli("pull", target).out


def test_what_is_no_model_is_named(cli: Cli, place: Path) -> None:
    (place / "notes.gguf").write_bytes(b"not weights")
    for name, message in {
        "qwen9": "No model is called 'qwen9'. Try ",
        "./missing.gguf": "There is no file or folder ./missing.gguf.",
        "notes.gguf": "notes.gguf is not a GGUF file.",
    }.items():
        outcome = cli("pull", name)
        assert outcome.status == 2
        assert message in outcome.error
