"""Rows of a batch read their common beginning once, and compute what each would alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readahead.lm.batch import MIN_SHARED_TOKENS, num_common
from readahead.lm.generate import generate
from readahead.lm.model import TransformersModel
from readahead.lm.sample import SamplingParams
from readahead.lm.score import score
from readahead.trace import Trace
from tests.conftest import make_llama, make_tokenizer

IDS = st.lists(st.integers(1, 250), max_size=12)
PARAMS = SamplingParams(max_new_tokens=6)


@pytest.fixture(scope="module")
def model() -> TransformersModel:
    return TransformersModel(make_llama(), make_tokenizer(), prefill_step_tokens=16)


@given(beginning=IDS, rests=st.lists(IDS, min_size=1, max_size=4))
def test_all_begin_with_what_is_common(beginning: list[int], rests: list[list[int]]) -> None:
    rows = [(*beginning, *rest) for rest in rests]
    num = num_common(rows)
    assert num >= len(beginning)
    assert len({row[:num] for row in rows}) == 1
    assert min(map(len, rows)) == num or len({row[: num + 1] for row in rows}) > 1


@settings(max_examples=40, deadline=None)
@given(
    beginning=st.lists(st.integers(1, 250), min_size=1, max_size=40),
    rests=st.lists(IDS, min_size=1, max_size=4),
)
def test_a_batch_behind_a_beginning_equals_single_runs(
    beginning: list[int], rests: list[list[int]]
) -> None:
    model = TransformersModel(make_llama(), make_tokenizer(), prefill_step_tokens=16)
    prompts = [[*beginning, *rest] for rest in rests]
    for prompt, row in zip(prompts, generate(model, prompts, PARAMS), strict=True):
        (single,) = generate(model, [prompt], PARAMS)
        assert row.token_ids == single.token_ids
        assert row.logprobs == pytest.approx(single.logprobs, abs=1e-4)


@settings(max_examples=40, deadline=None)
@given(
    beginning=st.lists(st.integers(1, 250), min_size=2, max_size=40),
    continuations=st.lists(IDS, min_size=1, max_size=4),
)
def test_scores_behind_a_beginning_equal_single_scores(
    beginning: list[int], continuations: list[list[int]]
) -> None:
    model = TransformersModel(make_llama(), make_tokenizer(), prefill_step_tokens=16)
    scores = score(model, [beginning for _ in continuations], continuations)
    for ids, got in zip(continuations, scores, strict=True):
        (single,) = score(model, [beginning], [ids])
        assert got.logprobs == pytest.approx(single.logprobs, abs=1e-4)


@settings(max_examples=20, deadline=None)
@given(rests=st.lists(IDS, min_size=1, max_size=4), option=st.integers(1, 250))
def test_an_option_is_the_next_token(rests: list[list[int]], option: int) -> None:
    model = TransformersModel(make_llama(), make_tokenizer(), prefill_step_tokens=16)
    prompts = [list(range(1, 20))] * len(rests)
    scores = score(model, prompts, rests, options=[7, option])
    for ids, got in zip(rests, scores, strict=True):
        (single,) = score(model, [prompts[0]], [[*ids, option]])
        assert got.options[1] == pytest.approx(single.logprobs[-1], abs=1e-4)


def test_the_beginning_is_computed_once(model: TransformersModel) -> None:
    beginning = list(range(1, 31))
    prompts = [[*beginning, 40, 41], [*beginning, 50, 51], [*beginning, 60, 61]]
    trace = Trace("test")
    once = SamplingParams(max_new_tokens=1, ignore_eos=True)
    generate(model, prompts, once, trace=trace)
    assert trace.counters["computed_tokens"] == 30 + 3 * 2


def test_a_short_beginning_is_read_with_each_row(model: TransformersModel) -> None:
    beginning = list(range(1, MIN_SHARED_TOKENS))
    trace = Trace("test")
    once = SamplingParams(max_new_tokens=1, ignore_eos=True)
    generate(model, [[*beginning, 40], [*beginning, 50]], once, trace=trace)
    assert trace.counters["computed_tokens"] == 2 * (len(beginning) + 1)


def test_a_cancellation_within_the_beginning_ends_all_rows(model: TransformersModel) -> None:
    beginning = list(range(1, 60))
    asked = iter([False, True, True, True, True, True])
    written = generate(
        model, [[*beginning, 90], [*beginning, 91]], PARAMS, cancelled=lambda: next(asked)
    )
    assert [row.finish_reason for row in written] == ["cancelled", "cancelled"]
