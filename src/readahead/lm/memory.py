"""How much memory is free, and how many tokens it is enough for; knows no model."""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

from readahead.config import CacheConfig

RESERVE_BYTES = 64 * 2**20
"""What is left free for what a step of the model needs for a moment."""

_GROWTH = 1.25  # a cache that grows holds one layer's keys or values twice for a moment


@dataclass(frozen=True, slots=True)
class _Group:
    """Where a version of Linux control groups keeps its figures."""

    folder: str
    limit: str
    usage: str
    reclaimable: str


_GROUPS = (
    _Group("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    _Group(
        "sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
)


def free_bytes(device: torch.device) -> int:
    """Return the memory that can still be taken on ``device``.

    On a CPU the least of what the machine, the control groups and ``RLIMIT_AS`` leave.
    """
    if device.type == "cuda":
        # What torch holds and does not use is as good as free.
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0] + unused)
    available = int(psutil.virtual_memory().available)
    return min(available, *_groups_leave(Path("/")), _limit_leaves())


def budget_bytes(config: CacheConfig, device: torch.device) -> int:
    """Return what the prefix tree may take: what the settings say, else a quarter of the free."""
    return free_bytes(device) // 4 if config.budget_bytes is None else config.budget_bytes


def reading_bytes(num_tokens: int, bytes_per_token: int) -> int:
    """Return the free memory that reading ``num_tokens`` takes, besides ``RESERVE_BYTES``."""
    return int(num_tokens * bytes_per_token * _GROWTH)


def readable_tokens(
    free_bytes: int, bytes_per_token: int, *, reserve_bytes: int = RESERVE_BYTES
) -> int:
    """Return how many tokens, prompt and answer together, can be read in ``free_bytes``.

    What is free must count what a prefix tree would give back, ``tree.num_bytes``, so that a
    request is shortened in the same way whether or not something was read ahead for it. For the
    same reason it is to be asked once a process, or the answers of one process may differ.

    Args:
        free_bytes: See ``free_bytes``.
        bytes_per_token: Of keys and values; see ``PrefixReader.bytes_per_token``.
        reserve_bytes: What is left free.
    """
    return max(0, int((free_bytes - reserve_bytes) / (max(1, bytes_per_token) * _GROWTH)))


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether ``error`` says that memory ran out; on a CPU torch has no class for it."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def give_back() -> bool:
    """Give what was freed back to the system; return whether the C library does that at all.

    glibc keeps freed blocks of up to 32 MB, in an arena for every few threads, and tensors of ever
    other lengths leave holes in them.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return False
    trim(0)
    return True


def _limit_leaves() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return 2**63
    return max(0, limit - int(psutil.Process().memory_info().vms))


def _groups_leave(root: Path) -> Iterator[int]:
    """Yield what each control group around this process leaves, those that have a limit.

    Args:
        root: Of the file system.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number != "0" and "memory" not in controllers.split(","):
            continue
        group = _GROUPS[number != "0"]
        base = root / group.folder
        inside = base / path.strip("/")
        # In a container the path may be the host's and not be visible: then the top is ours.
        for folder in (inside, *inside.parents):
            if folder.is_relative_to(base) and (left := _leaves(folder, group)) is not None:
                yield left


def _leaves(folder: Path, group: _Group) -> int | None:
    """Return what the control group of ``folder`` leaves, None if it has no limit."""
    try:
        limit = (folder / group.limit).read_text().strip()
        if limit == "max":
            return None
        used = int((folder / group.usage).read_text())
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return max(0, int(limit) - used + int(stat.get(group.reclaimable, 0)))
    except (OSError, ValueError):
        return None
