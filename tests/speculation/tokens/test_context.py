from hypothesis import given
from hypothesis import strategies as st

from readahead.speculation.tokens.context import (
    MIN_SIMILARITY,
    Selected,
    budget_tokens,
    by_rank,
    select,
)

similarity = st.floats(-1, 1)


def test_similar_passages_come_in_the_order_of_the_document() -> None:
    got = select([0.4, 0.1, 0.9, 0.35], [100] * 4, max_tokens=1000)
    assert got == Selected((0, 2, 3), (2, 0, 3), 300)


def test_the_budget_goes_to_the_most_similar() -> None:
    assert select([0.4, 0.5, 0.9], [60, 50, 50], max_tokens=110).places == (1, 2)
    # One that does not fit leaves its place to the next.
    assert select([0.9, 0.8, 0.7], [60, 90, 50], max_tokens=110).places == (0, 2)


def test_where_nothing_is_similar_the_best_are_read() -> None:
    got = select([0.1, 0.2, 0.05], [100] * 3, max_tokens=100)
    assert got == Selected((1,), (1,), 100, is_fallback=True)
    assert select([], [], max_tokens=100) == Selected((), (), 0)


def test_the_budget_of_the_source() -> None:
    assert budget_tokens(8000) == 2000  # a quarter
    assert budget_tokens(40_000) == 4096
    assert budget_tokens(120_000) == 5000  # L / 24
    assert budget_tokens(0) == 1


@given(st.lists(st.tuples(similarity, st.integers(1, 600)), min_size=1), st.integers(1, 5000))
def test_never_nothing_never_too_much(passages: list[tuple[float, int]], budget: int) -> None:
    similarities, sizes = zip(*passages, strict=True)
    got = select(similarities, sizes, max_tokens=budget)
    assert got.places
    assert len(got.places) == 1 or got.num_tokens <= budget
    assert got.num_tokens == sum(sizes[place] for place in got.places)
    assert list(got.places) == sorted(got.best_first)
    # What was left out although it fits was less similar than asked for.
    for place in set(range(len(sizes))) - set(got.places):
        if not got.is_fallback and similarities[place] >= 0.3:
            assert got.num_tokens + sizes[place] > budget


def test_what_words_find_counts_as_similar_in_its_order() -> None:
    similarities = by_rank([2, 0, 4, 1], 6)
    assert similarities[3] == similarities[5] == 0
    assert select(similarities, [1] * 6, max_tokens=99).best_first == (2, 0, 4, 1)
    assert select(similarities, [1] * 6, max_tokens=3).best_first == (2, 0, 4)
    assert select(by_rank([], 6), [1] * 6, max_tokens=2).is_fallback
    assert min(by_rank(list(range(500)), 500)) > MIN_SIMILARITY
