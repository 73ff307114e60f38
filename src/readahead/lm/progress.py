"""How long steps tell the user that they advance; knows nothing about what the steps do."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

POLL_S = 0.2


class Progress(Protocol):
    """Shows one task at a time, and notices between them; a command line renders it as a bar."""

    def notice(self, text: str) -> None:
        """Show one line that the user should read."""
        ...

    def start(self, task: str, total_bytes: int | None) -> None:
        """Begin a task; None means that its length is not known."""
        ...

    def advance(self, num_bytes: int) -> None:
        """Count ``num_bytes`` more as done."""
        ...

    def done(self) -> None:
        """End the task, whether it succeeded or not."""
        ...


class Silent:
    """Shows nothing."""

    def notice(self, text: str) -> None:
        """Drop the line."""

    def start(self, task: str, total_bytes: int | None) -> None:
        """Ignore the task."""

    def advance(self, num_bytes: int) -> None:
        """Ignore the bytes."""

    def done(self) -> None:
        """Ignore the end."""


@contextmanager
def task(progress: Progress, name: str, total_bytes: int | None = None) -> Iterator[None]:
    """Report the ``with`` body as one task, also when it raises."""
    progress.start(name, total_bytes)
    try:
        yield
    finally:
        progress.done()


@contextmanager
def growth_reported(folder: Path, progress: Progress) -> Iterator[None]:
    """Report the bytes that appear under ``folder`` while the ``with`` body runs.

    The downloaders used here draw their own bars or none; the folder they fill tells for them.
    """
    finished = threading.Event()
    counted = folder_bytes(folder)

    def watch() -> None:
        nonlocal counted
        ending = False
        while not ending:
            ending = finished.wait(POLL_S)
            now = folder_bytes(folder)
            # A downloader may also move or drop a file: what was counted once stays counted.
            if now > counted:
                progress.advance(now - counted)
                counted = now

    watcher = threading.Thread(target=watch, name="download-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below ``folder``, links to files included.

    What vanishes meanwhile, folders too, does not count.
    """
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(place, name).stat().st_size
    return total
