import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.speculation.retrieval.followup import refers_back


@pytest.mark.parametrize(
    "question",
    [
        "and how do I delete it?",
        "And in winter?",
        "what about children?",
        "And who keeps it?",
        "What magnification does that give?",
        "Did anything break that night?",
        "How many of them have been used?",
        "When does the last one leave?",
        "Can I park there?",
        "What else?",
        "Why?",
        "When is its roof closed?",
        "那什么时候关门？",
        "学生呢",
        "它在哪里？",
        "这个多少钱？",
        "还有别的吗？",
    ],
)
def test_a_follow_up_refers_back(question: str) -> None:
    assert refers_back(question)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "?",
        "Who founded the observatory?",
        "Is there a lift?",
        "Will there be new nights?",
        "Which hut is the one with the roof that burned down?",
        "What is planned this year?",
        "How much does it cost to hire the dome?",
        "What happens on a night if it is cloudy?",
        "A child has lost its parents, what now?",
        "其他票种多少钱？",
        "应该怎么停车？",
        "天文台星期几闭馆？",
    ],
)
def test_a_question_that_stands_alone_does_not(question: str) -> None:
    assert refers_back(question) == ()


def test_the_signs_are_the_words() -> None:
    assert refers_back("And who built it?") == ("and", "it")
    assert refers_back("那学生呢？") == ("那", "呢")


@given(st.text())
def test_any_string_is_judged(question: str) -> None:
    refers_back(question)
