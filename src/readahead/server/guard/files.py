"""JSON files that the server keeps beside its documents: written as a whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path


def write_json(path: Path, value: object, *, is_synced: bool = True) -> None:
    """Write a file that only its owner may read; who reads it meanwhile sees the old one.

    Args:
        path: In a folder that exists.
        value: Of JSON.
        is_synced: Whether it is to survive a power failure; a killed process loses nothing.

    Raises:
        OSError: The disk is full, or not writable.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with open(handle, "w", encoding="utf-8") as file:
            json.dump(value, file)
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
