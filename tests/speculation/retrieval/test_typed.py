import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.speculation.retrieval.typed import (
    complete_part,
    looks_finished,
    stop_phrases,
    without_stop_phrases,
)

TYPED = st.text(
    st.sampled_from(string.ascii_letters + " 天文台几点？?-'\u0301,.\ud800") | st.characters()
)


@pytest.mark.parametrize(
    ("typed", "complete"),
    [
        *(("who got the fir", "who got the"), ("who got the ", "who got the"), ("who", "")),
        *(("who is he?", "who is he?"), ("who, wh", "who,"), ("", ""), (" ", "")),
        *(("a multi-", "a"), ("about node.j", "about"), ("a cafe\u0301", "a"), ("it's", "")),
        *(("天文台几点", "天文台几点"), ("天文台 ope", "天文台"), ("天文台ope", "天文台")),
    ],
)
def test_the_last_word_may_go_on(typed: str, complete: str) -> None:
    assert complete_part(typed) == complete


@given(TYPED, TYPED)
def test_what_is_complete_stays_as_it_is(before: str, after: str) -> None:
    """Typing on changes no word that was complete, and white space completes all."""
    complete = complete_part(before)
    assert before.startswith(complete)
    assert complete_part(before + " ") == before.rstrip()
    assert len(complete) <= len(complete_part(before + " " + after))


@pytest.mark.parametrize(
    "text",
    [
        *("Who is he?", "Is it open? ", "Tell me about the dome.", "Does it open (on Mondays)?"),
        *("who got the first nobel prize in physics", "when is the dome open"),
        *("天文台几点开门？", "中文导览什么时候开始", "门票多少钱", "天文台周一开门吗"),
    ],
)
def test_a_whole_question_looks_finished(text: str) -> None:
    assert looks_finished(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "?", "who got the first nobel prize in", "when is the next", "the dome"),
        *("who owns the dome, the", "what is the cost (", "what does the dome cost,"),
        *("天文台", "天文台什么时候和", "中文导览在"),
    ],
)
def test_a_part_of_a_question_does_not(text: str) -> None:
    assert not looks_finished(text)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        *(("I want to know", ""), ("I want to", ""), ("Hello, could you tell me", "")),
        *(("I want to know who built", "who built"), ("I’d like to know why", "why")),
        *(("How to delete", "delete"), ("howdy", "howdy"), ("history of the dome",) * 2),
        *(("我想知道", ""), ("请问怎么", ""), ("有没有可能", ""), ("你好，我想", "")),
        *(("请问怎么预订天文台", "预订天文台"), ("天文台我想知道",) * 2),
    ],
)
def test_phrases_that_say_nothing_yet_are_taken_off(text: str, rest: str) -> None:
    assert without_stop_phrases(text) == rest


def test_no_stop_phrase_says_anything() -> None:
    assert all(without_stop_phrases(phrase) == "" for phrase in stop_phrases())


@given(TYPED)
def test_any_string_can_be_read(text: str) -> None:
    looks_finished(text)
    without_stop_phrases(text)
