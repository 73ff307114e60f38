import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.errors import ContextOverflow
from readahead.lm.prompt import joined
from readahead.speculation.answers.asking import (
    CHINESE_DRAFT,
    ENGLISH_DRAFT,
    draft_prompt,
    draft_wording,
    read_draft,
)
from tests.speculation.answers.scripted import TOKENIZER, passage

TIDE = passage("The lighthouse was built in 1885. It is 31 metres high.")


@pytest.mark.parametrize(
    ("written", "answer", "rationale"),
    [
        ("1885", "1885", ""),
        ("  \n1885.\n", "1885", ""),
        ("1885\n\nThe passage says so.", "1885", "The passage says so."),
        ("Rationale: It was built in 1885.\nAnswer: 1885", "1885", "It was built in 1885."),
        ("Answer: 1885\nRationale: It was built in 1885.", "1885", "It was built in 1885."),
        ("**Rationale:** Built in 1885.\n\n**Answer:** *1885*", "1885", "Built in 1885."),
        ("## Rationale: Built in 1885.\n## Response: 1885", "1885", "Built in 1885."),
        ("1. Rationale: Built in 1885.\n2. Answer: 1885", "1885", "Built in 1885."),
        ("- Evidence: Built in 1885.\n- Final answer: “1885”", "1885", "Built in 1885."),
        ("Answer:\n1885", "1885", ""),
        ("ANSWER : 1885", "1885", ""),
        ("Rationale: Built in 1885.", "", "Built in 1885."),
        ("1885.\nRationale: Built then.", "1885", "Built then."),
        ("Answer: 1885\nAnswer: 1902", "1885", ""),
        ("The answer is 1885.", "1885", ""),
        ("Answer: The answer is: 1885", "1885", ""),
        ("理由：灯塔建于1885年。\n答案：1885年", "1885年", "灯塔建于1885年。"),
        ("答案：1885年。\n理由：灯塔建于1885年。", "1885年", "灯塔建于1885年。"),
        ("**答案**：“1885年”", "1885年", ""),
        ("答案是1885年。", "1885年", ""),
        ("1885年。", "1885年", ""),
        ("Answer: Washington D.C.", "Washington D.C.", ""),
        ("Answer: J. R.", "J. R.", ""),
        ("1885 [1]", "1885", ""),
        ("Answer: “1885” [1][2].", "1885", ""),
        ("1885年【1】。", "1885年", ""),
        ("[1, 2]", "", ""),
        ("", "", ""),
        ("\n \n", "", ""),
        ("Answer:", "", ""),
    ],
)
def test_drafts_are_read_as_drafters_write_them(written: str, answer: str, rationale: str) -> None:
    assert read_draft(written) == (answer, rationale)


@given(
    st.lists(
        st.sampled_from(["Answer:", "答案：", "Rationale:", "**", "\n", " ", "- ", "1885", "#"])
        | st.text(max_size=8)
    ).map("".join)
)
def test_any_text_can_be_read(written: str) -> None:
    answer, rationale = read_draft(written)
    assert "\n" not in answer
    assert answer == answer.strip()
    assert answer in written
    assert rationale in written


def test_a_long_text_is_read_in_no_time() -> None:
    for filling in ("\n", " ", "*", "- ", "Answer: "):
        read_draft(filling * 100_000)


def test_the_wording_is_in_the_language_of_the_question() -> None:
    assert draft_wording("灯塔建于哪一年？") is CHINESE_DRAFT
    assert draft_wording("When was the lighthouse built?") is ENGLISH_DRAFT
    prompt = draft_prompt(TOKENIZER, "灯塔建于哪一年？", [TIDE], max_tokens=2000)
    assert CHINESE_DRAFT.short in prompt.text
    assert "问题：灯塔建于哪一年？" in prompt.text


@pytest.mark.parametrize("with_rationale", [False, True])
def test_a_prompt_is_instructions_passages_question(with_rationale: bool) -> None:
    prompt = draft_prompt(
        TOKENIZER, "When?", [TIDE], max_tokens=2000, with_rationale=with_rationale
    )
    words = ENGLISH_DRAFT.reasoned if with_rationale else ENGLISH_DRAFT.short
    places = [prompt.text.index(part) for part in (words, "[1] ", TIDE.text, "Question: When?")]
    assert places == sorted(places)


def test_all_drafts_begin_with_the_instructions() -> None:
    one, other = (
        draft_prompt(TOKENIZER, question, [shown], max_tokens=2000)
        for question, shown in (("When?", TIDE), ("Where?", passage("Something else.")))
    )
    assert one.parts[0] == other.parts[0]
    assert ENGLISH_DRAFT.short in TOKENIZER.decode(one.parts[0].token_ids)


def test_the_ids_of_a_prompt_say_its_text() -> None:
    prompt = draft_prompt(TOKENIZER, "When?", [TIDE, TIDE], max_tokens=2000)
    assert joined(prompt.parts) == prompt.token_ids
    assert list(prompt.token_ids) == TOKENIZER.encode_control(prompt.text)
    assert prompt.passages == (TIDE, TIDE)
    assert prompt.dropped == ()


@given(num=st.integers(1, 6), spare=st.integers(0, 400))
def test_a_prompt_fits_and_shows_the_beginning(num: int, spare: int) -> None:
    passages = [passage(f"{i} is a number. It is a natural one. So be it.", i) for i in range(num)]
    sentence = [passage("0 is a number.")]
    least = len(draft_prompt(TOKENIZER, "Which?", sentence, max_tokens=2000).token_ids)
    prompt = draft_prompt(TOKENIZER, "Which?", passages, max_tokens=least + spare)
    assert len(prompt.token_ids) <= least + spare
    for whole, shown in zip(passages, prompt.passages, strict=False):
        assert whole.text.startswith(shown.text)
    assert [*prompt.passages[:-1]] == passages[: max(0, len(prompt.passages) - 1)]
    assert [*prompt.dropped] == passages[len(prompt.passages) :]


def test_a_passage_that_does_not_fit_is_shortened_at_a_sentence() -> None:
    whole = len(draft_prompt(TOKENIZER, "When?", [TIDE], max_tokens=2000).token_ids)
    prompt = draft_prompt(TOKENIZER, "When?", [TIDE], max_tokens=whole - 1)
    assert [p.text for p in prompt.passages] == ["The lighthouse was built in 1885."]


def test_a_draft_without_any_passage_is_an_error() -> None:
    least = len(draft_prompt(TOKENIZER, "When?", [], max_tokens=2000).token_ids)
    with pytest.raises(ContextOverflow, match="No sentence of the passages fits"):
        draft_prompt(TOKENIZER, "When?", [passage("word " * 400)], max_tokens=least + 99)


def test_a_question_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(ContextOverflow, match="question takes"):
        draft_prompt(TOKENIZER, "When? " * 50, [TIDE], max_tokens=100)


@pytest.mark.parametrize("control", ["<|im_end|>", "<|im_start|>system\n", "<|endoftext|>"])
def test_what_people_wrote_becomes_no_control_token(control: str) -> None:
    special = set(range(256, TOKENIZER.num_tokens))

    def controls(question: str, text: str) -> list[int]:
        prompt = draft_prompt(TOKENIZER, question, [passage(text)], max_tokens=2000)
        return [i for i in prompt.token_ids if i in special]

    assert controls(f"When{control}?", f"1885{control}") == controls("When?", "1885")
