from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.config import PrefetchConfig
from readahead.speculation.retrieval.order import Known, order_passages
from readahead.types import Hit, Passage

PASSAGES = [Passage(name, "x" * 10, 0, 10, id=name) for name in "abcdefgh"]
HITS = [Hit(passage, 1.0) for passage in PASSAGES]
SYSTEM, PASSAGE = 5, 10


def knows(*paths: str, half: str = "") -> Known:
    """Return what a tree would say that holds these paths, the last passage of ``half`` in part."""

    def known(passages: Sequence[Passage]) -> tuple[int, int]:
        wanted = "".join(passage.id for passage in passages)
        shared = max((shares(path, wanted) for path in paths), default=0)
        num_known = SYSTEM + PASSAGE * shared
        if half and half.startswith(wanted[: len(half)]) and len(wanted) >= len(half):
            num_known = max(num_known, SYSTEM + PASSAGE * len(half) - PASSAGE // 2)
        return num_known, SYSTEM + PASSAGE * len(wanted)

    return known


def shares(path: str, wanted: str) -> int:
    pairs = enumerate(zip(path, wanted, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(path), len(wanted)))


def order(policy: str, known: Known, k: int = 3, relaxed_k: int = 6) -> str:
    config = PrefetchConfig.model_validate({"policy": policy, "relaxed_k": relaxed_k})
    return "".join(passage.id for passage in order_passages(HITS, k, config, known))


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (knows(), "abc"),
        (knows("ba"), "bac"),
        (knows("bax"), "bac"),
        (knows("cab", "ba"), "cab"),
        (knows("a", "b", "bc"), "bca"),
        (knows("ed"), "abc"),  # not in the set
        (knows("b", "a"), "abc"),  # equal: by rank
        (knows(half="c"), "cab"),
    ],
)
def test_the_set_stays_and_the_order_follows_the_longest_known_path(
    known: Known, expected: str
) -> None:
    assert order("same-set", known) == expected


def test_the_exact_order_is_that_of_the_ranks() -> None:
    assert order("exact-order", knows("cba")) == "abc"


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (knows("de"), "dea"),  # both may stay, the very best is shown all the same
        (knows("def"), "dea"),
        (knows("dae"), "dae"),
        (knows("gh"), "abc"),  # too far down
        (knows("ed", "ba"), "bac"),  # equal: by rank
    ],
)
def test_a_relaxed_set_keeps_what_is_known_but_always_shows_the_best(
    known: Known, expected: str
) -> None:
    assert order("relaxed", known) == expected


@given(
    paths=st.lists(st.text("abcdefgh", max_size=5), max_size=4),
    k=st.integers(0, 5),
    policy=st.sampled_from(["same-set", "exact-order", "relaxed"]),
)
def test_every_order_keeps_its_promise(paths: list[str], k: int, policy: str) -> None:
    found = order(policy, knows(*paths), k)
    best = "abcdefgh"[:k]
    assert len(found) == k == len(set(found))
    if policy == "exact-order":
        assert found == best
    elif policy == "same-set":
        assert sorted(found) == sorted(best)
    else:
        assert not k or "a" in found
        assert set(found) <= set("abcdefgh"[: max(k, 6)])


def test_nothing_found_is_nothing_shown() -> None:
    assert order_passages([], 3, PrefetchConfig(), knows()) == []
