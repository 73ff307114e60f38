import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.speculation.answers.pool import Lookup, content_of, pool
from readahead.types import Draft, DraftFault
from tests.speculation.answers.scripted import passage

Q = "When was it built?"
PASSAGES = [
    passage("The lighthouse was built in 1885. It is 31 metres high.", 0),
    passage("The harbour is older. Its lighthouse of 1885 still burns.", 1),
    passage("The bridge was opened in May 1902 by Ada King.", 2),
]
ANSWERS = st.sampled_from(["1885", "In 1885", "1902", "May 1902", "Ada King", "ada king.", "nine"])
FAULTS: list[DraftFault] = ["", "", "", "empty", "refusal", "echo", "cut"]
DRAFTS = st.lists(
    st.builds(
        Draft,
        ANSWERS,
        st.tuples(st.integers(0, 2)),
        fault=st.sampled_from(FAULTS),
        logprob=st.sampled_from([-0.1, -0.5, -2.0]),
    ),
    max_size=6,
)


def draft(answer: str, place: int = 0, fault: DraftFault = "", logprob: float = -0.5) -> Draft:
    return Draft(answer, (place,), fault=fault, logprob=logprob)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1885", "In 1885."),
        ("Ada King", "ada king"),
        ("The Beatles", "beatles"),
        ("King, Ada", "Ada King"),
        ("2 million", "2,000,000"),
        ("café", "Cafe"),
        ("八月", "八月。"),
    ],
)
def test_duplicates_pool(one: str, other: str) -> None:
    (candidate,) = pool(Q, [draft(one, 0), draft(other, 1)], PASSAGES)
    assert candidate.drafts == (0, 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2021-04-03", "2021-03-04"),
        ("2021年4月3日", "2021年3月4日"),
        ("2-1", "1-2"),
        ("9:30", "30:9"),
        ("10.0.0.1", "10.0.1.0"),
        ("3.10", "3.1"),
        ("0123", "123"),
        ("9780306406157", "9780306406159"),
    ],
)
def test_values_that_differ_or_change_places_are_other_answers(one: str, other: str) -> None:
    shown = [passage(f"They say {one}.", 0), passage(f"They say {other}.", 1)]
    first, second = pool(Q, [draft(one), draft(one), draft(other)], shown)
    assert (first.answer, first.drafts, second.answer) == (one, (0, 1), other)
    assert [held.place for held in first.held] == [0]
    assert not first.agrees_with(second)


def test_with_less_said_it_is_still_the_same() -> None:
    for one, other in (("5%", "5"), ("10:10", "10"), ("April 3, 2021", "2021"), ("5 km", "5")):
        first, second = pool(Q, [draft(one), draft(other)], PASSAGES)
        assert first.agrees_with(second)
        assert second.agrees_with(first)


def test_what_a_question_names_is_an_answer() -> None:
    said = [draft("Huron is bigger")] * 3 + [draft("Erie is bigger")]
    for asked in (
        "Which is the larger lake, Huron or Erie?",
        "Which of Huron and Erie is bigger?",
        "Is Huron bigger than Erie?",
    ):
        assert [(one.answer, len(one.drafts)) for one in pool(asked, said, PASSAGES)] == [
            ("Huron is bigger", 3),
            ("Erie is bigger", 1),
        ]


def test_different_answers_do_not_pool() -> None:
    assert len(pool(Q, [draft("1885"), draft("1902"), draft("Yes"), draft("No")], PASSAGES)) == 4


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("before 1846", "after 1846"),
        ("Bob", "not Bob"),
        ("-5 °C", "5 °C"),
        ("$5", "€5"),
        ("C++", "C"),
        ("C#", "C++"),
        ("3/4", "4/3"),
    ],
)
def test_what_is_no_content_may_tell_answers_apart(one: str, other: str) -> None:
    first, second = pool(Q, [Draft(one, (0,)), Draft(other, (1,))], PASSAGES)
    assert not first.agrees_with(second)


def test_what_has_marks_is_held_word_by_word() -> None:
    texts = ("It was -5 °C.", "It was 5 °C.", "It was built before 1846.", "It was built in 1846.")
    lookup = [passage(text, place) for place, text in enumerate(texts)]
    for answer, places in (("-5 °C", [0]), ("before 1846", [2]), ("5 °C", [1]), ("1846", [2, 3])):
        (candidate,) = pool(Q, [Draft(answer, (0,))], lookup)
        assert [held.place for held in candidate.held] == places, answer


@given(drafts=DRAFTS)
def test_drafts_with_a_fault_support_nothing(drafts: list[Draft]) -> None:
    supporting = [number for one in pool(Q, drafts, PASSAGES) for number in one.drafts]
    assert sorted(supporting) == [n for n, one in enumerate(drafts) if not one.fault]


@given(drafts=DRAFTS, data=st.data())
def test_the_order_of_drafts_changes_no_answer(drafts: list[Draft], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(drafts))))
    pooled = pool(Q, drafts, PASSAGES)
    permuted = pool(Q, [drafts[number] for number in order], PASSAGES)
    said = {(c.answer, c.held, frozenset(c.drafts)) for c in pooled}
    assert said == {(c.answer, c.held, frozenset(order[i] for i in c.drafts)) for c in permuted}


def test_the_wording_of_most_is_the_answer() -> None:
    said = ["Argentina beat Germany", "Argentina beat Germany", "Germany beat Argentina"]
    for order in itertools.permutations(map(draft, said)):
        assert [one.answer for one in pool("Who won?", order, PASSAGES)] == [said[0]]


def test_a_wording_that_restates_the_question_is_not_the_answer() -> None:
    said = ["It was built in 1885", "It was built in 1885", "1885"]
    assert [one.answer for one in pool(Q, list(map(draft, said)), PASSAGES)] == ["1885"]


def test_the_shortest_of_several_wordings_is_the_answer() -> None:
    drafts = [draft("It was built in 1885"), draft("1885"), draft("In 1885")]
    for order in itertools.permutations(drafts):
        assert [c.answer for c in pool(Q, order, PASSAGES)] == ["1885"]


def test_an_answer_is_looked_up_in_all_passages_not_only_its_own() -> None:
    (candidate,) = pool(Q, [draft("1885", place=2)], PASSAGES)
    assert [held.place for held in candidate.held] == [0, 1]
    assert candidate.held[0].text == "The lighthouse was built in 1885."


def test_a_sentence_found_is_a_span_of_the_document() -> None:
    text = "It begins. The lamp burns oil. It ends."
    (held,) = Lookup([passage(text)]).held("burns oil", content_of("burns oil"))
    assert text[held.start : held.end] == held.text == "The lamp burns oil."


@pytest.mark.parametrize(
    ("answer", "places"),
    [
        ("1902", [2]),
        ("May 1902", [2]),
        ("June 1902", []),
        ("King Ada", [2]),
        ("31 metres", [0]),
        ("31 km", []),
        ("13 metres", []),
        ("885", []),
        ("—", []),
        ("no", []),
    ],
)
def test_what_passages_hold(answer: str, places: list[int]) -> None:
    passages = [*PASSAGES, passage("There is no ferry.", 3)]
    assert [held.place for held in Lookup(passages).held(answer, content_of(answer))] == places


@given(st.text())
def test_any_answer_can_be_looked_up(answer: str) -> None:
    for held in Lookup(PASSAGES).held(answer, content_of(answer)):
        assert held.text in PASSAGES[held.place].text


def test_nothing_comes_of_nothing() -> None:
    assert pool(Q, [], PASSAGES) == []
    assert pool(Q, [draft("1885")], [])[0].held == ()
