"""The SHA-256 of files too large to read at once; knows nothing about what they hold."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from readahead.lm.progress import Progress, task

_BLOCK_BYTES = 1 << 22


def sha256_of(files: Sequence[Path], progress: Progress) -> str:
    """Return the SHA-256 of the contents of ``files``, one after the other."""
    digest = hashlib.sha256()
    total_bytes = sum(file.stat().st_size for file in files)
    with task(progress, f"Checking {files[0].name}", total_bytes):
        for file in files:
            with file.open("rb") as stream:
                while block := stream.read(_BLOCK_BYTES):
                    digest.update(block)
                    progress.advance(len(block))
    return digest.hexdigest()
