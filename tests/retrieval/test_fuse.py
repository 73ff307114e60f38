import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.config import RetrievalConfig
from readahead.retrieval.fuse import MAX_RARITY_GAIN, fuse, heading_rarity, reciprocal_rank
from readahead.retrieval.records import Outline
from readahead.types import PassageKind

CONFIG = RetrievalConfig()
rankings = st.lists(
    st.tuples(st.integers(0, 30), st.floats(-1, 50, allow_subnormal=False)),
    unique_by=lambda hit: hit[0],
).map(lambda hits: sorted(hits, key=lambda hit: -hit[1]))


def outlines(**kinds: PassageKind) -> dict[int, Outline]:
    return {int(name.removeprefix("_")): Outline(kind, ()) for name, kind in kinds.items()}


def order(*lists: list[tuple[int, float]], kinds: dict[int, Outline] | None = None) -> list[int]:
    kinds = kinds or {id: Outline("paragraph", ()) for ids in lists for id, _ in ids}
    return [id for id, _ in fuse(lists, kinds, "", CONFIG)]


def test_a_single_list_keeps_its_order() -> None:
    assert order([(3, 9.0), (1, 5.0), (2, 4.9), (7, 0.1)]) == [3, 1, 2, 7]


def test_what_both_lists_find_comes_first() -> None:
    assert order([(1, 9.0), (2, 8.0), (9, 0.0)], [(3, 0.9), (2, 0.8), (8, 0.0)])[0] == 2


def test_a_list_that_tells_nothing_apart_does_not_decide() -> None:
    level = [(5, 0.702), (4, 0.701), (1, 0.70)]
    assert order([(1, 20.0), (2, 5.0), (3, 4.0)], level)[0] == 1


@given(rankings)
def test_no_vote_is_large_however_small_the_scores_of_its_list(
    ranking: list[tuple[int, float]],
) -> None:
    assert all(vote <= 1.01 / 6 + 1e-9 for vote in reciprocal_rank([ranking], rrf_k=5).values())


def test_equal_scores_are_ordered_by_id() -> None:
    assert order([(9, 2.0), (4, 1.0)], [(4, 2.0), (9, 1.0)]) == [4, 9]


def test_the_weight_of_a_kind_changes_the_ranking() -> None:
    ranking = [(1, 1.0), (2, 0.9), (3, 0.0)]
    assert order(ranking) == [1, 2, 3]
    assert order(ranking, kinds=outlines(_1="paragraph", _2="code", _3="list")) == [2, 1, 3]


def test_ids_without_outline_are_left_out() -> None:
    assert order([(1, 1.0), (2, 0.9)], kinds=outlines(_2="list")) == [2]


@given(st.lists(rankings, max_size=3), st.text())
def test_scores_fall_and_no_id_is_lost(lists: list[list[tuple[int, float]]], query: str) -> None:
    ids = {id for ranking in lists for id, _ in ranking}
    ranked = fuse(lists, {id: Outline("table", ("A", query)) for id in ids}, query, CONFIG)
    scores = [score for _, score in ranked]
    assert {id for id, _ in ranked} == ids
    assert scores == sorted(scores, reverse=True)
    assert all(score > 0 for score in scores)


@given(rankings)
def test_votes_keep_the_order_of_one_list(ranking: list[tuple[int, float]]) -> None:
    votes = reciprocal_rank([ranking], rrf_k=5)
    assert sorted(votes, key=lambda id: -votes[id]) == [id for id, _ in ranking]


def as_it_was(
    lists: list[list[tuple[int, float]]], outlines: dict[int, Outline], query: str
) -> list[tuple[int, float]]:
    """The formula while it looked at whole lists, however long."""
    votes = reciprocal_rank(lists, CONFIG.rrf_k)
    rarity = heading_rarity({id: outlines[id].heading for id in votes}, query)
    weights = CONFIG.kind_weights
    scores = {id: votes[id] * rarity[id] * weights.get(outlines[id].kind, 1.0) for id in votes}
    return sorted(scores.items(), key=lambda scored: (-scored[1], scored[0]))


kinds_of_many: st.SearchStrategy[dict[int, Outline]] = st.lists(
    st.sampled_from([Outline("title", ("A ab",)), Outline("code", ("b",)), Outline("list", ())]),
    min_size=31,
    max_size=31,
).map(lambda kinds: dict(enumerate(kinds)))


@given(st.lists(rankings, max_size=2), kinds_of_many, st.sampled_from(["a b", "b", ""]))
def test_within_the_candidates_the_order_is_as_it_was(
    lists: list[list[tuple[int, float]]], kinds: dict[int, Outline], query: str
) -> None:
    assert fuse(lists, kinds, query, CONFIG) == as_it_was(lists, kinds, query)


@given(
    *(st.lists(rankings, max_size=2), kinds_of_many, st.integers(1, 9), st.integers(0, 31)),
    st.sampled_from(["a b", "b", ""]),
)
def test_longer_lists_add_hits_at_the_end_and_move_none(
    lists: list[list[tuple[int, float]]],
    kinds: dict[int, Outline],
    num_candidates: int,
    more: int,
    query: str,
) -> None:
    config = RetrievalConfig(num_candidates=num_candidates)
    shorter = [ranking[: num_candidates + more] for ranking in lists]
    some, all = fuse(shorter, kinds, query, config), fuse(lists, kinds, query, config)
    assert all[: len(some)] == some
    scores = [score for _, score in all]
    assert scores == sorted(scores, reverse=True)
    assert len(all) == len({id for ranking in lists for id, _ in ranking})


def test_a_rare_heading_word_of_the_query_counts_more_than_a_common_one() -> None:
    headings = {1: ("Guide", "Tickets"), 2: ("Guide", "Dome"), 3: ("Guide",), 4: ("Guide",)}
    rarity = heading_rarity(headings, "guide to the dome")
    assert rarity[1] == rarity[3] == 1.0  # "guide" is in all headings and says nothing.
    assert rarity[2] == pytest.approx(1.0 + MAX_RARITY_GAIN)


@given(st.lists(st.text("ab 马上", max_size=6)), st.text("ab 马上", max_size=6))
def test_rarity_is_bounded(headings: list[str], query: str) -> None:
    rarity = heading_rarity({i: (text,) for i, text in enumerate(headings)}, query)
    assert all(1.0 <= value <= 1.0 + MAX_RARITY_GAIN + 1e-9 for value in rarity.values())
