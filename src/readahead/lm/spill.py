"""Keys and values on disk, for prefixes that lost their memory; knows no tree.

*Exact*: a segment comes back to the bit or not at all. One safetensors file a segment, written by
one background thread, so that nobody waits for the disk; its SHA-256 stays in memory and is
compared at every load. What is damaged, missing, swapped or did not fit is a miss, never an error.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from readahead.lm.base import Segment
from readahead.lm.kv import KVSegment
from readahead.lm.pack import PackedSegment

_PREFIX = "readahead-spill-"
_LOCK = "lock"
_FIRST_BYTES_PER_S = 2e8  # of a load, until one was timed


@dataclass(eq=False, slots=True)
class _Entry:
    """A segment that waits for the disk, or where on the disk it is.

    Attributes:
        segment: None once it is written.
        rebuild: Makes the segment of its tensors.
        digest: SHA-256 of the file; b"" while it is not written.
        num_bytes: Of the segment, later of the file.
    """

    segment: KVSegment | PackedSegment | None
    rebuild: Callable[[Sequence[Tensor]], Segment]
    device: torch.device
    about: dict[str, str]
    num_bytes: int
    digest: bytes = b""


class Spill:
    """Segments by key, in a folder of this process; may be used from several threads.

    When the disk space is used up, what was longest not written or loaded goes first.

    Args:
        budget_bytes: The disk space that all files together may take.
        folder: Where the folder of this process is made; None takes the system's temporary one.
        max_waiting_bytes: The memory that segments may take while they wait for the disk; one that
            comes when there is more is not taken.
    """

    def __init__(
        self,
        budget_bytes: int,
        *,
        folder: Path | None = None,
        max_waiting_bytes: int = 64 * 2**20,
    ) -> None:
        self.budget_bytes = budget_bytes
        self.num_bytes = 0
        self.waiting_bytes = 0
        self._max_waiting_bytes = max_waiting_bytes
        self._bytes_per_s = _FIRST_BYTES_PER_S
        self._entries: dict[bytes, _Entry] = {}  # the longest unused first
        self._lock = threading.RLock()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="readahead-spill")
        parent = Path(folder or tempfile.gettempdir())
        _remove_abandoned(parent)
        self.folder, lock = _own_folder(parent)
        self._remove = weakref.finalize(self, _remove, self.folder, lock)

    def close(self) -> None:
        """Forget everything and remove the folder."""
        with self._lock:
            self._entries.clear()
            self.num_bytes = self.waiting_bytes = self.budget_bytes = 0
        self._writer.shutdown(cancel_futures=True)
        self._remove()

    def __contains__(self, key: bytes) -> bool:
        return key in self._entries

    def put(self, key: bytes, segment: Segment, **about: str) -> bool:
        """Have ``segment`` written soon; return, at once, whether it is taken.

        Args:
            key: Names the file.
            segment: Not changed by anyone from now on.
            about: Put into the file for who looks at it.
        """
        if not isinstance(segment, KVSegment | PackedSegment) or self.folder is None:
            return False
        with self._lock:
            if key in self._entries:
                return True
            is_behind = self.waiting_bytes + segment.num_bytes > self._max_waiting_bytes
            if segment.num_bytes > self.budget_bytes or is_behind:
                return False
            device = _tensors(segment)[0].device
            about = {"key": key.hex(), **about}
            entry = _Entry(segment, _rebuilder(segment), device, about, segment.num_bytes)
            self._entries[key] = entry
            self.waiting_bytes += entry.num_bytes
            self._writer.submit(self._write, key, entry)
        return True

    def get(self, key: bytes) -> Segment | None:
        """Return the segment, None if it is not there any more, unharmed."""
        with self._lock:
            if (entry := self._entries.get(key)) is None:
                return None
            self._entries[key] = self._entries.pop(key)  # now the last to go
            if entry.segment is not None:
                return entry.segment
        began_s = time.perf_counter()
        segment = self._load(key, entry)
        if segment is None:
            self.discard([key])
            return None
        bytes_per_s = entry.num_bytes / max(1e-6, time.perf_counter() - began_s)
        self._bytes_per_s += (bytes_per_s - self._bytes_per_s) / 4
        return segment

    def discard(self, keys: Iterable[bytes]) -> None:
        """Remove the segments of ``keys``, those that are there."""
        with self._lock:
            for key in keys:
                if (entry := self._entries.pop(key, None)) is None:
                    continue
                if entry.digest:
                    self.num_bytes -= entry.num_bytes
                    self._path(key).unlink(missing_ok=True)
                else:
                    self.waiting_bytes -= entry.num_bytes

    def load_s(self, num_bytes: int) -> float:
        """Return the seconds that loading ``num_bytes`` is expected to take."""
        return num_bytes / self._bytes_per_s

    def flush(self) -> None:
        """Wait until everything taken so far is written."""
        self._writer.submit(lambda: None).result()

    def _path(self, key: bytes) -> Path:
        assert self.folder is not None
        return self.folder / f"{key.hex()}.safetensors"

    def _write(self, key: bytes, entry: _Entry) -> None:
        """Write the file of ``entry``; a disk that is full makes it a miss."""
        segment = entry.segment
        if segment is None or self._entries.get(key) is not entry:
            return  # discarded while it waited
        path = self._path(key)
        try:
            tensors = {f"{i:04}": t.contiguous() for i, t in enumerate(_tensors(segment))}
            content = save(tensors, entry.about)
            self._make_room(len(content))
            _create(path, content)
        except (OSError, RuntimeError, MemoryError, SafetensorError):
            self.discard([key])
            path.unlink(missing_ok=True)
            return
        digest = hashlib.sha256(content).digest()
        with self._lock:
            if self._entries.get(key) is not entry:
                path.unlink(missing_ok=True)
                return
            self.waiting_bytes -= entry.num_bytes
            self.num_bytes += len(content)
            entry.segment, entry.digest, entry.num_bytes = None, digest, len(content)

    def _make_room(self, num_bytes: int) -> None:
        with self._lock:
            written = [key for key, entry in self._entries.items() if entry.digest]
            for key in written:
                if self.num_bytes + num_bytes <= self.budget_bytes:
                    return
                self.discard([key])
            if num_bytes > self.budget_bytes:
                raise OSError("larger than the disk space")

    def _load(self, key: bytes, entry: _Entry) -> Segment | None:
        try:
            with self._path(key).open("rb") as file:
                content = file.read(entry.num_bytes + 1)
            if hashlib.sha256(content).digest() != entry.digest:
                return None
            tensors = load(content)
            return entry.rebuild([tensors[name].to(entry.device) for name in sorted(tensors)])
        except (OSError, RuntimeError, MemoryError, SafetensorError):
            return None


def _tensors(segment: KVSegment | PackedSegment) -> tuple[Tensor, ...]:
    if isinstance(segment, KVSegment):
        return (*segment.keys, *segment.values)
    return (*segment.codes, *segment.steps)


def _rebuilder(segment: KVSegment | PackedSegment) -> Callable[[Sequence[Tensor]], Segment]:
    """Return what makes such a segment of its tensors, without holding on to them."""
    if isinstance(segment, KVSegment):
        return partial(_kv_segment, is_exact=segment.is_exact)
    return partial(_packed_segment, num_codes=len(segment.codes), dtype=segment.dtype)


def _kv_segment(tensors: Sequence[Tensor], *, is_exact: bool) -> KVSegment:
    half = len(tensors) // 2
    return KVSegment(tuple(tensors[:half]), tuple(tensors[half:]), is_exact)


def _packed_segment(
    tensors: Sequence[Tensor], *, num_codes: int, dtype: torch.dtype
) -> PackedSegment:
    return PackedSegment(tuple(tensors[:num_codes]), tuple(tensors[num_codes:]), dtype)


def _create(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def _own_folder(parent: Path) -> tuple[Path | None, int | None]:
    """Return a new folder and its lock, which goes with the process; None if there can be none."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return None, None
    return folder, lock


def _remove(folder: Path | None, lock: int | None) -> None:
    if folder is not None and lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_abandoned(parent: Path) -> None:
    """Remove what killed processes left: folders whose lock nobody holds."""
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR)
        except OSError:
            continue  # somebody else's, or just being made
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(lock)
