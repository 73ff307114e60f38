"""The tree against a plain set of what was read, and against the model's own cold prefill."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from readahead.lm.model import TransformersModel
from readahead.lm.prefixtree import PrefixTree, load, root_key
from readahead.lm.prompt import Part
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
    assert tree.num_evicted == 1


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
    monkeypatch.setattr("readahead.lm.prefixtree._child_key", lambda parent, ids: b"same")
    tree = PrefixTree(10**9)
    keep(tree, "one ")
    assert keep(tree, "two ") == 0
    assert (known(tree, "one "), known(tree, "two ")) == (4, 0)


def test_threads_leave_a_sound_tree() -> None:
    tree = PrefixTree(30 * TOKEN_BYTES)
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for i in range(40):
                keep(tree, "sys ", f"{(seed * i) % 7:04}", f"{i % 5:04}")
                known(tree, f"sys {i % 7:04}")
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


@dataclass
class Step:
    texts: tuple[str, ...]
    drops: str = ""
    releases: bool = False
    stops_after: int = 99


word = st.text("ab", min_size=1, max_size=3)
steps = st.lists(
    st.builds(
        Step,
        st.lists(word, min_size=1, max_size=4).map(tuple),
        st.sampled_from(["", "", "", "a", "ab"]),
        st.booleans(),
        st.integers(1, 12),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(steps=steps, budget=st.integers(0, 40))
def test_whatever_happens_what_is_given_back_is_what_a_cold_prefill_computes(
    steps: list[Step], budget: int
) -> None:
    """Random orders, partial hits, pins, evictions, drops and interrupted readings."""
    tree = PrefixTree(budget * TOKEN_BYTES)
    pinned = []
    for step in steps:
        ids = "".join(step.texts).encode()
        match = tree.match(ids, ROOT)
        cache = MODEL.new_cache()
        load(match, cache)
        assert cache.length == match.length
        held = cache.cut(0, cache.length).keys if cache.length else ()
        for ours, cold in zip(held, read(ids)[: len(held)], strict=True):
            torch.testing.assert_close(ours, cold[..., : match.length, :], atol=1e-4, rtol=0)
        if match.length < len(ids):
            MODEL.forward(torch.tensor([list(ids[match.length :][: step.stops_after])]), cache)
        tree.insert(parts(*step.texts), cache, ROOT)
        match.release() if step.releases else pinned.append(match)
        if step.drops:
            tree.drop(step.drops.__eq__)
        assert tree.check() == []
        assert tree.num_bytes <= tree.budget_bytes
    for match in pinned:
        match.release()
    tree.clear()
    assert tree.num_bytes == 0
