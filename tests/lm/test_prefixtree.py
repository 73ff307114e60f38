"""The tree against a plain set of what was read, and against the model's own cold prefill."""

import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from readahead.config import CacheConfig
from readahead.lm.model import TransformersModel
from readahead.lm.node import num_shared
from readahead.lm.pack import PackedSegment, Storage
from readahead.lm.prefixtree import PrefixTree, load, root_key
from readahead.lm.prompt import Part
from readahead.lm.spill import Spill
from tests.conftest import make_llama, make_tokenizer

MODEL = TransformersModel(make_llama(), make_tokenizer())
ROOT = root_key("model")


def read(ids: Sequence[int]) -> tuple[torch.Tensor, ...]:
    cache = MODEL.new_cache()
    MODEL.forward(torch.tensor([list(ids)]), cache)
    return cache.cut(0, len(ids)).keys


def parts(*texts: str) -> list[Part]:
    return [Part(tuple(text.encode()), label=text) for text in texts]


def keep(tree: PrefixTree, *texts: str, root: bytes = ROOT) -> int:
    cache = MODEL.new_cache()
    MODEL.forward(torch.tensor([list("".join(texts).encode())]), cache)
    return tree.insert(parts(*texts), cache, root)


def known(tree: PrefixTree, text: str, root: bytes = ROOT) -> int:
    with tree.match(text.encode(), root) as match:
        return match.length


def token_bytes() -> int:
    cache = MODEL.new_cache()
    MODEL.forward(torch.tensor([[1]]), cache)
    return cache.num_bytes


TOKEN_BYTES = token_bytes()


def test_what_was_read_is_found_as_far_as_it_is_the_same() -> None:
    tree = PrefixTree(10**9)
    assert known(tree, "system") == 0
    assert keep(tree, "system ", "first ", "second ") == len("system first second ")
    assert known(tree, "system first second and more") == len("system first second ")
    assert known(tree, "system first sec") == len("system first sec")
    assert known(tree, "system fiXst") == len("system fi")
    assert known(tree, "first second") == 0
    assert tree.check() == []


def test_siblings_that_begin_alike_give_the_longest_match() -> None:
    tree = PrefixTree(10**9)
    keep(tree, "ab", "cdef")
    keep(tree, "abc", "x")
    assert known(tree, "abcdefgh") == 6
    assert known(tree, "abcxyz") == 4


def test_models_and_tenants_do_not_see_each_other() -> None:
    tree = PrefixTree(10**9)
    keep(tree, "system ", root=root_key("model", "alice"))
    assert known(tree, "system ", root_key("model", "alice")) == 7
    assert known(tree, "system ", root_key("model", "bob")) == 0
    assert known(tree, "system ", root_key("other", "alice")) == 0
    assert root_key("a", "b\ud800") != root_key("a", "b\ud801")


def test_an_interrupted_part_gives_way_to_the_whole() -> None:
    tree = PrefixTree(10**9)
    keep(tree, "system ", "fir")
    keep(tree, "system ", "first ")
    assert tree.num_bytes == len("system first ") * TOKEN_BYTES
    keep(tree, "system ", "fi")  # knows less than what is there: kept, harmless, evictable
    assert known(tree, "system first ") == len("system first ")
    assert tree.check() == []


def test_a_stale_document_goes_with_all_that_was_read_behind_it() -> None:
    tree = PrefixTree(10**9)
    keep(tree, "system ", "old ", "new ")
    keep(tree, "system ", "new ")
    assert tree.labels() == {"system ", "old ", "new "}
    assert tree.drop(lambda label: label == "old ") == 2
    assert known(tree, "system old new ") == len("system ")
    assert known(tree, "system new ") == len("system new ")
    assert tree.check() == []


def test_the_budget_holds_and_the_cheapest_leaf_goes_first() -> None:
    tree = PrefixTree(12 * TOKEN_BYTES)
    cache = MODEL.new_cache()
    MODEL.forward(torch.tensor([list(b"sys dear")]), cache)
    tree.insert(parts("sys ", "dear"), cache, ROOT, cost_s_per_token=9.0)
    keep(tree, "sys ", "bad ")
    keep(tree, "sys ", "new ")
    assert tree.num_bytes <= tree.budget_bytes
    assert (known(tree, "sys dear"), known(tree, "sys bad "), known(tree, "sys new ")) == (8, 4, 8)
    assert tree.steps == {"evicted": 1}


def test_what_was_dear_long_ago_ages() -> None:
    tree = PrefixTree(8 * TOKEN_BYTES)
    cache = MODEL.new_cache()
    MODEL.forward(torch.tensor([list(b"sys dear")]), cache)
    tree.insert(parts("sys ", "dear"), cache, ROOT, cost_s_per_token=1e-6)
    for index in range(50):
        cache = MODEL.new_cache()
        ids = list(f"sys {index:04}".encode())
        MODEL.forward(torch.tensor([ids]), cache)
        tree.insert(parts("sys ", f"{index:04}"), cache, ROOT, cost_s_per_token=9e-7)
        known(tree, f"sys {index:04}")
    assert known(tree, "sys dear") == 4


def test_a_pinned_path_outlives_a_full_budget() -> None:
    tree = PrefixTree(8 * TOKEN_BYTES)
    keep(tree, "sys ", "one ")
    with tree.match(b"sys one ", ROOT) as match:
        assert keep(tree, "sys ", "two ") == 4  # no room: kept as far as it reaches
        cache = MODEL.new_cache()
        load(match, cache)
        assert cache.length == 8
    assert keep(tree, "sys ", "two ") == 8
    assert known(tree, "sys one ") == 4


def test_what_is_dropped_while_pinned_can_be_used_to_the_end() -> None:
    tree = PrefixTree(10**9)
    keep(tree, "sys ", "one ")
    with tree.match(b"sys one ", ROOT) as match:
        tree.drop(lambda label: True)
        assert tree.num_bytes == 0
        cache = MODEL.new_cache()
        load(match, cache)
        assert cache.length == 8
    assert tree.check() == []


def test_no_budget_keeps_nothing() -> None:
    tree = PrefixTree(0)
    assert keep(tree, "system ") == 0
    assert tree.check() == []


def test_clear_leaves_what_is_pinned() -> None:
    tree = PrefixTree(10**9)
    keep(tree, "sys ", "one ")
    keep(tree, "sys ", "two ")
    with tree.match(b"sys one ", ROOT):
        tree.clear()
    assert (known(tree, "sys one "), known(tree, "sys two ")) == (8, 4)
    tree.clear()
    assert tree.num_bytes == 0


def test_a_wrong_key_is_seen() -> None:
    tree = PrefixTree(10**9)
    keep(tree, "sys ")
    with tree.match(b"sys ", ROOT) as match:
        match.nodes[0].part = Part(tuple(b"XXXX"))
        assert tree.check()


def test_equal_keys_with_other_tokens_do_not_match(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the hash collided, the tokens decide."""
    monkeypatch.setattr("readahead.lm.prefixtree.child_key", lambda parent, ids: b"same")
    tree = PrefixTree(10**9)
    keep(tree, "one ")
    assert keep(tree, "two ") == 0
    assert (known(tree, "one "), known(tree, "two ")) == (4, 0)


# Packed and spilled nodes.


@pytest.fixture
def spill(tmp_path: Path) -> Iterator[Spill]:
    made = Spill(10**6, folder=tmp_path)
    yield made
    made.close()


NUM_DEEP = 3000  # three times as many as Python lets functions call themselves


def test_a_path_may_have_thousands_of_parts(spill: Spill) -> None:
    tree = PrefixTree(10**9, spill=spill)
    text = "ab" * (NUM_DEEP // 2)
    deep = [Part((token_id,), str(place)) for place, token_id in enumerate(text.encode())]
    cache = MODEL.new_cache()
    for step in torch.tensor([list(text.encode())]).split(500, dim=1):
        MODEL.forward(step, cache)
    assert tree.insert(deep, cache, ROOT) == NUM_DEEP
    assert known(tree, text) == NUM_DEEP
    with tree.find({str(NUM_DEEP - 1)}, ROOT) as copies:
        assert [place for place, _ in copies.places] == [NUM_DEEP - 1]
    tree.shrink(2 * TOKEN_BYTES)
    assert (tree.num_bytes, tree.steps) == ((NUM_DEEP - 2) * TOKEN_BYTES, {"spilled": 2})
    assert tree.drop(str(NUM_DEEP - 1000).__eq__) == 1000
    assert tree.check() == []
    tree.close()
    assert tree.num_bytes == 0


def test_thousands_of_nodes_step_down_in_no_time() -> None:
    tree, num_parts = PrefixTree(10**9), 4000
    parts = [Part((token_id,)) for token_id in b"ab" * (num_parts // 2)]
    cache = MODEL.new_cache()
    for step in torch.tensor([list(b"ab" * (num_parts // 2))]).split(500, dim=1):
        MODEL.forward(step, cache)
    tree.insert(parts, cache, ROOT)
    began_s = time.monotonic()
    tree.shrink(num_parts // 2 * TOKEN_BYTES)
    assert tree.steps == {"evicted": num_parts // 2}
    tree.clear()
    assert time.monotonic() - began_s < 5


def test_the_settings_make_the_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    config = CacheConfig(budget_bytes=10**6, storage="int8", spill_bytes=10**6)
    tree = PrefixTree.open(config, torch.device("cpu"))
    keep(tree, "sys ", "one ")
    tree.shrink(10**6)
    assert (tree.budget_bytes, tree.steps) == (10**6, {"packed": 2, "spilled": 2})
    assert list(tmp_path.iterdir())
    tree.close()
    assert (tree.num_bytes, list(tmp_path.iterdir())) == (0, [])
    assert PrefixTree.open(CacheConfig(), torch.device("cpu")).budget_bytes > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("storage", ["same", "int8"])
@pytest.mark.parametrize("has_disk", [False, True])
def test_threads_leave_a_sound_tree(spill: Spill, storage: Storage, has_disk: bool) -> None:
    spill.budget_bytes = 40_000
    tree = PrefixTree(30 * TOKEN_BYTES, storage=storage, spill=spill if has_disk else None)
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for i in range(40):
                keep(tree, "sys ", f"{(seed * i) % 7:04}", f"{i % 5:04}")
                text = f"sys {i % 7:04}"
                cache = MODEL.new_cache()
                with tree.match(text.encode(), ROOT) as match:
                    load(match, cache)
                if cache.length and cache.is_exact:
                    cold = read(text.encode()[: cache.length])
                    torch.testing.assert_close(cache.cut(0, cache.length).keys, cold)
                if i % 13 == 0:
                    tree.drop(lambda label: label == "0003")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert tree.check() == []
    assert tree.num_bytes <= tree.budget_bytes
    assert (tree.steps["recalled"] > 0) == has_disk
    spill.flush()
    assert spill.num_bytes <= spill.budget_bytes


def loaded(tree: PrefixTree, text: str) -> tuple[int, bool]:
    """Return how many tokens a cache gets, and whether they are exact."""
    cache = MODEL.new_cache()
    with tree.match(text.encode(), ROOT) as match:
        load(match, cache)
        assert match.length == cache.length
        assert match.is_exact == cache.is_exact
    return cache.length, cache.is_exact


def test_the_cold_are_packed_before_anything_goes() -> None:
    tree = PrefixTree(12 * TOKEN_BYTES, storage="int8")
    keep(tree, "sys ", "one ")
    assert loaded(tree, "sys one ") == (8, True)
    keep(tree, "sys ", "two ")
    keep(tree, "sys ", "six ")
    assert "evicted" not in tree.steps
    assert tree.steps["packed"]
    assert tree.num_bytes <= tree.budget_bytes
    assert [loaded(tree, text)[0] for text in ("sys one ", "sys two ", "sys six ")] == [8, 8, 8]
    assert tree.check() == []


def test_what_is_read_behind_a_packed_node_is_marked_like_it() -> None:
    tree = PrefixTree(10**9, storage="bfloat16")
    keep(tree, "sys ", "one ")
    tree.shrink(tree.num_bytes // 3)
    assert tree.steps == {"packed": 2}
    cache = MODEL.new_cache()
    with tree.match(b"sys one ", ROOT) as match:
        assert not match.is_exact
        load(match, cache)
    MODEL.forward(torch.tensor([list(b"new ")]), cache)
    tree.clear()
    tree.insert(parts("sys ", "one ", "new "), cache, ROOT)
    with tree.match(b"sys one new ", ROOT) as match:
        assert [node.is_exact for node in match.nodes] == [False] * 3
    keep(tree, "new ")
    assert loaded(tree, "new ") == (4, True)


def test_a_pinned_node_is_not_packed() -> None:
    tree = PrefixTree(10**9, storage="int8")
    keep(tree, "sys ", "one ")
    with tree.match(b"sys ", ROOT):
        tree.shrink(10**9)
        assert loaded(tree, "sys ") == (4, True)


def test_a_packed_node_goes_when_packing_is_not_enough() -> None:
    tree = PrefixTree(10**9, storage="int8")
    keep(tree, "sys ", "one ")
    assert tree.shrink(10**9) == 8 * TOKEN_BYTES
    assert (tree.num_bytes, tree.steps) == (0, {"packed": 2, "evicted": 2})


def test_what_loses_its_memory_comes_back_from_the_disk(spill: Spill) -> None:
    tree = PrefixTree(8 * TOKEN_BYTES, spill=spill)
    keep(tree, "sys ", "one ")
    keep(tree, "sys ", "two ")
    assert tree.num_bytes == 8 * TOKEN_BYTES
    spill.flush()
    assert known(tree, "sys one ") == known(tree, "sys two ") == 8
    assert tree.steps == {"spilled": 1}
    assert loaded(tree, "sys one ") == (8, True)
    assert tree.steps == {"spilled": 2, "recalled": 1}
    assert tree.num_bytes == 8 * TOKEN_BYTES
    assert tree.check() == []


def test_a_whole_path_comes_back(spill: Spill) -> None:
    tree = PrefixTree(10**9, spill=spill)
    keep(tree, "sys ", "one ", "two ")
    tree.shrink(10**9)
    assert (tree.num_bytes, tree.steps["spilled"]) == (0, 3)
    spill.flush()
    assert loaded(tree, "sys one tXX") == (9, True)
    assert tree.num_bytes == 12 * TOKEN_BYTES
    assert tree.check() == []


def test_what_has_no_room_in_memory_is_used_from_the_disk(spill: Spill) -> None:
    tree = PrefixTree(8 * TOKEN_BYTES, spill=spill)
    keep(tree, "sys ", "one ")
    keep(tree, "sys ", "two ")
    with tree.match(b"sys two ", ROOT):
        assert loaded(tree, "sys one ") == (8, True)
    assert tree.steps == {"spilled": 1}


def test_a_packed_node_goes_to_disk_packed(spill: Spill) -> None:
    tree = PrefixTree(10**9, storage="int8", spill=spill)
    keep(tree, "sys ")
    tree.shrink(10**9)
    spill.flush()
    assert tree.steps == {"packed": 1, "spilled": 1}
    assert loaded(tree, "sys ") == (4, False)
    with tree.match(b"sys ", ROOT) as match:
        assert isinstance(match.nodes[0].segment, PackedSegment)


def test_what_was_harmed_on_disk_shortens_the_match(spill: Spill) -> None:
    tree = PrefixTree(10**9, spill=spill)
    keep(tree, "sys ", "one ", "two ")
    tree.shrink(10**9)
    spill.flush()
    assert spill.folder is not None
    with tree.match(b"sys one two ", ROOT) as match:
        (spill.folder / f"{match.nodes[1].key.hex()}.safetensors").unlink()
    assert loaded(tree, "sys one two ") == (4, True)
    assert known(tree, "sys one two ") == 4
    assert tree.check() == []


def test_a_document_that_goes_leaves_the_disk(spill: Spill) -> None:
    tree = PrefixTree(10**9, spill=spill)
    keep(tree, "sys ", "old ", "new ")
    tree.shrink(10**9)
    spill.flush()
    assert spill.folder is not None
    tree.drop("old ".__eq__)
    spill.flush()
    assert len(list(spill.folder.glob("*.safetensors"))) == 1
    assert tree.labels() == {"sys "}


def test_what_is_read_sooner_than_loaded_does_not_go_to_disk(spill: Spill) -> None:
    tree = PrefixTree(10**9, spill=spill)
    cache = MODEL.new_cache()
    MODEL.forward(torch.tensor([list(b"sys ")]), cache)
    tree.insert(parts("sys "), cache, ROOT, cost_s_per_token=1e-9)
    tree.shrink(10**9)
    assert tree.steps == {"evicted": 1}


def test_nodes_whose_files_made_room_go_from_the_tree(tmp_path: Path) -> None:
    spill = Spill(4 * 4 * TOKEN_BYTES, folder=tmp_path)
    tree = PrefixTree(8 * TOKEN_BYTES, spill=spill)
    for number in range(40):
        keep(tree, f"{number:04}")
        spill.flush()
    assert 2 < len(tree.labels()) <= 6
    assert spill.num_bytes <= spill.budget_bytes
    spill.close()


@dataclass
class Step:
    texts: tuple[str, ...]
    drops: str = ""
    releases: bool = False
    stops_after: int = 99
    flushes: bool = False
    harms: bool = False


word = st.text("ab", min_size=1, max_size=3)
steps = st.lists(
    st.builds(
        Step,
        st.lists(word, min_size=1, max_size=4).map(tuple),
        st.sampled_from(["", "", "", "a", "ab"]),
        st.booleans(),
        st.integers(1, 12),
        st.booleans(),
        st.sampled_from([False, False, False, True]),
    ),
    min_size=1,
    max_size=12,
)


def harm(spill: Spill) -> None:
    assert spill.folder is not None
    for file in list(spill.folder.glob("*.safetensors"))[:1]:
        file.write_bytes(file.read_bytes()[:-1])


@settings(max_examples=100, deadline=None)
@given(
    steps=steps,
    budget=st.integers(0, 40),
    disk=st.sampled_from([0, 3_000, 10**6]),
    storage=st.sampled_from(["same", "same", "bfloat16", "int8"]),
)
def test_whatever_happens_what_is_given_back_is_what_a_cold_prefill_computes(
    steps: list[Step], budget: int, disk: int, storage: Storage
) -> None:
    """Random orders, partial hits, pins, evictions, drops, interrupted readings, harmed files.

    What is not exact says so, and is near in the first layer, which depends on its token alone.
    """
    with tempfile.TemporaryDirectory() as folder:
        spill = Spill(disk, folder=Path(folder)) if disk else None
        tree = PrefixTree(budget * TOKEN_BYTES, storage=storage, spill=spill)
        check_steps(steps, tree, spill, may_lose_bits=storage != "same")
        if spill:
            spill.close()


def check_steps(
    steps: list[Step], tree: PrefixTree, spill: Spill | None, *, may_lose_bits: bool
) -> None:
    pinned = []
    for step in steps:
        ids = "".join(step.texts).encode()
        match = tree.match(ids, ROOT)
        cache = MODEL.new_cache()
        load(match, cache)
        assert cache.length == match.length
        assert cache.is_exact or may_lose_bits
        held = cache.cut(0, cache.length).keys if cache.length else ()
        layers = list(zip(held, read(ids)[: len(held)], strict=True))
        for ours, cold in layers if cache.is_exact else layers[:1]:
            near = 1e-4 if cache.is_exact else 0.05
            torch.testing.assert_close(ours, cold[..., : match.length, :], atol=near, rtol=0)
        if match.length < len(ids):
            MODEL.forward(torch.tensor([list(ids[match.length :][: step.stops_after])]), cache)
        tree.insert(parts(*step.texts), cache, ROOT)
        match.release() if step.releases else pinned.append(match)
        if step.drops:
            tree.drop(step.drops.__eq__)
        if spill and step.flushes:
            spill.flush()
            harm(spill) if step.harms else None
            assert spill.num_bytes <= spill.budget_bytes
        assert tree.check() == []
        assert tree.num_bytes <= tree.budget_bytes
    for match in pinned:
        match.release()
    tree.clear()
    assert tree.num_bytes == 0


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_tokens_are_shared_up_to_the_first_difference(first: list[int], second: list[int]) -> None:
    length = num_shared(tuple(first), tuple(second))
    assert first[:length] == second[:length]
    assert first[length : length + 1] != second[length : length + 1] or length == len(first)
