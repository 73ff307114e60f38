"""A server in a process of its own, as a command starts it: where it is, and what it holds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

COMMAND = (sys.executable, "-m", "readahead")
_END_S = 60.0
_MB = 1e6


@dataclass(frozen=True)
class Served:
    """A server that runs.

    Attributes:
        url: Without the path.
        target: What the bare model is called.
    """

    url: str
    target: str
    process: psutil.Process

    @property
    def rss_mb(self) -> float:
        """Return the memory of its process, in MB (10⁶ bytes)."""
        return float(self.process.memory_info().rss) / _MB

    @property
    def num_threads(self) -> int:
        """Return how many threads it has."""
        return int(self.process.num_threads())

    @property
    def num_files(self) -> int:
        """Return how many files and sockets it has open."""
        return int(self.process.num_fds())


def index(kb: Path, passages: Path) -> None:
    """Add documents to a knowledge base; what is there already costs nothing."""
    subprocess.run([*COMMAND, "--kb", str(kb), "add", str(passages)], check=True)


@contextmanager
def serving(
    kb: Path, log: Path, settings: Mapping[str, object], options: Mapping[str, str]
) -> Iterator[Served]:
    """Run a server during the ``with`` body; a signal to end this process ends it, too.

    Args:
        kb: Its knowledge base.
        log: Where its log goes.
        settings: Dotted names.
        options: Of ``readahead serve``.
    """
    names = {f"READAHEAD_{name.upper().replace('.', '__')}": name for name in settings}
    environment = {variable: str(settings[name]) for variable, name in names.items()}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    given = [part for option, value in options.items() for part in (f"--{option}", value)]
    with (
        log.open("w", encoding="utf-8") as stderr,
        subprocess.Popen(
            [*COMMAND, "--kb", str(kb), "serve", "--port", "0", "--json", *given],
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=os.environ | environment,
            text=True,
        ) as child,
    ):
        assert child.stdout is not None
        try:
            told = json.loads(child.stdout.readline() or "{}")
            if not told:
                raise SystemExit(f"The server did not start: {log.read_text(encoding='utf-8')}")
            yield Served(told["url"], told["target"], psutil.Process(child.pid))
        finally:
            child.terminate()
            child.wait(_END_S)
