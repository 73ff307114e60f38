"""What is remembered saves reading, and changes nothing."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readahead.lm.base import Scored
from readahead.lm.model import TransformersModel
from readahead.lm.prompt import Prompt
from readahead.lm.remember import Remembering
from readahead.lm.sample import SamplingParams
from readahead.trace import Trace
from tests.conftest import make_llama, make_tokenizer

MODEL = TransformersModel(make_llama(), make_tokenizer(), prefill_step_tokens=16)
PARAMS = SamplingParams(max_new_tokens=6)
TEXT = "The tide turns twice a day, and the lamp burns all night."


def prompt(text: str = TEXT) -> Prompt:
    return Prompt(text, tuple(text.encode()))


def same(some: list[Scored], others: list[Scored]) -> None:
    for one, other in zip(some, others, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
        assert one.options == pytest.approx(other.options, abs=1e-4)


IDS = st.lists(st.integers(1, 250), max_size=9)
ASKED = st.lists(
    st.tuples(st.sampled_from(["x", "A lamp burns", TEXT, TEXT[:40]]), st.lists(IDS, max_size=3)),
    max_size=5,
)


@settings(max_examples=25)
@given(asked=ASKED)
def test_whatever_was_asked_before_the_replies_are_the_models_own(
    asked: list[tuple[str, list[list[int]]]],
) -> None:
    remembering = Remembering(MODEL)
    for text, continuations in asked:
        rows = [prompt(text)] * len(continuations)
        same(
            remembering.score(rows, continuations, options=[7, 9]),
            MODEL.score(rows, continuations, options=[7, 9]),
        )
        (written,) = remembering.generate([prompt(text)], PARAMS)
        (expected,) = MODEL.generate([prompt(text)], PARAMS)
        assert written.token_ids == expected.token_ids
        assert written.logprobs == pytest.approx(expected.logprobs, abs=1e-4)
        same(
            remembering.score(rows, continuations, options=[7, 9]),
            MODEL.score(rows, continuations, options=[7, 9]),
        )


def test_the_prompt_is_read_once() -> None:
    remembering, trace = Remembering(MODEL), Trace("test")
    remembering.generate([prompt()], PARAMS, trace=trace)
    before = trace.counters["computed_tokens"]
    remembering.score([prompt()] * 3, [[1, 2], [3], [4, 5, 6]], trace=trace)
    assert trace.counters["computed_tokens"] - before == 3 * (1 + 3)
    before = trace.counters["computed_tokens"]
    remembering.score([prompt()], [[1, 2]], trace=trace)
    assert trace.counters["computed_tokens"] - before == 1 + 2


@pytest.mark.parametrize("rows", [["A lamp"], ["A lamp", TEXT], [TEXT, TEXT + " "]])
def test_another_prompt_is_read_whole(rows: list[str]) -> None:
    remembering, trace, expected = Remembering(MODEL), Trace("test"), Trace("test")
    remembering.generate([prompt()], PARAMS)
    prompts, continuations = [prompt(row) for row in rows], [[1, 2]] * len(rows)
    remembering.score(prompts, continuations, trace=trace)
    MODEL.score(prompts, continuations, trace=expected)
    assert trace.counters == expected.counters


def test_what_is_forgotten_is_read_again() -> None:
    remembering, trace = Remembering(MODEL), Trace("test")
    remembering.generate([prompt()], PARAMS)
    remembering.forget()
    remembering.score([prompt()], [[1, 2]], trace=trace)
    assert trace.counters["computed_tokens"] == len(TEXT) + 2


def test_a_batch_is_the_models_own() -> None:
    prompts = [prompt("A lamp"), prompt()]
    written = Remembering(MODEL).generate(prompts, PARAMS)
    expected = MODEL.generate(prompts, PARAMS)
    assert [one.token_ids for one in written] == [one.token_ids for one in expected]


@pytest.mark.parametrize("after", [0, 1, 3, 5])
def test_a_cancelled_prompt_is_not_half_remembered(after: int) -> None:
    remembering, asked = Remembering(MODEL), itertools.count()
    (written,) = remembering.generate([prompt()], PARAMS, cancelled=lambda: next(asked) >= after)
    assert written.finish_reason == "cancelled"
    rows, continuations = [prompt()] * 2, [[1, 2], [3]]
    same(remembering.score(rows, continuations), MODEL.score(rows, continuations))


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_scoring_is_cancelled_within_one_step(after: int) -> None:
    asked, trace = itertools.count(), Trace("test")
    scored = Remembering(MODEL).score(
        [prompt(), prompt(TEXT[:30] + "x" * 60)],
        [[1, 2], [3]],
        cancelled=lambda: next(asked) >= after,
        trace=trace,
    )
    assert scored == []
    assert trace.counters["computed_tokens"] <= after * 2 * MODEL.prefill_step_tokens


def test_it_is_a_text_model_like_its_own() -> None:
    remembering = Remembering(MODEL)
    assert remembering.tokenizer is MODEL.tokenizer
    assert remembering.max_context_tokens == MODEL.max_context_tokens
    assert remembering.generate([], PARAMS) == []
    assert remembering.score([], []) == []
