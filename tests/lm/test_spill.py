"""What is on disk comes back to the bit, or not at all; the disk never gets in anyone's way."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from readahead.lm.base import Segment
from readahead.lm.kv import KVSegment
from readahead.lm.pack import PackedSegment, Storage, pack
from readahead.lm.spill import Spill


@pytest.fixture
def spill(tmp_path: Path) -> Iterator[Spill]:
    made = Spill(10**6, folder=tmp_path)
    yield made
    made.close()


def segment(seed: int = 0, *, dtype: torch.dtype = torch.float32) -> KVSegment:
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(1, 2, 8, 16, generator=generator).to(dtype) for _ in range(4)]
    return KVSegment(tuple(tensors[:2]), tuple(tensors[2:]))


def tensors(given: Segment | None) -> tuple[torch.Tensor, ...]:
    assert given is not None
    if isinstance(given, KVSegment):
        return (*given.keys, *given.values)
    assert isinstance(given, PackedSegment)
    return (*given.codes, *given.steps)


def assert_same(got: Segment | None, expected: Segment) -> None:
    assert got is not None
    assert type(got) is type(expected)
    assert got.is_exact == expected.is_exact
    for ours, theirs in zip(tensors(got), tensors(expected), strict=True):
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)


def files(spill: Spill) -> list[Path]:
    assert spill.folder is not None
    return sorted(spill.folder.glob("*.safetensors"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_it_comes_back_to_the_bit(spill: Spill, dtype: torch.dtype) -> None:
    given = segment(dtype=dtype)
    assert spill.put(b"key", given)
    assert b"key" in spill
    assert_same(spill.get(b"key"), given)  # from memory or disk
    spill.flush()
    assert_same(spill.get(b"key"), given)
    assert spill.waiting_bytes == 0
    assert spill.num_bytes == files(spill)[0].stat().st_size


@pytest.mark.parametrize("storage", ["bfloat16", "int8"])
def test_a_packed_one_comes_back_packed(spill: Spill, storage: Storage) -> None:
    given = pack(segment(), storage)
    assert given is not None
    spill.put(b"key", given)
    spill.flush()
    back = spill.get(b"key")
    assert_same(back, given)
    assert back is not None
    assert_same(back.unpack(), given.unpack())


def test_the_mark_of_what_is_not_exact_comes_back(spill: Spill) -> None:
    given = KVSegment(segment().keys, segment().values, is_exact=False)
    spill.put(b"key", given)
    spill.flush()
    assert_same(spill.get(b"key"), given)


def test_only_the_owner_can_read_and_the_file_says_what_it_is(spill: Spill) -> None:
    spill.put(b"key", segment(), root="00ff", tokens="abc")
    spill.flush()
    (file,) = files(spill)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    with safe_open(file, framework="pt") as opened:
        assert opened.metadata() == {"key": b"key".hex(), "root": "00ff", "tokens": "abc"}


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def shorten(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def lengthen(file: Path) -> None:
    with file.open("ab") as opened:
        opened.write(b"more")


def swap(file: Path) -> None:
    other = next(path for path in file.parent.glob("*.safetensors") if path != file)
    file.write_bytes(other.read_bytes())


def remove(file: Path) -> None:
    file.unlink()


@pytest.mark.parametrize("harm", [flip, shorten, lengthen, swap, remove])
def test_what_was_harmed_is_a_miss(spill: Spill, harm: object) -> None:
    spill.put(b"a", segment(1))
    spill.put(b"b", segment(2))
    spill.flush()
    assert callable(harm)
    harm(files(spill)[0])
    assert spill.get(b"a") is None
    assert b"a" not in spill
    assert_same(spill.get(b"b"), segment(2))
    assert spill.put(b"a", segment(1))  # and can be written anew
    spill.flush()
    assert_same(spill.get(b"a"), segment(1))


def test_the_disk_space_holds_and_the_oldest_go(tmp_path: Path) -> None:
    probe = Spill(10**6, folder=tmp_path)
    probe.put(b"0", segment())
    probe.flush()
    size = probe.num_bytes
    probe.close()
    spill = Spill(3 * size, folder=tmp_path)
    for number in range(3):
        spill.put(bytes([number]), segment(number))
    spill.flush()
    assert_same(spill.get(bytes([0])), segment(0))  # now the youngest
    spill.put(bytes([3]), segment(3))
    spill.flush()
    assert [bytes([number]) in spill for number in range(4)] == [True, False, True, True]
    assert spill.num_bytes == sum(file.stat().st_size for file in files(spill)) <= 3 * size
    spill.close()


def test_one_larger_than_the_disk_space_is_not_taken(tmp_path: Path) -> None:
    given = segment()
    for budget_bytes in (0, given.num_bytes - 1, given.num_bytes):  # the file has a header
        spill = Spill(budget_bytes, folder=tmp_path)
        assert spill.put(b"key", given) == (budget_bytes >= given.num_bytes)
        spill.flush()
        assert (spill.get(b"key"), spill.num_bytes, spill.waiting_bytes) == (None, 0, 0)
        spill.close()


def test_a_full_disk_is_a_miss(spill: Spill, monkeypatch: pytest.MonkeyPatch) -> None:
    def create(path: Path, content: bytes) -> None:
        path.write_bytes(content[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("readahead.lm.spill._create", create)
    spill.put(b"key", segment())
    spill.flush()
    assert spill.get(b"key") is None
    assert (files(spill), spill.num_bytes, spill.waiting_bytes) == ([], 0, 0)


def test_no_folder_is_a_miss(tmp_path: Path) -> None:
    spill = Spill(10**6, folder=tmp_path / "missing")
    assert not spill.put(b"key", segment())
    assert spill.get(b"key") is None
    spill.close()


def test_nobody_waits_for_the_disk(spill: Spill, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it does not answer, what has come waits in memory, and no more is taken than may."""
    go = threading.Event()
    monkeypatch.setattr("readahead.lm.spill._create", lambda path, content: go.wait(10))
    spill._max_waiting_bytes = 2 * segment().num_bytes
    assert [spill.put(bytes([n]), segment(n)) for n in range(3)] == [True, True, False]
    assert_same(spill.get(bytes([1])), segment(1))
    spill.discard([bytes([1])])
    assert spill.waiting_bytes == segment().num_bytes
    assert spill.put(bytes([3]), segment(3))
    go.set()
    spill.flush()
    assert spill.waiting_bytes == 0


def test_what_is_discarded_is_gone_from_the_disk(spill: Spill) -> None:
    for number in range(3):
        spill.put(bytes([number]), segment(number))
    spill.discard([bytes([0])])  # perhaps just being written
    spill.flush()
    spill.discard([bytes([1]), b"unknown"])
    assert [file.stem for file in files(spill)] == [bytes([2]).hex()]
    assert spill.num_bytes == files(spill)[0].stat().st_size


def test_closing_leaves_nothing(tmp_path: Path) -> None:
    spill = Spill(10**6, folder=tmp_path)
    spill.put(b"key", segment())
    spill.close()
    spill.close()
    assert list(tmp_path.iterdir()) == []
    assert spill.get(b"key") is None
    assert not spill.put(b"key", segment())


def test_two_of_one_process_leave_each_other_alone(tmp_path: Path) -> None:
    one = Spill(10**6, folder=tmp_path)
    one.put(b"key", segment(1))
    one.flush()
    two = Spill(10**6, folder=tmp_path)
    two.put(b"key", segment(2))
    two.flush()
    assert_same(one.get(b"key"), segment(1))
    assert_same(two.get(b"key"), segment(2))
    one.close()
    assert_same(two.get(b"key"), segment(2))
    two.close()


CHILD = """
import sys, json, torch
from pathlib import Path
from readahead.lm.kv import KVSegment
from readahead.lm.spill import Spill
spill = Spill(10**6, folder=Path(sys.argv[1]))
spill.put(b"key", KVSegment((torch.ones(1, 1, 4, 4),), (torch.zeros(1, 1, 4, 4),)))
spill.flush()
print(json.dumps(str(spill.folder)), flush=True)
if sys.argv[2] == "stay":
    sys.stdin.read()
"""


@pytest.mark.parametrize("ending", ["end", "stay"])
def test_nothing_is_left_of_a_process(tmp_path: Path, ending: str) -> None:
    """Not of one that ends without closing, and, once there is another, not of a killed one."""
    command = [sys.executable, "-c", CHILD, str(tmp_path), ending]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        folder = Path(json.loads(child.stdout.readline()))
        if ending == "stay":
            beside = Spill(10**6, folder=tmp_path)
            assert list(folder.glob("*.safetensors"))
            beside.close()
            child.send_signal(signal.SIGKILL)
        child.wait()
        assert folder.exists() == (ending == "stay")
        Spill(10**6, folder=tmp_path).close()
        assert list(tmp_path.iterdir()) == []
