import errno
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from readahead.errors import DownloadError, NotFound
from readahead.lm import hub
from tests.lm.hub_server import refusing_address, serve_hub, use_hub
from tests.lm.recorder import Recorder

FILES = {
    "config.json": b"{}",
    "model.safetensors": b"w" * 1000,
    "tokenizer.json": b"{ }",
    "modeling.py": b"evil()",
    "pytorch_model.bin": b"pickle",
    "onnx/config.json": b"{}",
}
REPOS = {
    "org/model": FILES,
    "org/pickles": {"pytorch_model.bin": b"x"},
    "org/layer": {"config.json": b"{}", "2_Dense/model.safetensors": b"w"},
    "org/gated": FILES,
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with serve_hub(REPOS) as address:
        use_hub(address, monkeypatch)
        yield


def test_the_hub_tells_licence_size_and_whether_a_model_is_safe_to_load(server: None) -> None:
    assert hub.describe("org/model") == hub.HubModel("mit", 1005, is_loadable=True)
    assert not hub.describe("org/pickles").is_loadable
    assert not hub.describe("org/layer").is_loadable  # its safetensors are not the model's


def test_only_what_loads_without_running_code_is_downloaded(server: None, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    progress = Recorder(tasks=["Downloading"])
    hub.download("org/model", folder, progress)
    assert sorted(p.name for p in folder.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert progress.done_bytes["Downloading"] >= 1005


def test_nothing_is_printed(
    server: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hub.download("org/model", tmp_path, Recorder(tasks=["Downloading"]))
    assert capfd.readouterr() == ("", "")


def test_a_missing_file_model_or_right_is_told(server: None, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"holds no file like a\.gguf"):
        hub.download("org/model", tmp_path, Recorder(tasks=["x"]), ("a.gguf",))
    with pytest.raises(NotFound, match="no model 'org/none'"):
        hub.describe("org/none")
    with pytest.raises(NotFound, match="gated.*hf auth login"):
        hub.describe("org/gated")


def test_a_full_disk_is_not_blamed_on_the_hub() -> None:
    with pytest.raises(OSError, match="No space"), hub._hub_errors("org/model"):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_hub_that_refuses_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    use_hub(refusing_address(), monkeypatch)
    with pytest.raises(DownloadError, match="The model hub failed") as caught:
        hub.describe("org/model")
    assert "\n" not in str(caught.value)


def test_a_hub_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "PROBE_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        use_hub(f"http://127.0.0.1:{deaf.getsockname()[1]}", monkeypatch)
        started_at = time.monotonic()
        with pytest.raises(DownloadError, match="did not answer"):
            hub.describe("org/model")
    assert time.monotonic() - started_at < 3


def test_the_probe_takes_at_most_five_seconds() -> None:
    assert hub.PROBE_S <= 5


def test_offline_means_offline(server: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(DownloadError, match="HF_HUB_OFFLINE"):
        hub.describe("org/model")
