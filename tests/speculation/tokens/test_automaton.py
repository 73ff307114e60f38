import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.speculation.tokens.automaton import Match, SuffixAutomaton

# Few different tokens, so that nearly all runs occur more than once.
TEXT = st.lists(st.integers(0, 2), max_size=24)
TEXTS = st.lists(TEXT, max_size=5)


def brute(texts: list[list[int]], end: list[int]) -> tuple[int, int]:
    """Return the length of the longest match with a token behind, and the first place of that."""
    best, place, start = 0, 0, 0
    for text in texts:
        for stop in range(1, len(text)):
            length = num_common_at_end(text[:stop], end)
            if length > best:
                best, place = length, start + stop
        start += len(text)
    return best, place


def num_common_at_end(a: list[int], b: list[int]) -> int:
    length = 0
    while length < min(len(a), len(b)) and a[-1 - length] == b[-1 - length]:
        length += 1
    return length


def assert_match(automaton: SuffixAutomaton, match: Match, expected: tuple[int, int]) -> None:
    assert match.length == expected[0]
    if match.length:
        assert automaton.end_of(match) == expected[1]


@given(texts=TEXTS, read=st.lists(st.integers(0, 3), max_size=40))
def test_a_match_is_the_longest_there_is_and_the_first_of_equal_ones(
    texts: list[list[int]], read: list[int]
) -> None:
    automaton = SuffixAutomaton(texts)
    assert automaton.token_ids == sum(texts, [])
    match = Match()
    for position, token_id in enumerate(read):
        match = automaton.advance(match, token_id)
        assert_match(automaton, match, brute(texts, read[: position + 1]))


@given(texts=TEXTS, text=TEXT)
def test_the_end_of_the_present_text_is_found_while_it_grows(
    texts: list[list[int]], text: list[int]
) -> None:
    automaton = SuffixAutomaton(texts)
    automaton.begin_text()
    for position, token_id in enumerate(text):
        automaton.extend(token_id)
        so_far = text[: position + 1]
        assert_match(automaton, automaton.own_end(), brute([*texts, so_far], so_far))


@given(text=TEXT, behind=TEXT)
def test_text_that_is_not_written_is_matched_from_the_end_of_what_is(
    text: list[int], behind: list[int]
) -> None:
    automaton = SuffixAutomaton([text])
    match = automaton.own_end()
    for position, token_id in enumerate(behind):
        match = automaton.advance(match, token_id)
        assert_match(automaton, match, brute([text], text + behind[: position + 1]))
    assert automaton.token_ids == text


@pytest.mark.parametrize(
    ("texts", "read", "length", "end"),
    [
        ([[1, 2, 3], [4, 5]], [3], 0, 0),  # 4 stands in another text
        ([[1, 2, 3], [3, 4]], [1, 2, 3], 1, 4),  # nothing stands behind 1 2 3
        ([[9, 1, 2], [8, 1, 2, 7]], [8, 1], 2, 5),  # longer comes before earlier
        ([[9, 1, 2], [8, 1, 2, 7]], [1], 1, 2),  # earlier where equally long
        ([[], [1, 2], []], [1], 1, 1),
        ([[5, 6], [5, 6]], [5], 1, 1),
        ([], [1, 2], 0, 0),
    ],
)
def test_a_match_does_not_cross_into_the_next_text(
    texts: list[list[int]], read: list[int], length: int, end: int
) -> None:
    automaton = SuffixAutomaton(texts)
    match = Match()
    for token_id in read:
        match = automaton.advance(match, token_id)
    assert_match(automaton, match, (length, end))


class Counted(list[int]):
    """Counts how often it is asked."""

    def __init__(self, items: list[int]) -> None:
        super().__init__(items)
        self.num_asked = 0

    def __getitem__(self, index: Any) -> Any:
        self.num_asked += 1
        return super().__getitem__(index)


def fibonacci(num_tokens: int) -> list[int]:
    shorter, longer = [0], [0, 1]
    while len(longer) < num_tokens:
        shorter, longer = longer, longer + shorter
    return longer[:num_tokens]


N = 2000
RANDOM = random.Random(0)
SHAPES = {
    "one token": [0] * N,
    "two in turn": [0, 1] * (N // 2),
    "one, then another": [0] * (N // 2) + [1] * (N // 2),
    "most states": [0] + [1] * (N - 1),
    "most transitions": [0] + [1] * (N - 2) + [2],
    "fibonacci": fibonacci(N),
    "two at random": [RANDOM.randrange(2) for _ in range(N)],
    "many at random": [RANDOM.randrange(10_000) for _ in range(N)],
    "a passage again and again": [RANDOM.randrange(10_000) for _ in range(N // 10)] * 10,
}


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_building_and_reading_take_steps_and_room_in_proportion_to_the_text(
    text: list[int],
) -> None:
    automaton = SuffixAutomaton()
    # Every step of every loop follows one link.
    automaton._links = links = Counted(automaton._links)
    for token_id in text:
        automaton.extend(token_id)
    assert links.num_asked <= 4 * N
    assert len(automaton._moves) <= 2 * N
    assert sum(map(len, automaton._moves)) <= 3 * N

    links.num_asked = 0
    match = Match()
    for token_id in [*text[N // 3 :], *text[: N // 2]]:
        match = automaton.advance(match, token_id)
    assert links.num_asked <= 4 * N


@given(texts=TEXTS, stop=st.integers(0, 24))
def test_what_stands_at_the_beginning_of_an_earlier_text_takes_no_states(
    texts: list[list[int]], stop: int
) -> None:
    num_states = len(SuffixAutomaton(texts)._moves)
    again = [text[:stop] for text in texts]
    assert len(SuffixAutomaton([*texts, *again])._moves) == num_states
