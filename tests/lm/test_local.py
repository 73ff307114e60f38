import errno
import json
import multiprocessing
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from readahead.errors import DownloadError, InputError
from readahead.lm import local
from readahead.lm.local import LocalModel
from readahead.lm.progress import Silent
from tests.lm.recorder import Recorder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("READAHEAD_HOME", str(tmp_path / "home"))
    models = tmp_path / "home" / "models"
    models.mkdir(parents=True)
    return models


def install(name: str = "toy", weights: bytes = b"w") -> LocalModel:
    with local.locked(name, Silent()), local.staging(name) as work:
        folder = work / "model"
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(weights)
        (folder / "config.json").write_text("{}")
        return local.install(LocalModel(name, folder, "target", licence="MIT"), Silent())


def entries(home: Path) -> list[str]:
    return sorted(path.name for path in home.iterdir() if not path.name.endswith(".lock"))


def test_an_installed_model_is_found_again_and_whole(home: Path) -> None:
    model = install("org/toy", b"weights")
    assert model.folder == home / "org--toy"
    assert model.num_bytes == len(b"weights") + len(b"{}")
    assert local.read(model.folder) == model
    assert local.list_local() == [model]
    assert entries(home) == ["org--toy"]
    local.verify(model)


def test_installing_again_replaces(home: Path) -> None:
    install(weights=b"old")
    model = install(weights=b"new")
    assert (model.folder / "model.safetensors").read_bytes() == b"new"
    assert entries(home) == ["toy"]


def test_changed_weights_are_noticed() -> None:
    model = install()
    (model.folder / "model.safetensors").write_bytes(b"x")
    with pytest.raises(DownloadError, match="not what was pulled.*readahead pull toy"):
        local.verify(model)


@pytest.mark.parametrize("manifest", ["", "{", "[]", "{}", '{"schema": 2}', '{"schema": 1}', "\0"])
def test_a_broken_manifest_is_no_model(home: Path, manifest: str) -> None:
    model = install()
    (model.folder / local.MANIFEST).write_text(manifest)
    assert local.read(model.folder) is None
    assert local.list_local() == []


def test_the_manifest_is_plain_json() -> None:
    model = install()
    values = json.loads((model.folder / local.MANIFEST).read_text())
    assert values["schema"] == 1
    assert values["name"] == "toy"
    assert values["sha256"] == model.sha256
    assert "folder" not in values


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), ValueError("broken")])
def test_a_failure_leaves_nothing_half_written(home: Path, failure: BaseException) -> None:
    with pytest.raises(type(failure)), local.staging("toy") as work:
        (work / "model").mkdir()
        (work / "model" / "model.safetensors").write_bytes(b"half")
        raise failure
    assert entries(home) == []


def test_what_a_killed_process_left_is_removed(home: Path) -> None:
    (home / ".toy~abc" / "model").mkdir(parents=True)
    (home / ".toy~abc" / "model" / "half").write_bytes(b"x")
    (home / ".toy.2~abc").mkdir()
    with local.staging("toy") as work:
        assert work.name != ".toy~abc"
        assert list(work.iterdir()) == []
    assert entries(home) == [".toy.2~abc"]


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "not enough room.*READAHEAD_HOME"),
        (errno.EACCES, "cannot be read or written"),
    ],
)
def test_a_disk_that_fails_while_writing_is_told(home: Path, number: int, message: str) -> None:
    with pytest.raises(DownloadError, match=message), local.staging("toy"):
        raise OSError(number, "reason", "some/file")
    assert entries(home) == []


def test_room_is_checked_before(home: Path) -> None:
    local.require_space(home, 1)
    with pytest.raises(DownloadError, match=r"1000000000\.0 GB are needed and .* GB are free"):
        local.require_space(home, 10**18)


def test_a_home_that_is_a_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("READAHEAD_HOME", str(tmp_path / "file"))
    with (
        pytest.raises(DownloadError, match="cannot be read or written"),
        local.locked("toy", Silent()),
    ):
        pass


def hold(home: str, held: Event, release: Event) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("READAHEAD_HOME", home)
        with local.locked("toy", Silent()):
            held.set()
            release.wait(30)


def test_a_second_process_waits_and_says_so(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    held, release = spawn.Event(), spawn.Event()
    other = spawn.Process(target=hold, args=(str(tmp_path / "home"), held, release))
    other.start()

    class Releasing(Recorder):
        def notice(self, text: str) -> None:
            super().notice(text)
            release.set()

    progress = Releasing()
    assert held.wait(60)
    with local.locked("toy", progress):
        assert progress.notices == ["Another process is pulling toy; waiting for it."]
    with local.locked("other", progress):
        assert len(progress.notices) == 1
    other.join()
    assert other.exitcode == 0


def test_a_users_folder_is_used_where_it_lies(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    with pytest.raises(InputError, match=r"no config\.json"):
        local.in_place(folder)
    (folder / "config.json").write_text("{}")
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(InputError, match="no weights in safetensors"):
        local.in_place(folder)
    (folder / "model.safetensors").write_bytes(b"www")
    model = local.in_place(folder)
    assert (model.folder, model.kind, model.origin) == (folder, "target", str(folder))
    (folder / "modules.json").write_text("[]")
    assert local.in_place(folder).kind == "embedder"
    assert local.list_local() == []
