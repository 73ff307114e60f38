"""Free memory is the least that anything leaves."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch

from readahead.config import CacheConfig
from readahead.lm import memory
from readahead.lm.memory import (
    RESERVE_BYTES,
    budget_bytes,
    free_bytes,
    is_out_of_memory,
    readable_tokens,
    reading_bytes,
)
from readahead.lm.prefixtree import PrefixTree
from readahead.lm.reuse import PrefixReader
from tests.lm.limited import PASSAGES, Outcome, ask_all, make_model

CPU = torch.device("cpu")
UNLIMITED_V1 = 9223372036854771712


def write(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(f"{content}\n")


def say(root: Path, line: str) -> None:
    write(root / "proc/self", cgroup=line)


def test_the_second_version_of_groups(tmp_path: Path) -> None:
    say(tmp_path, "0::/a/b")
    top = tmp_path / "sys/fs/cgroup"
    write(top / "a/b", memory__max="max", memory__current=100, memory__stat="inactive_file 5")
    write(top / "a", memory__max=1000, memory__current=400, memory__stat="anon 1\ninactive_file 50")
    write(top, memory__stat="anon 1")  # the machine's own has no limit
    assert list(memory._groups_leave(tmp_path)) == [1000 - 400 + 50]


def test_the_first_version_of_groups(tmp_path: Path) -> None:
    say(tmp_path, "4:memory:/a\n3:cpu,cpuacct:/a\n0::/")
    top = tmp_path / "sys/fs/cgroup/memory"
    for folder, limit in ((top, UNLIMITED_V1), (top / "a", 700)):
        write(
            folder,
            memory__limit_in_bytes=limit,
            memory__usage_in_bytes=800 if limit == 700 else 0,
            memory__stat="inactive_file 1\ntotal_inactive_file 50",
        )
    assert list(memory._groups_leave(tmp_path)) == [0, UNLIMITED_V1 + 50]


def test_a_path_of_the_host_leads_to_the_top(tmp_path: Path) -> None:
    say(tmp_path, "0::/../host/of/us")
    top = tmp_path / "sys/fs/cgroup"
    write(top, memory__max=500, memory__current=100, memory__stat="inactive_file 0")
    assert min(memory._groups_leave(tmp_path)) == 400


def test_no_groups_leave_everything(tmp_path: Path) -> None:
    assert list(memory._groups_leave(tmp_path)) == []
    say(tmp_path, "0::/")
    assert list(memory._groups_leave(tmp_path)) == []
    write(tmp_path / "sys/fs/cgroup", memory__max="nonsense", memory__current=1, memory__stat="")
    assert list(memory._groups_leave(tmp_path)) == []


def test_free_is_at_most_what_the_machine_has() -> None:
    assert 0 < free_bytes(CPU) <= psutil.virtual_memory().total


def test_the_limit_of_the_process_counts() -> None:
    code = """
import resource, psutil, torch
from readahead.lm.memory import free_bytes
vms = psutil.Process().memory_info().vms
resource.setrlimit(resource.RLIMIT_AS, (vms + 50_000_000, resource.RLIM_INFINITY))
before = free_bytes(torch.device("cpu"))
held = torch.ones(10_000_000, dtype=torch.uint8)
after = free_bytes(torch.device("cpu"))
assert 40_000_000 < before <= 50_000_000, before
assert 9_000_000 < before - after < 20_000_000, after
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


def test_the_budget_is_a_quarter_unless_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda device: 1000)
    assert budget_bytes(CacheConfig(), CPU) == 250
    assert budget_bytes(CacheConfig(budget_bytes=7), CPU) == 7
    assert budget_bytes(CacheConfig(budget_bytes=0), CPU) == 0


def test_what_is_readable_can_be_read() -> None:
    assert readable_tokens(0, 100) == readable_tokens(RESERVE_BYTES, 100) == 0
    for free in (RESERVE_BYTES + 10_000, RESERVE_BYTES + 10_007):
        num_tokens = readable_tokens(free, 100)
        assert reading_bytes(num_tokens, 100) <= free - RESERVE_BYTES
        assert reading_bytes(num_tokens + 1, 100) > free - RESERVE_BYTES
    assert readable_tokens(1000, 0, reserve_bytes=0) > 0


def test_what_torch_says_when_memory_is_out_is_understood() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(torch.OutOfMemoryError())
    assert not is_out_of_memory(RuntimeError("shapes do not match"))


def test_under_a_hard_limit_the_answers_are_the_same() -> None:
    """The tree may keep as much as it likes by its budget; the process may not have that much."""
    free = ask_all(PrefixReader(make_model(), PrefixTree(10**12)), PASSAGES)
    assert (free.steps, free.reasons) == ({}, [])
    command = [sys.executable, "-m", "tests.lm.limited", str(36 * 2**20)]
    done = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    limited = Outcome(**json.loads(done.stdout))
    assert limited.answers == free.answers
    assert len(set(free.answers)) > 5
    assert limited.steps or limited.reasons  # the limit was felt


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_what_torch_has_cached_on_a_gpu_is_free() -> None:
    device = torch.device("cuda")
    held = torch.empty(10**8, dtype=torch.uint8, device=device)
    full = free_bytes(device)
    del held
    assert free_bytes(device) - full >= 10**8


def test_what_was_freed_goes_back_to_the_system() -> None:
    def rss_mb() -> float:
        return float(psutil.Process().memory_info().rss) / 2**20

    blocks = [torch.ones(2**14) for _ in range(1024)]  # 64 KiB each: too small to be mapped alone
    last = blocks.pop()  # stands in the way of what is below it
    blocks.clear()
    before_mb = rss_mb()
    if not memory.give_back():
        pytest.skip("the C library keeps what it has")
    assert before_mb - rss_mb() > 40
    assert last.sum() == 2**14
