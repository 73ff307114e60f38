"""What is read on top of the tree equals a cold prefill: logits to 1e-4, greedy tokens exactly."""

import random
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    Lfm2Config,
    Lfm2ForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    QuantizedCache,
)

from readahead.errors import BackendError
from readahead.lm import generate
from readahead.lm.kv import KVCache, KVSegment
from readahead.lm.model import TransformersModel
from readahead.lm.prefixtree import PrefixTree
from readahead.lm.prompt import Part, build_prompt, joined
from readahead.lm.reuse import PrefixReader
from readahead.lm.sample import SamplingParams
from readahead.trace import Trace
from readahead.types import Passage
from tests.conftest import make_llama, make_tokenizer

MODEL = TransformersModel(make_llama(), make_tokenizer(), prefill_step_tokens=16)
GREEDY = SamplingParams(max_new_tokens=12)


SMALL: dict[str, Any] = dict(
    vocab_size=259,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
)


def part(text: str) -> Part:
    return Part(tuple(text.encode()), label=text[:4])


def greedy(model: TransformersModel, ids: tuple[int, ...], cache: KVCache | None = None) -> str:
    return "".join(piece.text for piece in generate.stream(model, ids, GREEDY, cache=cache))


def continued(reader: PrefixReader, parts: list[Part], question: str) -> str:
    ids = (*joined(parts), *question.encode())
    cache = reader.read(parts).cache
    assert isinstance(cache, KVCache)
    assert isinstance(reader.model, TransformersModel)
    return greedy(reader.model, ids, cache)


def test_a_second_reading_computes_only_what_is_new() -> None:
    reader = PrefixReader(MODEL, PrefixTree(10**9))
    first = reader.read([part("system. "), part("passage one. ")])
    assert (first.num_reused_tokens, first.num_computed_tokens) == (0, 21)
    trace = Trace("test")
    again = reader.read([part("system. "), part("passage two. ")], trace=trace)
    assert again.num_reused_tokens == len("system. passage ")
    assert again.num_computed_tokens == len("two. ")
    assert trace.counters == {"reused_tokens": 16, "computed_tokens": 5}
    assert reader.num_known([part("system. "), part("passage two. ")]) == 21


texts = st.lists(st.text("abc ", min_size=1, max_size=8), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(orders=st.lists(texts, min_size=2, max_size=5), cancel_after=st.integers(0, 3))
def test_every_reading_equals_a_cold_one(orders: list[list[str]], cancel_after: int) -> None:
    reader = PrefixReader(MODEL, PrefixTree(200_000))
    for index, order in enumerate(orders):
        parts = [part(text) for text in order]
        if index % 2:
            cancelled = partial(next, iter([False] * cancel_after), True)
            stopped = reader.read(parts, step_tokens=4, cancelled=cancelled)
            assert stopped.num_computed_tokens <= 4 * cancel_after
        cache = reader.read(parts, step_tokens=5).cache
        assert cache.length == len(joined(parts))
        question = torch.tensor([list(b"why?")])
        got = MODEL.forward(question, cache)
        cold = MODEL.new_cache()
        whole = torch.tensor([[*joined(parts), *b"why?"]])
        torch.testing.assert_close(got, MODEL.forward(whole, cold), atol=1e-4, rtol=0)
        assert continued(reader, parts, "why?") == greedy(MODEL, (*joined(parts), *b"why?"))


def test_a_cancelled_reading_keeps_what_it_read() -> None:
    reader = PrefixReader(MODEL, PrefixTree(10**9))
    parts = [part("system. "), part("a passage that is longer than two steps. ")]
    stopped = reader.read(parts, step_tokens=8, cancelled=partial(next, iter([False] * 2), True))
    assert (stopped.cache.length, reader.num_known(parts)) == (16, 16)


def test_an_earlier_reading_is_taken_over_where_it_knows_more() -> None:
    reader = PrefixReader(MODEL, PrefixTree(0))
    first = reader.read([part("system. "), part("passage one. "), part("what is")])
    parts = [part("system. "), part("passage one. "), part("what does")]
    assert reader.num_known(parts, first) == len("system. passage one. what ")
    assert reader.num_known(parts) == 0
    second = reader.read(parts, first)
    assert second.cache is first.cache
    assert second.num_computed_tokens == len("does")
    cold = MODEL.new_cache()
    MODEL.forward(torch.tensor([joined(parts)]), cold)
    question = torch.tensor([list(b" it do?")])
    got, expected = MODEL.forward(question, second.cache), MODEL.forward(question, cold)
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=0)


def test_the_tree_is_taken_where_it_knows_more() -> None:
    reader = PrefixReader(MODEL, PrefixTree(10**9))
    reader.read([part("system. "), part("passage one. ")])
    other = reader.read([part("else. ")])
    reading = reader.open([part("system. "), part("passage one. ")], other)
    assert reading.cache is not other.cache
    assert (reading.cache.length, other.cache.length) == (21, 6)


def test_only_the_parts_that_may_be_kept_are() -> None:
    reader = PrefixReader(MODEL, PrefixTree(10**9))
    parts = [part("system. "), part("what I typed")]
    reader.read(parts, num_kept=1)
    assert reader.num_known(parts) == 8


def test_a_cache_that_cannot_go_back_is_not_cropped() -> None:
    torch.manual_seed(0)
    model = TransformersModel(
        MistralForCausalLM(MistralConfig(**SMALL, sliding_window=12)), make_tokenizer()
    )
    reader = PrefixReader(model, PrefixTree(10**9))
    first = reader.read([part("system. "), part("passage one. "), part("what is")])
    parts = [part("system. "), part("passage one. "), part("what does")]
    second = reader.read(parts, first)
    assert second.cache is not first.cache
    more = reader.read([*parts, part(" it do")], second)
    assert (more.cache is second.cache, more.num_computed_tokens) == (True, 6)


def test_weights_that_changed_never_match_again() -> None:
    model = TransformersModel(make_llama(), make_tokenizer())
    reader = PrefixReader(model, PrefixTree(10**9))
    parts = [part("system. ")]
    reader.read(parts)
    assert reader.num_known(parts) == 8
    with torch.no_grad():
        model.backend.get_input_embeddings().weight.mul_(1.01)
    assert reader.num_known(parts) == 0


def test_prompts_come_in_parts_that_join_to_the_whole() -> None:
    passages = [Passage(f"d{n}", f"text {n}", 0, 6, id=f"{n}.1.1") for n in range(3)]
    prompt = build_prompt(MODEL.tokenizer, "why?", passages, max_tokens=10_000)
    assert joined(prompt.parts) == prompt.token_ids
    assert [p.label for p in prompt.parts] == ["", "0.1.1", "1.1.1", "2.1.1", "", ""]


# Caches that cannot be cut: plain prefill, the reason told, nothing kept.


def test_a_sliding_window_is_refused_past_its_window_only() -> None:
    torch.manual_seed(0)
    config = MistralConfig(**SMALL, sliding_window=12)
    model = TransformersModel(MistralForCausalLM(config), make_tokenizer())
    reader = PrefixReader(model, PrefixTree(10**9))
    within = [part("system. ")]
    assert reader.read(within).refusal == ""
    assert reader.num_known(within) == 8
    beyond = [*within, part("a passage that is longer. ")]
    for _ in range(2):
        reading = reader.read(beyond)
        assert "sliding-window layer is past its window of 12" in reading.refusal
        assert reading.num_reused_tokens == 8
        assert continued(reader, beyond, "why?") == greedy(model, (*joined(beyond), *b"why?"))


def test_linear_attention_is_refused() -> None:
    torch.manual_seed(0)
    config = Lfm2Config(**SMALL, layer_types=["conv", "full_attention"])
    model = TransformersModel(Lfm2ForCausalLM(config), make_tokenizer())
    reader = PrefixReader(model, PrefixTree(10**9))
    parts = [part("system. "), part("a passage. ")]
    for _ in range(2):
        reading = reader.read(parts)
        assert "linear-attention" in reading.refusal
        assert reading.num_reused_tokens == 0
        assert continued(reader, parts, "why?") == greedy(model, (*joined(parts), *b"why?"))
    with pytest.raises(BackendError, match="linear-attention"):
        reader.read(parts).cache.cut(0, 4)


def test_a_quantised_cache_is_refused() -> None:
    cache = KVCache(MODEL.backend.config)
    cache.backend = QuantizedCache("fp8", MODEL.backend.config)  # type: ignore[assignment]
    MODEL.forward(torch.tensor([list(b"system. ")]), cache)
    assert "quantised" in cache.refusal
    assert PrefixTree(10**9).insert([part("system. ")], cache, b"root") == 0
    with pytest.raises(BackendError, match="quantised"):
        cache.cut(0, 4)
    with pytest.raises(BackendError, match="quantised"):
        cache.extend([MODEL_SEGMENT])


def segment() -> KVSegment:
    cache = MODEL.new_cache()
    MODEL.forward(torch.tensor([list(b"system. ")]), cache)
    return cache.cut(0, 8)


MODEL_SEGMENT = segment()


def test_a_batch_is_refused() -> None:
    cache = MODEL.new_cache(padding=(0, 2))
    MODEL.forward(torch.zeros(2, 4, dtype=torch.long), cache)
    assert cache.refusal == "the cache holds a batch"


@pytest.mark.real
def test_the_real_model_answers_the_same_from_the_tree(smollm: TransformersModel) -> None:
    generator = random.Random(0)
    words = "the comet returns every seven years says the keeper of the observatory".split()
    reader = PrefixReader(smollm, PrefixTree(10**9))
    passages = [
        Passage(f"d{n}", " ".join(generator.choices(words, k=20)), 0, 1, id=f"{n}.1.1")
        for n in range(4)
    ]
    for order in ([0, 1, 2], [0, 2, 1], [0, 1, 3]):
        shown = [passages[n] for n in order]
        prompt = build_prompt(smollm.tokenizer, "When does it return?", shown, max_tokens=4096)
        reading = reader.read(prompt.parts[:-1])
        question = torch.tensor([prompt.parts[-1].token_ids])
        got = smollm.forward(question, reading.cache.fork())
        cold = smollm.forward(torch.tensor([prompt.token_ids]), smollm.new_cache())
        torch.testing.assert_close(got, cold, atol=1e-4, rtol=0)
        assert isinstance(reading.cache, KVCache)
        warm = greedy(smollm, prompt.token_ids, reading.cache)
        assert warm == greedy(smollm, prompt.token_ids)
