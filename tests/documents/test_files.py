import os
from pathlib import Path

import pytest

from readahead.documents.files import find_files, load_file, shown_path
from readahead.errors import DocumentError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "b.md",
        "a.txt",
        "sub/c.html",
        "sub/deep/d.md",
        ".hidden/e.md",
        ".f.md",
        "pic.png",
        "junk.bin",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return tmp_path


def names(folder: Path, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> list[str]:
    found = list(find_files([folder], include=include, exclude=exclude))
    assert all(file.reason is None for file in found)
    return [file.path.relative_to(folder).as_posix() for file in found]


def test_folders_are_walked_in_order_without_hidden_and_media_files(folder: Path) -> None:
    assert names(folder) == ["a.txt", "b.md", "junk.bin", "sub/c.html", "sub/deep/d.md"]


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (("*.md",), (), ["b.md", "sub/deep/d.md"]),
        (("**/*.md",), ("b.*",), ["sub/deep/d.md"]),
        (("sub/*.html", "*.png"), (), ["pic.png", "sub/c.html"]),
        ((), ("sub/", "*.bin"), ["a.txt", "b.md"]),
        ((), ("sub/deep", "[ab].*", "*.bin"), ["sub/c.html"]),
        ((), ("**/deep", "[ab].*", "*.bin"), ["sub/c.html"]),
    ],
)
def test_patterns_include_and_exclude(
    folder: Path, include: tuple[str, ...], exclude: tuple[str, ...], expected: list[str]
) -> None:
    assert names(folder, include, exclude) == expected


def test_a_file_that_is_named_is_always_found(folder: Path) -> None:
    path = folder / ".f.md"
    assert [file.path for file in find_files([path], include=["*.txt"])] == [path]


def test_a_path_that_is_not_there_does_not_stop_the_batch(folder: Path) -> None:
    found = list(find_files([folder / "none", "nul\0", folder / "a.txt"]))
    assert [file.reason for file in found] == ["no such file", "not a path", None]


def test_symlink_loops_end_with_a_reason(folder: Path) -> None:
    (folder / "sub" / "up").symlink_to(folder, target_is_directory=True)
    (folder / "self").symlink_to("self")
    (folder / "gone").symlink_to("nowhere")
    failed = {file.path.name: file.reason for file in find_files([folder]) if file.reason}
    assert failed == {"up": "symlink loop", "self": "symlink loop", "gone": "no such file"}
    assert len(list(find_files([folder]))) == 5 + 3


def test_a_linked_folder_is_walked_once(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "o.md").write_text("x")
    for name in ("link1", "link2"):
        (folder / name).symlink_to(outside)
    assert [name for name in names(folder) if name.endswith("o.md")] == ["link1/o.md"]


def test_the_folder_to_skip_is_known_by_any_name(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "sub")
    skip = folder / "sub" / "deep" / ".."
    assert [file.path.name for file in find_files([folder], skip=skip)] == [
        "a.txt",
        "b.md",
        "junk.bin",
    ]
    assert len(list(find_files([folder / "sub"], skip=skip))) == 2
    assert len(list(find_files([folder], skip=folder / "none"))) == 5


def test_a_folder_that_cannot_be_entered_is_a_failure(folder: Path) -> None:
    long = folder / ("x" * 300)
    assert [file.reason for file in find_files([long])] == ["name too long"]


def test_load_file_names_what_is_wrong(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    for name, reason in (
        ("none", "no such file"),
        ("sub", "not a regular file"),
        ("pipe", "not a regular file"),
        ("nul\0", "not a path"),
    ):
        with pytest.raises(DocumentError, match=reason):
            load_file(folder / name, 10)
    (folder / "large").write_bytes(b"x" * (2**20 + 1))
    with pytest.raises(DocumentError, match="larger than 1 MiB"):
        load_file(folder / "large", 2**20)
    assert load_file(folder / "a.txt", 1) == b"x"


def test_a_generous_limit_needs_no_memory(folder: Path) -> None:
    assert load_file(folder / "a.txt", 10**15) == b"x"


def test_a_name_that_is_not_utf8_can_be_shown() -> None:
    assert shown_path(os.fsdecode(b"caf\xe9.txt")) == "caf\\xe9.txt"
    assert shown_path(os.fsdecode(b"\xff.txt")) != shown_path(os.fsdecode(b"\xfe.txt"))
