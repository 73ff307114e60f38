import math
from functools import partial
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readahead.retrieval.base import Vectors
from readahead.speculation.answers.clusters import beyond_question, k_means
from readahead.speculation.answers.subsets import STRATEGIES, Subset, choose_subsets
from readahead.types import Hit, Passage

values = st.none() | st.sampled_from(["2024", "2023-05-01", "soon", "0.5", 2021, 0.25, math.nan])
metadata = st.dictionaries(st.sampled_from(["date", "year", "authority", "weight"]), values)
pools = st.lists(st.tuples(st.sampled_from("ABC"), metadata), max_size=12)
names = st.sampled_from(list(STRATEGIES))


def hit(document: str = "A", **metadata: object) -> Hit:
    return Hit(Passage(document, "text", 0, 4, metadata=metadata), 1.0)


def hits(pool: list[tuple[str, dict[str, object]]]) -> list[Hit]:
    return [hit(document, **metadata) for document, metadata in pool]


def unit_rows(num: int, seed: int = 0, dim: int = 6) -> Vectors:
    rows = np.random.default_rng(seed).normal(size=(num, dim))
    unit: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


def ten(name: str, *, m: int = 5, k: int = 2, seed: int = 0) -> list[Subset]:
    return choose_subsets(STRATEGIES[name], [hit()] * 10, m=m, k=k, seed=seed)


@given(
    name=names,
    pool=pools,
    m=st.integers(-1, 12),
    k=st.integers(-1, 14),
    seed=st.integers(0, 5),
    has_vectors=st.booleans(),
    is_level=st.booleans(),
)
def test_every_strategy_keeps_its_promise(
    name: str,
    pool: list[tuple[str, dict[str, object]]],
    m: int,
    k: int,
    seed: int,
    has_vectors: bool,
    is_level: bool,
) -> None:
    vectors = unit_rows(len(pool) + 1, seed)
    vectors[1:] = vectors[1] if is_level and pool else vectors[1:]
    given = (vectors[1:], vectors[:1]) if has_vectors else ()
    choose = partial(choose_subsets, STRATEGIES[name], m=m, k=k, seed=seed)
    found = choose(hits(pool), *given)
    assert len(found) == len(set(found)) <= max(m, 0)
    assert bool(found) == (min(len(pool), m, k) > 0)
    for subset in found:
        assert 0 < len(subset) <= k
        assert list(subset) == sorted(set(subset))
        assert set(subset) <= set(range(len(pool)))
    # Scores, texts and ids decide nothing beyond the ranks.
    other = [
        Hit(Passage(h.passage.document, f"{i}", 7, 8, id=f"{-i}", metadata=h.passage.metadata), -i)
        for i, h in enumerate(hits(pool))
    ]
    assert choose(other, *given) == found
    # More drafts are the same drafts and more.
    assert choose(hits(pool), *given, m=m + 3)[: len(found)] == found


@pytest.mark.parametrize("name", sorted(set(STRATEGIES) - {"single"}))
def test_as_many_and_as_large_as_asked_from_ten(name: str) -> None:
    found = ten(name, m=5, k=2)
    assert len(found) == 5
    assert {len(subset) for subset in found} == {2}


@settings(max_examples=50)
@given(num=st.integers(1, 12), k=st.integers(1, 6), seed=st.integers(0, 20))
def test_perspectives_takes_one_of_each_cluster_until_all_choices_are_made(
    num: int, k: int, seed: int
) -> None:
    vectors, question = unit_rows(num, seed), unit_rows(1, seed + 100)
    rng = np.random.default_rng(seed)
    labels = k_means(beyond_question(vectors, question[0]), k, rng)
    found = choose_subsets(
        STRATEGIES["perspectives"], [hit()] * num, vectors, question, m=10_000, k=k, seed=seed
    )
    clusters = [np.flatnonzero(labels == label).tolist() for label in range(min(k, num))]
    assert set(found) == {tuple(sorted(choice)) for choice in product(*clusters)}
    assert found[0] == tuple(sorted(cluster[0] for cluster in clusters))
    largest = max(map(len, clusters))
    assert set().union(*found[:largest]) == set(range(num))  # nothing is left unread
    ranks = [sum(subset) for subset in found[largest:]]
    assert ranks == sorted(ranks)


def test_perspectives_groups_what_says_the_same() -> None:
    # Places 0, 1, 3 say one thing and 2, 4 another, each on top of what the question says.
    rows = [[0.8, 0.6, 0], [0.6, 0.8, 0], [0.8, 0, 0.6], [0.9, 0.43589, 0], [0.6, 0, 0.8]]
    vectors, question = np.array(rows, np.float32), np.array([[1, 0, 0]], np.float32)
    for seed in range(10):
        found = choose_subsets(
            STRATEGIES["perspectives"], [hit()] * 5, vectors, question, m=4, seed=seed
        )
        assert found == [(0, 2), (1, 4), (2, 3), (1, 2)]


def test_perspectives_without_vectors_goes_by_rank() -> None:
    found = ten("perspectives", m=8)
    assert found == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (0, 3), (1, 2), (0, 5)]


def test_perspectives_of_many_hits_makes_only_what_is_asked_for() -> None:
    found = choose_subsets(STRATEGIES["perspectives"], [hit()] * 300, m=400, k=20)
    assert len(found) == 400  # of 15 to the power of 20


def test_single_takes_the_best_one_by_one() -> None:
    assert ten("single", m=3, k=2) == [(0,), (1,), (2,)]


def test_sources_takes_each_document_then_what_is_left_of_them() -> None:
    pool = [hit(name) for name in "ABAACAB"]
    found = choose_subsets(STRATEGIES["sources"], pool, m=9)
    assert found == [(0, 2), (1, 6), (4,), (3, 5)]


def test_a_single_document_still_gives_several_drafts() -> None:
    assert ten("sources", m=3) == [(0, 1), (2, 3), (4, 5)]


def test_time_takes_the_newest_first_and_those_without_a_date_last() -> None:
    dates = ["2019", None, "May 3, 2024", "2024-05-03", "2021-02", "no date"]
    pool = [hit(date=date) if date else hit() for date in dates]
    found = choose_subsets(STRATEGIES["time"], pool)
    assert found == [(2, 3), (0, 4), (1, 5)]
    assert choose_subsets(STRATEGIES["time"], pool, k=1, m=9) == [
        (2,),
        (3,),
        (4,),
        (0,),
        (1,),
        (5,),
    ]


def test_the_first_key_with_a_date_counts() -> None:
    pool = [hit(year=2020), hit(date="unknown", year=2022), hit(date="2021-01-01", year=2025)]
    assert choose_subsets(STRATEGIES["time"], pool, k=1) == [(1,), (2,), (0,)]


def test_authority_takes_the_weightiest_first() -> None:
    weights: list[object] = [0.2, "0.9", None, True, -1, math.inf, 0.9, "high", 10**400]
    pool = [hit(weight=weight) for weight in weights]
    found = choose_subsets(STRATEGIES["authority"], pool, k=1, m=9)
    assert found == [(1,), (6,), (0,), (4,), (2,), (3,), (5,), (7,), (8,)]


def test_another_key_may_be_named() -> None:
    pool = [hit(stars=2), hit(stars=5), hit(stars=4)]
    found = choose_subsets(partial(STRATEGIES["authority"], keys=["stars"]), pool, k=1)  # type: ignore[call-arg]
    assert found == [(1,), (2,), (0,)]


def test_contiguous_takes_neighbours() -> None:
    assert ten("contiguous", m=9, k=4) == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9)]


def test_random_draws_all_alike_and_stops_when_none_is_left() -> None:
    assert sorted(ten("random", m=99)) == list(combinations(range(10), 2))
    drawn = [subset for seed in range(400) for subset in ten("random", seed=seed)]
    counts = [sum(place in subset for subset in drawn) for place in range(10)]
    assert all(300 < count < 500 for count in counts)  # 400 each


def test_the_seed_decides_what_is_random() -> None:
    assert ten("random", seed=1) == ten("random", seed=1) != ten("random", seed=2)


def test_a_vector_for_each_hit_or_none() -> None:
    with pytest.raises(ValueError, match="2 vectors for 3 hits"):
        choose_subsets(STRATEGIES["perspectives"], [hit()] * 3, unit_rows(2))
