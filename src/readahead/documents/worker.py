"""The child process that parses files, so that a hostile file can only take down this one.

This module knows nothing about folders or knowledge bases: bytes come in on the standard input,
documents go out on the standard output, as ``wire`` says. It opens no file and no connection.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import signal
import sys
import warnings
from typing import IO

from readahead.documents.parse import parse
from readahead.documents.wire import document_to_json, read_frame, read_message, write_message
from readahead.errors import DocumentError, ReadaheadError
from readahead.types import Document

_MAX_STDERR_BYTES = 2**20


def main() -> None:
    """Serve requests until the standard input ends; the one argument is JSON (see ``Reader``)."""
    limits = json.loads(sys.argv[1])
    requests, replies = sys.stdin.buffer, _claim_stdout()
    logging.disable()
    warnings.simplefilter("ignore")
    _limit(resource.RLIMIT_AS, limits["memory_bytes"])
    _limit(resource.RLIMIT_FSIZE, _MAX_STDERR_BYTES)
    _limit(resource.RLIMIT_CORE, 0)
    while True:
        try:
            name, data = read_message(requests)["name"], read_frame(requests)
        except EOFError:
            return
        # Its default action ends the process, whatever code runs then. A second process would have
        # to watch otherwise, and this one would outlive it if that one died.
        signal.setitimer(signal.ITIMER_REAL, limits["timeout_s"])
        try:
            write_message(replies, _answer(name, data, limits))
        except MemoryError:
            write_message(replies, {"out_of_memory": True})
            return
        signal.setitimer(signal.ITIMER_REAL, 0)


def _answer(name: str, data: bytes, limits: dict[str, int]) -> dict[str, object]:
    try:
        documents = parse(
            data,
            name,
            max_unpacked_bytes=limits["max_file_bytes"],
            max_pages=limits["max_pages"],
        )
        if sum(map(_num_chars, documents)) > limits["max_text_chars"]:
            raise DocumentError(
                f"more than {limits['max_text_chars']:,} characters of text, "
                "with the headings above each part of it"
            )
    except ReadaheadError as error:
        return {"reason": error.message, "remedy": error.remedy}
    return {"documents": [document_to_json(document) for document in documents]}


def _num_chars(document: Document) -> int:
    """Return how much is stored of a document: its text, and each block's heading path."""
    headings = (title for block in document.blocks for title in block.heading)
    return len(document.text) + sum(map(len, headings))


def _claim_stdout() -> IO[bytes]:
    """Keep the standard output for replies; what a parser prints goes to the standard error."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return replies


def _limit(which: int, value: int) -> None:
    """Set a limit, or the one that is there already if it is lower."""
    _, most = resource.getrlimit(which)
    value = value if most == resource.RLIM_INFINITY else min(value, most)
    with contextlib.suppress(OSError, ValueError):  # macOS knows RLIMIT_AS but refuses it
        resource.setrlimit(which, (value, value))


if __name__ == "__main__":
    main()
