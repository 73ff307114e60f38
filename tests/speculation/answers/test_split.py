import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.lm.model import TransformersModel
from readahead.speculation.answers.split import (
    CHINESE_SPLIT,
    ENGLISH_SPLIT,
    MAX_SUB_QUESTION_CHARS,
    Splitter,
    compared,
    filled,
    is_compound,
    read_sub_questions,
    split_prompt,
)
from readahead.trace import Trace
from tests.speculation.answers.scripted import Scripted, silent

NESTED = "Who is the mother of the man who wrote Hamlet?"
PARTS = ("Who wrote Hamlet?", "Who is the mother of #1?")


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("Compare Lyon and Paris.", ("What is Lyon?", "What is Paris?")),
        ("please compare Lyon with Paris", ("What is Lyon?", "What is Paris?")),
        (
            "Compare the population of Lyon and Paris",
            ("What is the population of Lyon?", "What is the population of Paris?"),
        ),
        (
            "What's the difference between tea and coffee?",
            ("What is tea?", "What is coffee?"),
        ),
        (
            "Which is older, Lyon Cathedral or the Eiffel Tower?",
            ("How old is Lyon Cathedral?", "How old is the Eiffel Tower?"),
        ),
        (
            "Which river is longer, the Nile or the Amazon?",
            ("How long is the Nile?", "How long is the Amazon?"),
        ),
        (
            "Who was born first, Ada King or Bo Li?",
            ("When was Ada King born?", "When was Bo Li born?"),
        ),
        (
            "Compare the lamp of Skerry and the lamp of Orrin.",
            ("What is the lamp of Skerry?", "What is the lamp of Orrin?"),
        ),
        ("比较长江和黄河", ("长江是什么？", "黄河是什么？")),
        ("请比较一下长江和黄河的长度。", ("长江的长度是什么？", "黄河的长度是什么？")),
        ("长江和黄河哪个更长？", ("长江有多长？", "黄河有多长？")),
        ("长江和黄河有什么区别？", ("长江是什么？", "黄河是什么？")),
    ],
)
def test_what_is_compared_is_asked_for_by_rule(question: str, parts: tuple[str, ...]) -> None:
    assert compared(question) == parts
    assert Splitter(None)(question) == parts


@pytest.mark.parametrize(
    "question",
    [
        "颐和园和故宫有什么区别？",
        "中华人民共和国和美国有什么区别？",
        "法兰西共和国与德意志联邦共和国哪个更大？",
        "Compare Romeo and Juliet with Hamlet.",
        "What is the difference between rock and roll and blues?",
        "Which is older, make or break or Jaws?",
    ],
)
def test_what_could_be_cut_at_several_places_is_not(question: str) -> None:
    assert compared(question) == ()


@pytest.mark.parametrize(
    "question",
    [
        NESTED,
        "When was the director of the film that won in 1994 born?",
        "What is the population of the birthplace of the author of Dracula?",
        "Which film came out first, Jaws or Alien?",
        "Were Ada King and Bo Li born in the same country?",
        "《红楼梦》的作者的父亲是谁？",
    ],
)
def test_what_takes_several_steps_is_left_to_the_target(question: str) -> None:
    assert is_compound(question)
    assert compared(question) == ()


@pytest.mark.parametrize(
    "question",
    [
        "",
        "?",
        "who got the first nobel prize in physics",
        "what is the title of the person who runs the house of representatives",
        "does archie end up with betty or veronica in riverdale",
        "When was the lighthouse of Orrin built?",
        "make it or break it who goes to the olympics",
        "who wrote the declaration of independence",
        "灯塔建于哪一年？",
        "印度教中的精神导师的名称是什么？",
        "Who is the mother of the man who sang the #1 song?",
        "The mother of the man who wrote Hamlet",
    ],
)
def test_plain_questions_are_not_split(question: str) -> None:
    target = Scripted(silent)
    assert Splitter(target)(question) == ()
    assert target.prompts == []


@pytest.mark.parametrize(
    "written",
    [
        "Who wrote Hamlet?\nWho is the mother of #1?",
        "1. Who wrote Hamlet?\n2. Who is the mother of #1?",
        "- “Who wrote Hamlet?”\n- “Who is the mother of #1?”",
        "Here are two questions:\nQ1: Who wrote Hamlet?\n\nQ2: Who is the mother of #1?\nDone.",
    ],
)
def test_sub_questions_are_read_as_targets_write_them(written: str) -> None:
    assert read_sub_questions(written, NESTED) == PARTS


@pytest.mark.parametrize(
    "written",
    [
        "",
        "Who wrote Hamlet?",
        "Who wrote Hamlet? Who is the mother of #1?",
        "Who wrote Hamlet.\nWho is the mother of #1.",
        "Who wrote Hamlet?\nWho wrote Hamlet?",
        f"Who wrote Hamlet?\n{NESTED}",
        "Who wrote Hamlet?\nWhere do penguins live?",  # about something else
        "Who wrote #1?\nWho is the mother of #1?",  # the first has no answer before it
        "Who wrote Hamlet?\nWho is the mother of #2?",
        "Who wrote Hamlet?\nWho is the mother of #0?",
        f"Who wrote Hamlet?\nWho is the {'very ' * 50}mother of #1?",
        "Who wrote Hamlet?\nWho is #1?\nWho is the mother of #1?\nWho is the mother of #2?",
    ],
)
def test_a_split_that_is_of_no_use_is_none(written: str) -> None:
    assert read_sub_questions(written, NESTED) == ()


@given(
    question=st.text(),
    written=st.lists(st.sampled_from(["Who?", "#1", "\n", "1. ", "Hamlet"]) | st.text()).map(
        "".join
    ),
)
def test_any_text_can_be_read(question: str, written: str) -> None:
    parts = read_sub_questions(written, question)
    assert len(parts) in (0, 2, 3)
    for number, part in enumerate(parts):
        assert len(part) < MAX_SUB_QUESTION_CHARS
        assert part[-1] in "?？"
        filled(part, ["x"] * number)  # refers to nothing that is not answered before it


@given(
    st.text()
    | st.lists(
        st.sampled_from(
            ["compare ", "A", " and ", " or ", ", ", "的", "和", "比较", "{x}", "older"]
        )
    ).map("".join)
)
def test_any_question_can_be_looked_at(question: str) -> None:
    assert len(compared(question)) in (0, 2)
    assert is_compound(question) or not compared(question)


@pytest.mark.parametrize("filling", ["compare ", "of the a of ", "A和", "的", " ", "who was "])
def test_a_long_question_is_looked_at_in_no_time(filling: str) -> None:
    for length in (400, 200_000):
        is_compound((filling * length)[:length])


def test_the_target_is_asked_in_the_language_of_the_question() -> None:
    target = Scripted(lambda _: "\n".join(PARTS))
    assert Splitter(target)(NESTED) == PARTS
    Splitter(target)("《红楼梦》的作者的父亲是谁？")
    assert ENGLISH_SPLIT in target.prompts[0]
    assert CHINESE_SPLIT in target.prompts[1]


def test_without_a_target_only_rules_split() -> None:
    assert Splitter(None)(NESTED) == ()


def test_a_split_that_was_cut_or_cancelled_is_none() -> None:
    target = Scripted(lambda _: "\n".join(PARTS))
    assert Splitter(target)(NESTED, cancelled=lambda: True) == ()
    target.finish_reason = "length"
    assert Splitter(target)(NESTED) == ()


def test_a_question_without_room_is_not_split() -> None:
    target = Scripted(lambda _: "\n".join(PARTS), max_context_tokens=400)
    assert Splitter(target)(NESTED) == ()
    assert target.prompts == []


def test_the_tiny_model_writes_something(model: TransformersModel) -> None:
    trace = Trace("test")
    assert Splitter(model)(NESTED, trace=trace) == ()
    assert [span.name for span in trace.spans][:1] == ["split"]


def test_control_tokens_in_the_question_stay_text() -> None:
    target = Scripted(silent)
    plain, marked = (
        split_prompt(target, f"{NESTED}{added}").token_ids for added in ("", "<|im_end|>")
    )
    assert sum(i >= 256 for i in plain) == sum(i >= 256 for i in marked)
