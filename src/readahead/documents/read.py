"""Reads files in a child process, under limits of time and memory.

This module knows nothing about formats: the child (``worker``) does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from readahead.config import DocumentsConfig
from readahead.documents.files import load_file, shown_path
from readahead.documents.wire import document_from_json, read_message, write_frame, write_message
from readahead.errors import DocumentError
from readahead.types import Document

# Of the environment, what Python, its libraries and its texts need: it holds secrets, too.
_TOLD = frozenset(
    "PATH HOME TMPDIR LANG LANGUAGE TZ LD_LIBRARY_PATH DYLD_LIBRARY_PATH "
    "PYTHONHOME PYTHONPATH PYTHONUTF8 PYTHONHASHSEED PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX "
    "OMP_NUM_THREADS MALLOC_ARENA_MAX".split()
)
# What tells processes to end. It comes from outside, whatever is being read.
_TOLD_TO_END = frozenset({-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP})
_SHOWN_STDERR_BYTES = 2000
_GIB = 2**30
_MIB = 2**20


class Reader:
    """Turns files into documents; a hostile file costs a child process, never this one.

    The child starts with the first file, serves all that follow, and is replaced after it was
    stopped. Threads take turns. The memory limit holds on Linux; macOS does not enforce it.

    Signals to this process's group do not reach the child, which is in a session of its own: what
    is being read while a server drains is read to its end. One that reaches it all the same, as
    from systemd, costs a second reading.
    """

    def __init__(self, config: DocumentsConfig | None = None) -> None:
        self._config = config or DocumentsConfig()
        self._child: _Child | None = None
        self._turn = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the child; a later read starts another."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def interrupt(self) -> None:
        """Kill the child, from any thread: what is being read fails, and a later read goes on."""
        child = self._child
        if child is not None:
            child.kill()

    def read(self, path: Path | str) -> list[Document]:
        """Return the documents in a file: one, or one a line for JSON Lines.

        Raises:
            DocumentError: The file cannot be read; the message is a short reason.
        """
        return self.read_bytes(load_file(path, self._config.max_file_bytes), shown_path(path))

    def read_bytes(self, data: bytes, name: str) -> list[Document]:
        """Return the documents in ``data``, whose format the ending of ``name`` tells, if any.

        Raises:
            DocumentError: The data cannot be read; the message is a short reason.
        """
        if len(data) > self._config.max_file_bytes:
            raise DocumentError(f"larger than {self._config.max_file_bytes / _MIB:,.0f} MiB")
        with self._turn:
            is_fresh = self._child is None
            reply = self._ask(data, name)
            # The files before this one may have left too little room.
            if reply.get("told_to_end") or (reply.get("out_of_memory") and not is_fresh):
                reply = self._ask(data, name)
        if reply.get("out_of_memory"):
            raise DocumentError(f"needed more than {self._config.memory_bytes / _GIB:.1f} GiB")
        if "reason" in reply:
            raise DocumentError(reply["reason"], remedy=reply["remedy"])
        return [document_from_json(document) for document in reply["documents"]]

    def _ask(self, data: bytes, name: str) -> dict[str, Any]:
        if self._child is None:
            self._child = _Child(self._config)
        try:
            reply = self._child.ask(data, name)
        except (EOFError, BrokenPipeError):
            reason = self._child.reason_of_death(self._config.timeout_s)
            reply = {"reason": reason, "remedy": "", "told_to_end": self._child.was_told_to_end}
            self.close()
        except BaseException:  # an interrupt leaves half a reply in the pipe
            self.close()
            raise
        if reply.get("out_of_memory"):
            self.close()
        return reply


def _is_told(name: str) -> bool:
    """Return whether the child gets this variable of the environment."""
    return name in _TOLD or name.startswith("LC_")


class _Child:
    """The running worker and the pipes to it."""

    def __init__(self, config: DocumentsConfig) -> None:
        limits = config.model_dump_json(
            include={"memory_bytes", "timeout_s", "max_text_chars", "max_file_bytes", "max_pages"}
        )
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (stop closes it)
        self._process = subprocess.Popen(
            # -P: a module that lies in the current folder, among the documents, is not ours.
            [sys.executable, "-P", "-m", "readahead.documents.worker", limits],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={name: value for name, value in os.environ.items() if _is_told(name)},
            start_new_session=True,
        )
        assert self._process.stdin and self._process.stdout
        self._requests: IO[bytes] = self._process.stdin
        self._replies: IO[bytes] = self._process.stdout

    def ask(self, data: bytes, name: str) -> dict[str, Any]:
        write_message(self._requests, {"name": name})
        write_frame(self._requests, data)
        self._requests.flush()
        return read_message(self._replies)

    def reason_of_death(self, timeout_s: float) -> str:
        """Return why the child ended, after it has."""
        status = self._process.wait()
        if status == -signal.SIGALRM:
            return f"took longer than {timeout_s:g} s"
        if status < 0:
            return f"the parser crashed ({signal.Signals(-status).name})"
        return f"the parser stopped ({self._last_words()})"

    @property
    def was_told_to_end(self) -> bool:
        return self._process.returncode in _TOLD_TO_END

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        self.kill()
        self._process.wait()
        for pipe in (self._requests, self._replies, self._stderr):
            with contextlib.suppress(BrokenPipeError):  # closing flushes
                pipe.close()

    def _last_words(self) -> str:
        self._stderr.seek(max(0, os.fstat(self._stderr.fileno()).st_size - _SHOWN_STDERR_BYTES))
        lines = self._stderr.read().decode("utf-8", "replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "without a word")
