"""Orders are compared with all that there are; what is known is a set of orders."""

from collections.abc import Callable, Iterable, Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.config import PrefetchConfig
from readahead.speculation.retrieval.plan import PRICE, plan_passages
from readahead.types import Hit, Passage

HEAD = 10
Known = Callable[[Sequence[Passage]], tuple[int, int]]


def knows(lengths: dict[str, int], *orders: str, partly: int = 0) -> Known:
    """Return what is known once these orders were read, and ``partly`` of what follows them."""
    read = {order[:end] for order in orders for end in range(len(order) + 1)} | {""}

    def known(passages: Sequence[Passage]) -> tuple[int, int]:
        ids = "".join(passage.id for passage in passages)
        ends = [end for end in range(len(ids) + 1) if ids[:end] in read]
        whole = ids[: max(ends)]
        rest = min(partly, lengths[ids[len(whole)]]) if len(whole) < len(ids) else 0
        return HEAD + count(whole) + rest, HEAD + count(ids)

    def count(ids: Iterable[str]) -> int:
        return sum(lengths[id] for id in ids)

    return known


def plan(
    stays: dict[str, float], known: Known, k: int = 3, threshold: float = 0.2, **config: object
) -> str:
    settings = PrefetchConfig.model_validate({"threshold": threshold, **config})
    hits = [Hit(Passage("d", "", 0, 0, id=id), 1.0) for id in stays]
    found = plan_passages(hits, list(stays.values()), k, settings, known)
    return "".join(passage.id for passage in found)


EVEN = dict.fromkeys("abcdef", 100)


def test_the_likeliest_come_first_and_the_unlikely_not_at_all() -> None:
    assert plan({"a": 0.6, "b": 0.9, "c": 0.1, "d": 0.7}, knows(EVEN), threshold=0.3) == "bda"
    assert plan({"a": 0.6, "b": 0.9, "c": 0.1, "d": 0.7}, knows(EVEN), threshold=0.5) == "bd"
    assert plan({"a": 0.1}, knows(EVEN)) == ""
    assert plan({}, knows(EVEN)) == ""


def test_equal_ones_come_by_rank() -> None:
    assert plan(dict.fromkeys("abcd", 0.9), knows(EVEN)) == "abc"


def test_all_in_front_of_a_passage_have_to_stay() -> None:
    """Each is likelier than the threshold, three together are not."""
    assert plan(dict.fromkeys("abc", 0.7), knows(EVEN), threshold=0.4) == "ab"


def test_what_was_read_stays_in_front_while_it_is_likely_enough() -> None:
    known = knows(EVEN, "a")
    assert plan({"b": 0.9, "a": 0.8}, known, horizon_tokens=100) == "ab"
    assert plan({"b": 0.9, "a": 0.3}, known, horizon_tokens=100) == "ba"


def test_what_was_read_in_part_counts() -> None:
    stays = {"b": 0.8, "a": 0.7}
    assert plan(stays, knows(EVEN | {"a": 90}), horizon_tokens=50) == "ba"
    assert plan({"b": 0.8}, knows(EVEN, partly=50), horizon_tokens=50) == "b"
    half = knows(EVEN | {"b": 400}, partly=100)
    assert plan({"b": 0.6, "a": 0.7}, half, horizon_tokens=100) == "ba"


def test_time_decides_whether_to_begin_anew() -> None:
    """With much of it the likelier order is better, with little what is read already."""
    stays = {"b": 0.9, "a": 0.5}
    known = knows(EVEN | {"b": 300}, "a")
    assert plan(stays, known, horizon_tokens=50) == "ab"
    assert plan(stays, known, horizon_tokens=500) == "ba"


def test_under_exact_order_only_the_ranking_is_read() -> None:
    stays = {"a": 0.6, "b": 0.9, "c": 0.1, "d": 0.9}
    assert plan(stays, knows(EVEN), policy="exact-order") == "ab"
    assert plan({"a": 0.1, "b": 0.9}, knows(EVEN), policy="exact-order") == ""


def test_only_as_many_as_are_shown() -> None:
    assert plan(dict.fromkeys("abcd", 1.0), knows(EVEN), k=2) == "ab"
    assert plan(dict.fromkeys("abcd", 1.0), knows(EVEN), k=0) == ""


def test_many_passages_are_planned_soon() -> None:
    asked = 0
    names = [chr(0x100 + n) for n in range(40)]
    known = knows(dict.fromkeys(names, 1))

    def counted(passages: Sequence[Passage]) -> tuple[int, int]:
        nonlocal asked
        asked += 1
        return known(passages)

    found = plan(dict.fromkeys(names, 1.0), counted, k=20, threshold=0)
    assert found == "".join(names[:8])
    assert asked < 50


probabilities = st.sampled_from([0.05, 0.3, 0.5, 0.7, 0.9, 1.0])


@given(
    st.lists(probabilities, min_size=1, max_size=5),
    st.lists(st.integers(1, 300), min_size=5, max_size=5),
    st.lists(st.text("abcde", max_size=3), max_size=3),
    st.sampled_from([50, 300, 1000]),
    st.sampled_from([PRICE, 0.2, 0.5]),
)
def test_no_order_is_worth_more(
    stays: list[float], lengths: list[int], read: list[str], horizon: int, threshold: float
) -> None:
    named = dict(zip("abcde", stays, strict=False))
    sizes = dict(zip("abcde", lengths, strict=True))
    known = knows(sizes, *(order for order in read if len({*order}) == len(order)))
    found = plan(named, known, threshold=threshold, horizon_tokens=horizon)

    def worth(order: str) -> float:
        total, together, left = 0.0, 1.0, horizon
        for end, id in enumerate(order, start=1):
            together *= named[id]
            passages = [Passage("d", "", 0, 0, id=each) for each in order[:end]]
            num_known = known(passages)[0] - HEAD - sum(sizes[each] for each in order[: end - 1])
            num_read = min(left, sizes[id] - max(0, num_known))
            total += together * (max(0, num_known) + num_read) - PRICE * num_read
            left -= num_read
        return total

    orders = ["".join(each) for n in range(4) for each in permutations(named, n)]
    allowed = [order for order in orders if probability(order, named) >= threshold or not order]
    assert found in allowed
    assert worth(found) == pytest.approx(max(map(worth, allowed)))


def probability(order: str, stays: dict[str, float]) -> float:
    together = 1.0
    for id in order:
        together *= stays[id]
    return together
