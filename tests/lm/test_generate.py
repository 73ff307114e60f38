import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel, LlamaForCausalLM

from readahead.errors import ContextOverflow, InputError
from readahead.lm.base import Scored
from readahead.lm.generate import Piece, generate, stream
from readahead.lm.model import TransformersModel
from readahead.lm.sample import SamplingParams
from readahead.lm.score import score
from readahead.trace import Trace
from tests.conftest import make_llama, make_tokenizer

PROMPTS = [
    list(b"The tide turns twice a day."),
    list(b"A lamp"),
    list("潮水每天涨落两次。".encode()),
    list(b"x"),
]


def reference(llama: LlamaForCausalLM, prompt: Sequence[int], **options: object) -> list[int]:
    """Return what transformers itself generates, without the end-of-sequence token."""
    input_ids = torch.tensor([list(prompt)])
    output = llama.generate(
        input_ids,
        attention_mask=torch.ones_like(input_ids),
        **{"do_sample": False, "max_new_tokens": 24, **options},
    )
    ids: list[int] = output[0, len(prompt) :].tolist()
    listed = llama.generation_config.eos_token_id
    ends = listed if isinstance(listed, list) else [listed]
    return ids[:-1] if ids and ids[-1] in ends else ids


def streamed_ids(
    model: TransformersModel, prompt: Sequence[int], params: SamplingParams
) -> list[int]:
    return [i for piece in stream(model, prompt, params) for i in piece.token_ids]


@pytest.mark.parametrize("prompt", PROMPTS, ids=len)
@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_greedy_equals_transformers(
    llama: LlamaForCausalLM, model: TransformersModel, prompt: list[int], penalty: float
) -> None:
    params = SamplingParams(max_new_tokens=24, repetition_penalty=penalty)
    assert streamed_ids(model, prompt, params) == reference(
        llama, prompt, repetition_penalty=penalty
    )


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, 0, 1.0), (0.7, 0, 1.0), (1.0, 5, 1.0), (1.5, 0, 0.8), (1.3, 20, 0.9)],
)
def test_sampling_equals_transformers(
    llama: LlamaForCausalLM, model: TransformersModel, temperature: float, top_k: int, top_p: float
) -> None:
    params = SamplingParams(
        max_new_tokens=24, temperature=temperature, top_k=top_k, top_p=top_p, seed=7
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        expected = reference(
            llama, PROMPTS[0], do_sample=True, temperature=temperature, top_k=top_k, top_p=top_p
        )
    assert streamed_ids(model, PROMPTS[0], params) == expected


def test_end_of_sequence_ends_the_answer(llama: LlamaForCausalLM) -> None:
    """Each token of a greedy answer is once declared an end; the answer stops before it."""
    plain = TransformersModel(llama, make_tokenizer())
    ids = streamed_ids(plain, PROMPTS[0], SamplingParams(max_new_tokens=12))
    ending = TransformersModel(llama, make_tokenizer())
    for end in set(ids):
        ending.eos_token_ids = frozenset({end, 258})
        pieces = list(stream(ending, PROMPTS[0], SamplingParams(max_new_tokens=12)))
        got = [i for piece in pieces for i in piece.token_ids]
        assert got == ids[: ids.index(end)]
        assert pieces[-1].finish_reason == "stop"
    ending.eos_token_ids = frozenset(ids)
    ignoring = SamplingParams(max_new_tokens=12, ignore_eos=True)
    assert streamed_ids(ending, PROMPTS[0], ignoring) == ids


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("penalty", [1.0, 1.2])
def test_a_padded_batch_equals_single_runs(
    model: TransformersModel, temperature: float, penalty: float
) -> None:
    def params(seed: int) -> SamplingParams:
        return SamplingParams(
            max_new_tokens=20, temperature=temperature, repetition_penalty=penalty, seed=seed
        )

    batch = generate(model, PROMPTS, params(3))
    for row, prompt in enumerate(PROMPTS):
        single = generate(model, [prompt], params(3 + row))[0]
        assert batch[row].token_ids == single.token_ids
        assert batch[row].text == single.text
        assert batch[row].finish_reason == single.finish_reason
        assert batch[row].logprobs == pytest.approx(single.logprobs, abs=1e-4)


def test_a_batch_may_be_empty(model: TransformersModel) -> None:
    assert generate(model, [], SamplingParams()) == []


@settings(max_examples=30, deadline=None)
@given(cut=st.integers(0, len(PROMPTS[0]) - 1), step=st.integers(1, 40))
def test_a_cached_prefix_changes_nothing(cut: int, step: int) -> None:
    model = TransformersModel(make_llama(), make_tokenizer(), prefill_step_tokens=step)
    params = SamplingParams(max_new_tokens=8)
    cache = model.new_cache()
    if cut:
        model.forward(torch.tensor([PROMPTS[0][:cut]]), cache)
    trace = Trace("test")
    warm = [
        i for p in stream(model, PROMPTS[0], params, cache=cache, trace=trace) for i in p.token_ids
    ]
    assert warm == streamed_ids(model, PROMPTS[0], params)
    assert trace.counters["computed_tokens"] == len(PROMPTS[0]) - cut + len(warm) - 1
    assert cache.length == len(PROMPTS[0]) + len(warm) - 1


def test_logprobs_are_the_models_own(llama: LlamaForCausalLM, model: TransformersModel) -> None:
    params = SamplingParams(max_new_tokens=10, temperature=2.0, top_k=9, repetition_penalty=1.5)
    written = generate(model, [PROMPTS[0]], params)[0]
    ids = torch.tensor([[*PROMPTS[0], *written.token_ids]])
    with torch.no_grad():
        logprobs = llama(ids).logits.log_softmax(-1)[0, len(PROMPTS[0]) - 1 : -1]
    expected = logprobs.gather(-1, torch.tensor(written.token_ids)[:, None])[:, 0].tolist()
    assert written.logprobs == pytest.approx(expected, abs=1e-4)


def test_the_most_likely_tokens_are_the_models_own(
    llama: LlamaForCausalLM, model: TransformersModel
) -> None:
    params = SamplingParams(max_new_tokens=6, temperature=2.0, top_k=3, num_top_logprobs=5)
    pieces = list(stream(model, PROMPTS[0], params))
    ids = [i for piece in pieces for i in piece.token_ids]
    with torch.no_grad():
        logits = llama(torch.tensor([[*PROMPTS[0], *ids]])).logits
    expected = logits.log_softmax(-1)[0, len(PROMPTS[0]) - 1 : -1].topk(5)
    tops = [top for piece in pieces for top in piece.top]
    assert [[i for i, _ in top] for top in tops] == expected.indices.tolist()
    got = torch.tensor([[logprob for _, logprob in top] for top in tops])
    assert torch.allclose(got, expected.values, atol=1e-4)


def test_asking_for_the_most_likely_tokens_changes_none(model: TransformersModel) -> None:
    def pieces(num: int) -> list[Piece]:
        params = SamplingParams(max_new_tokens=9, temperature=1.0, seed=4, num_top_logprobs=num)
        return list(stream(model, PROMPTS[0], params))

    assert [replace(piece, top=()) for piece in pieces(20)] == pieces(0)
    assert all(len(piece.top) == len(piece.token_ids) for piece in pieces(2))


def test_an_end_has_no_most_likely_tokens(llama: LlamaForCausalLM) -> None:
    ending = TransformersModel(llama, make_tokenizer())
    ending.eos_token_ids = frozenset(range(259))
    [piece] = stream(ending, PROMPTS[0], SamplingParams(num_top_logprobs=3))
    assert (piece.token_ids, piece.top, piece.finish_reason) == ((), (), "stop")


def test_score_equals_the_logprobs_of_generation(model: TransformersModel) -> None:
    params = SamplingParams(max_new_tokens=9)
    written = [generate(model, [prompt], params)[0] for prompt in PROMPTS]
    continuations = [g.token_ids[: 9 - row] for row, g in enumerate(written)]
    scores = score(model, PROMPTS, continuations)
    for got, generation, ids in zip(scores, written, continuations, strict=True):
        assert got.logprobs == pytest.approx(generation.logprobs[: len(ids)], abs=1e-4)


def test_score_of_nothing_is_empty(model: TransformersModel) -> None:
    assert score(model, PROMPTS[:2], [[], []]) == [Scored(()), Scored(())]
    assert score(model, [], []) == []
    mixed = score(model, PROMPTS[:2], [[], [5, 6]])
    assert mixed[0].logprobs == ()
    assert len(mixed[1].logprobs) == 2


def test_a_stop_string_ends_the_answer_and_is_not_part_of_it(model: TransformersModel) -> None:
    whole = generate(model, [PROMPTS[0]], SamplingParams(max_new_tokens=24, ignore_eos=True))[0]
    stop = whole.text[5:8]
    first = whole.text.index(stop)
    params = SamplingParams(max_new_tokens=24, ignore_eos=True, stop=(stop,))
    pieces = list(stream(model, PROMPTS[0], params))
    assert "".join(piece.text for piece in pieces) == whole.text[:first]
    assert pieces[-1].finish_reason == "stop"


@pytest.mark.parametrize("after", range(6))
def test_cancelling_stops_within_one_step(model: TransformersModel, after: int) -> None:
    """``cancelled`` is asked before each step; once it says yes no forward pass runs."""
    asked = itertools.count()
    trace = Trace("test")
    pieces = list(
        stream(
            model,
            PROMPTS[0],
            SamplingParams(max_new_tokens=20, ignore_eos=True),
            cancelled=lambda: next(asked) >= after,
            trace=trace,
        )
    )
    assert pieces[-1].finish_reason == "cancelled"
    assert next(asked) <= after + 2
    num_prefill_steps = 2  # 27 tokens in steps of 16
    assert sum(len(piece.token_ids) for piece in pieces) == max(0, after - num_prefill_steps)


def test_the_context_is_a_limit() -> None:
    model = TransformersModel(make_llama(max_position_embeddings=32), make_tokenizer())
    pieces = list(stream(model, list(b"x" * 30), SamplingParams(ignore_eos=True)))
    assert pieces[-1].finish_reason == "length"
    assert sum(len(piece.token_ids) for piece in pieces) == 2
    with pytest.raises(ContextOverflow, match=r"32 tokens.*holds 32"):
        list(stream(model, list(b"x" * 32), SamplingParams()))
    with pytest.raises(ContextOverflow):
        score(model, [list(b"x" * 30)], [[1, 2, 3]])


def test_a_row_that_ends_at_the_context_does_not_disturb_the_others() -> None:
    config = GPT2Config(vocab_size=259, n_positions=64, n_embd=16, n_layer=1, n_head=2)
    model = TransformersModel(GPT2LMHeadModel(config), make_tokenizer())
    params = SamplingParams(max_new_tokens=30, ignore_eos=True)
    long, short = generate(model, [[5] * 60, [5]], params)
    assert len(long.token_ids) == 4
    assert short.token_ids == generate(model, [[5]], params)[0].token_ids


def test_a_cancelled_prefill_counts_what_was_read(model: TransformersModel) -> None:
    trace = Trace("test")
    list(stream(model, PROMPTS[0], SamplingParams(), cancelled=lambda: True, trace=trace))
    assert trace.counters["computed_tokens"] == 0


def test_an_empty_prompt_is_an_error(model: TransformersModel) -> None:
    with pytest.raises(InputError, match="empty"):
        list(stream(model, [], SamplingParams()))
    with pytest.raises(InputError, match="empty"):
        generate(model, [[1], []], SamplingParams())
    with pytest.raises(InputError, match="empty"):
        score(model, [[1], []], [[2], [3, 4]])


@pytest.mark.real
def test_the_real_model_equals_transformers(smollm: TransformersModel) -> None:
    head, tail = smollm.tokenizer.frame("You are a helpful assistant.")
    for question in ("What is the capital of France?", "List three colours.", "1+1=?"):
        prompt = smollm.tokenizer.encode_control(head + question + tail)
        expected = reference(smollm.backend, prompt, max_new_tokens=32)
        assert streamed_ids(smollm, prompt, SamplingParams(max_new_tokens=32)) == expected


@pytest.mark.real
def test_a_batch_of_the_real_model_equals_single_runs(smollm: TransformersModel) -> None:
    head, tail = smollm.tokenizer.frame("You are a helpful assistant.")
    questions = ("Name a river.", "Why is the sky blue during the day?", "Hi")
    prompts = [smollm.tokenizer.encode_control(head + q + tail) for q in questions]
    params = SamplingParams(max_new_tokens=20)
    batch = generate(smollm, prompts, params)
    assert [g.token_ids for g in batch] == [
        generate(smollm, [prompt], params)[0].token_ids for prompt in prompts
    ]
