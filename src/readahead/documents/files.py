"""Finds files to read, and loads them.

This module does not know what is in them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from readahead.errors import DocumentError

# What documents come with. Anything else is tried, so that an unreadable file is reported.
_NOT_DOCUMENTS = frozenset(
    ".avi .bmp .css .eot .flac .gif .ico .inv .jpeg .jpg .js .map .mkv .mov .mp3 .mp4 .ogg .otf "
    ".png .pyc .svg .tif .tiff .ttf .wav .webm .webp .woff .woff2".split()
)
_REASONS = {
    errno.ENOENT: "no such file",
    errno.EACCES: "permission denied",
    errno.ELOOP: "symlink loop",
    errno.ENAMETOOLONG: "name too long",
}


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to read, or a path that cannot be, with the reason."""

    path: Path
    reason: str | None = None


def find_files(
    paths: Iterable[Path | str],
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    skip: Path | None = None,
) -> Iterator[FoundFile]:
    """Yield the files that ``paths`` name, and those in the folders that they name.

    Folders are walked in the order of names, each once; a link to a folder is followed. In folders,
    what begins with a point is skipped, and so are pictures, sound, fonts, styles and scripts
    unless ``include`` asks for them. A pattern is matched with the name, and with the path below
    the folder given. A folder that matches ``exclude`` is not entered, nor is ``skip``, by whatever
    name it is met. What ``paths`` names itself is always taken.
    """
    for path in map(Path, paths):
        try:
            is_folder = stat.S_ISDIR(path.stat().st_mode)
        except (OSError, ValueError) as error:
            yield FoundFile(path, _reason(error))
            continue
        if is_folder:
            yield from _walk(path, include, exclude, skip)
        else:
            yield FoundFile(path)


def load_file(path: Path | str, max_bytes: int) -> bytes:
    """Return the bytes of a regular file.

    Raises:
        DocumentError: It cannot be opened, is not a regular file, or is larger than ``max_bytes``.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):  # opening a named pipe would wait for a writer
            raise DocumentError("not a regular file")
        if status.st_size > max_bytes:
            raise DocumentError(f"larger than {max_bytes / 2**20:,.0f} MiB")
        with open(path, "rb") as file:
            # Not max_bytes: room for as much is made at once. What is appended now is left out.
            return file.read(status.st_size)
    except (OSError, ValueError) as error:
        raise DocumentError(_reason(error)) from None


def shown_path(path: Path | str) -> str:
    r"""Return a path as text; a byte of a name that is not UTF-8 is spelled ``\xff``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _walk(
    root: Path, include: Sequence[str], exclude: Sequence[str], skip: Path | None
) -> Iterator[FoundFile]:
    visited: set[tuple[int, int]] = set()
    stack = [root]
    while stack:
        path = stack.pop()
        try:
            status = path.stat()
            if not stat.S_ISDIR(status.st_mode):
                if not include and path.suffix.lower() in _NOT_DOCUMENTS:
                    continue
                if not include or _matches(path, root, include):
                    yield FoundFile(path)
                continue
            if skip and path != root and skip.exists() and path.samefile(skip):
                continue
            if (status.st_dev, status.st_ino) in visited:
                if _is_loop(path):
                    yield FoundFile(path, "symlink loop")
                continue
            visited.add((status.st_dev, status.st_ino))
            children = sorted(path.iterdir(), reverse=True)
        except OSError as error:
            yield FoundFile(path, _reason(error))
            continue
        stack += [
            child
            for child in children
            if not child.name.startswith(".") and not _matches(child, root, exclude)
        ]


def _is_loop(folder: Path) -> bool:
    return folder.parent.resolve().is_relative_to(folder.resolve())


def _matches(path: Path, root: Path, patterns: Iterable[str]) -> bool:
    relative = path.relative_to(root).as_posix()
    return any(
        fnmatchcase(path.name, pattern)
        or fnmatchcase(relative, pattern)
        or fnmatchcase(relative, pattern.replace("**/", ""))
        for pattern in (pattern.rstrip("/") for pattern in patterns)
    )


def _reason(error: OSError | ValueError) -> str:
    if not isinstance(error, OSError):
        return "not a path"  # a NUL in it
    return _REASONS.get(error.errno or 0) or (error.strerror or "not readable").lower()
