import itertools

import pytest

from readahead.errors import ContextOverflow
from readahead.lm.model import TransformersModel
from readahead.speculation.answers.asking import CHINESE_DRAFT, ENGLISH_DRAFT, read_draft
from readahead.speculation.answers.drafts import Drafter, fault_of
from readahead.trace import Trace
from readahead.types import DraftFault
from tests.speculation.answers.scripted import Scripted, passage, silent

QUESTION = "When was the lighthouse built?"
PASSAGES = [passage("The lighthouse was built in 1885.", 0), passage("It is white.", 1)]


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("1885", ""),
        ("The lighthouse was built in 1885", ""),
        ("Yes", ""),
        ("The Who", ""),
        ("C++", ""),
        ("", "empty"),
        ("—", "empty"),
        ("?!", "empty"),
        (read_draft("[1, 2]")[0], "empty"),
        ("unknown", "refusal"),
        ("The passage does not say when.", "refusal"),
        ("未知", "refusal"),
        ("段落中没有提到。", "refusal"),
        ("When was the lighthouse built?", "echo"),
        ("when was the Lighthouse built", "echo"),
        ("Question: When was the lighthouse built?", "echo"),
        ("Answer the question from the passage in as few words as possible", "echo"),
        ("a name, a number or a date, not a sentence", "echo"),
        ("根据段落回答问题，用尽可能少的字", ""),  # the instructions of the other language
    ],
)
def test_a_draft_that_cannot_be_the_answer_is_marked(answer: str, fault: DraftFault) -> None:
    assert fault_of(QUESTION, answer) == fault


@pytest.mark.parametrize("question", ["?", "Who", "Paris", "Paris capital", "a", "谁？"])
def test_what_holds_a_short_question_is_no_echo(question: str) -> None:
    assert fault_of(question, "Paris is the capital, says Dr. Who, 谁") == ""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("capital of France", "The capital of France is Paris"),
        ("height of Mount Everest", "The height of Mount Everest is 8849 m"),
        ("北京人口", "北京人口2189万"),
        ("诸葛亮", "诸葛亮是蜀汉丞相"),
    ],
)
def test_what_says_more_than_its_question_is_no_echo(question: str, answer: str) -> None:
    assert fault_of(question, answer) == ""
    assert fault_of(question, f"“{question}”") == "echo"


def test_an_echo_is_found_in_either_language() -> None:
    assert fault_of("灯塔建于哪一年？", "灯塔建于哪一年") == "echo"
    assert fault_of("灯塔建于哪一年？", "根据段落回答问题，用尽可能少的字") == "echo"


def test_a_draft_says_what_it_was_written_from() -> None:
    model = Scripted(lambda prompt: "1885." if "1885" in prompt else "unknown")
    trace = Trace("test")
    one, other = Drafter(model).draft(QUESTION, PASSAGES, [(0,), (1,)], trace=trace)
    assert (one.answer, one.places, one.fault, one.num_tokens) == ("1885", (0,), "", 5)
    assert (other.places, other.fault) == ((1,), "refusal")
    assert [span.name for span in trace.spans] == ["draft"]
    assert PASSAGES[0].text in model.prompts[0]
    assert PASSAGES[0].text not in model.prompts[1]


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("In the year of our Lord one thous", "cut"),
        ("Answer: In the year of our Lord one", "cut"),
        ("1885\n\nThe passage says that it was", ""),
        ("Answer: 1885\nRationale: It was bu", ""),
        ("Rationale: It was built in 1885, wh", "empty"),
        ("1885\n", ""),
        ("1885\nIn 1885", ""),
    ],
)
def test_a_draft_is_cut_only_if_its_answer_is(written: str, fault: DraftFault) -> None:
    model = Scripted(lambda _: written, finish_reason="length")
    (draft,) = Drafter(model, max_new_tokens=64).draft(QUESTION, PASSAGES, [(0,)])
    assert draft.fault == fault


def test_the_probability_of_a_draft_is_a_mean_per_token() -> None:
    """Raw products favour short drafts, and an empty one has probability 1."""
    said = {"a": "1885", "b": "The year eighteen hundred and eighty-five", "c": ""}
    model = Scripted(lambda prompt: said[prompt.split("LETTER ")[1][0]])
    shown = [passage(f"LETTER {letter}") for letter in said]
    short, long, empty = Drafter(model, max_new_tokens=99).draft(
        QUESTION, shown, [(0,), (1,), (2,)]
    )
    assert short.logprob == long.logprob == pytest.approx(-0.5)
    assert empty.logprob == -float("inf")
    assert empty.fault == "empty"


def test_a_batch_equals_single_drafts(model: TransformersModel) -> None:
    drafter = Drafter(model, max_new_tokens=6)
    subsets = [(0,), (1,), (0, 1)]
    batch = drafter.draft(QUESTION, PASSAGES, subsets)
    for draft, subset in zip(batch, subsets, strict=True):
        (single,) = drafter.draft(QUESTION, PASSAGES, [subset])
        assert (draft.answer, draft.places, draft.fault) == (
            single.answer,
            single.places,
            single.fault,
        )
        assert draft.logprob == pytest.approx(single.logprob, abs=1e-4)


def test_the_instructions_are_read_once(model: TransformersModel) -> None:
    trace = Trace("test")
    drafter = Drafter(model, max_new_tokens=1)
    drafts = drafter.draft(QUESTION, PASSAGES, [(0,), (1,)], trace=trace)
    head = len(model.tokenizer.frame(ENGLISH_DRAFT.short)[0].encode())
    assert trace.counters["drafter_tokens"] < sum(d.num_prompt_tokens for d in drafts) - head / 2
    assert "computed_tokens" not in trace.counters  # those are the target's


def test_a_draft_that_time_ended_is_kept_and_cannot_win() -> None:
    late = Scripted(lambda prompt: "1885", finish_reason="cancelled")
    drafts = Drafter(late).draft(QUESTION, PASSAGES, [(0,), (1,)])
    assert [(draft.answer, draft.fault) for draft in drafts] == [("1885", "cut")] * 2
    not_begun = Scripted(silent, finish_reason="cancelled")
    assert Drafter(not_begun).draft(QUESTION, PASSAGES, [(0,)]) == []


@pytest.mark.parametrize("after", [0, 1, 5, 20])
def test_cancelling_stops_within_one_step(model: TransformersModel, after: int) -> None:
    asked = itertools.count()
    trace = Trace("test")
    drafts = Drafter(model).draft(
        QUESTION, PASSAGES, [(0,), (1,)], cancelled=lambda: next(asked) >= after, trace=trace
    )
    assert drafts == []
    # Two rows of at most prefill_step_tokens for each time it was told to go on.
    assert trace.counters["drafter_tokens"] <= after * 2 * model.prefill_step_tokens


def test_no_subsets_no_drafts(model: TransformersModel) -> None:
    assert Drafter(model).draft(QUESTION, PASSAGES, []) == []


def test_passages_are_shortened_and_the_draft_says_which_it_saw() -> None:
    model = Scripted(lambda _: "1885", max_context_tokens=520)
    long = [passage("Word. " * 60, 0), passage("It is white.", 1)]
    (draft,) = Drafter(model).draft(QUESTION, long, [(0, 1)])
    assert draft.places == (0,)
    assert draft.num_prompt_tokens <= 520 - 24
    with pytest.raises(ContextOverflow):
        Drafter(model).draft(QUESTION * 40, long, [(0,)])


def test_rationales_are_asked_for_and_kept() -> None:
    model = Scripted(lambda _: "Rationale: It was built in 1885.\nAnswer: 1885")
    (draft,) = Drafter(model, with_rationale=True, max_new_tokens=64).draft(
        QUESTION, PASSAGES, [(0,)]
    )
    assert ENGLISH_DRAFT.reasoned in model.prompts[0]
    assert (draft.answer, draft.rationale) == ("1885", "It was built in 1885.")


def test_a_chinese_question_is_drafted_in_chinese() -> None:
    model = Scripted(lambda _: "答案：1885年")
    (draft,) = Drafter(model).draft("灯塔建于哪一年？", PASSAGES, [(0,)])
    assert CHINESE_DRAFT.short in model.prompts[0]
    assert draft.answer == "1885年"
