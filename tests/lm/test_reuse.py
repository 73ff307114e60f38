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
from readahead.lm.base import Cache
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


# Memory that is short.


def free_is(monkeypatch: pytest.MonkeyPatch, num_bytes: int) -> None:
    monkeypatch.setattr("readahead.lm.kv.free_bytes", lambda device: num_bytes)


def reuse_span(trace: Trace) -> dict[str, object]:
    return next(span.attributes for span in trace.spans if span.name == "reuse")


def test_bytes_per_token_are_those_of_the_cache() -> None:
    reader = PrefixReader(MODEL, PrefixTree(0))
    cache = MODEL.new_cache()
    MODEL.forward(torch.tensor([list(b"system. ")]), cache)
    assert reader.bytes_per_token * 8 == cache.num_bytes


def test_a_state_of_fixed_size_is_not_counted_by_token() -> None:
    torch.manual_seed(0)
    config = Lfm2Config(**SMALL, layer_types=["conv", "full_attention"])
    model = TransformersModel(Lfm2ForCausalLM(config), make_tokenizer())
    num_kv_heads, head_size, float32_bytes = 2, 8, 4
    reader = PrefixReader(model, PrefixTree(0))
    assert reader.bytes_per_token == 2 * num_kv_heads * head_size * float32_bytes


def test_with_memory_enough_the_trace_says_nothing_of_it() -> None:
    trace = Trace("test")
    PrefixReader(MODEL, PrefixTree(10**9)).read([part("system. ")], trace=trace)
    assert reuse_span(trace) == {"num_reused_tokens": 0}


def test_what_the_tree_holds_makes_room_for_a_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = PrefixReader(MODEL, PrefixTree(10**9), reserve_bytes=0)
    old = [part("system. "), part("an old passage. ")]
    reader.read(old)
    held = reader.tree.num_bytes
    new = [part("system. "), part("the new passage is longer. ")]
    # Room for most of the new: the old one's must be added.
    free_is(monkeypatch, int(len(joined(new)) * reader.bytes_per_token * 1.25) - held // 4)
    trace = Trace("test")
    reading = reader.read(new, trace=trace)
    assert reuse_span(trace)["evicted"] == 1
    assert reading.num_reused_tokens == 8
    assert reader.num_known(new) == len(joined(new))
    assert reader.num_known(old) == len("system. ")


def test_what_has_no_room_twice_is_read_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = PrefixReader(MODEL, PrefixTree(10**9))
    parts = [part("system. "), part("a passage. ")]
    free_is(monkeypatch, 0)
    trace = Trace("test")
    reading = reader.read(parts, trace=trace)
    assert reading.cache.length == len(joined(parts))
    assert reuse_span(trace)["kept"] is False
    assert "memory is short of" in str(reuse_span(trace)["reason"])
    assert reader.tree.num_bytes == 0
    assert continued(reader, parts, "why?") == greedy(MODEL, (*joined(parts), *b"why?"))


def test_a_full_budget_is_a_reason_not_to_keep() -> None:
    trace = Trace("test")
    PrefixReader(MODEL, PrefixTree(100)).read([part("system. ")], trace=trace)
    assert reuse_span(trace)["reason"] == "the budget of 100 bytes is used up"


class Exhausted(TransformersModel):
    """Runs out of memory at some steps, as torch on a CPU says it, in the middle of the model."""

    fails_at: frozenset[int] = frozenset()
    num_steps = 0

    def forward(
        self, token_ids: torch.Tensor, cache: Cache, *, num_logits: int = 1
    ) -> torch.Tensor:
        self.num_steps += 1
        layer = self.backend.model.layers[1]
        fail = layer.register_forward_pre_hook(refuse) if self.num_steps in self.fails_at else None
        try:
            return super().forward(token_ids, cache, num_logits=num_logits)
        finally:
            if fail:
                fail.remove()


def refuse(module: object, inputs: object) -> None:
    torch.empty(2**60, dtype=torch.uint8)


def test_when_memory_runs_out_all_is_read_again_without_the_tree() -> None:
    model = Exhausted(make_llama(), make_tokenizer(), prefill_step_tokens=8)
    reader = PrefixReader(model, PrefixTree(10**9))
    reader.read([part("system. ")])
    parts = [part("system. "), part("a passage that is longer. ")]
    model.fails_at = frozenset({model.num_steps + 2})
    trace = Trace("test")
    reading = reader.read(parts, trace=trace)
    assert (reading.num_reused_tokens, reading.num_computed_tokens) == (0, len(joined(parts)))
    assert trace.counters == {"reused_tokens": 0, "computed_tokens": len(joined(parts))}
    assert reuse_span(trace)["reason"] == "memory ran out, so all was read again"
    assert reader.tree.num_bytes == 0
    got = MODEL.forward(torch.tensor([list(b"why?")]), reading.cache)
    cold = MODEL.forward(torch.tensor([[*joined(parts), *b"why?"]]), MODEL.new_cache())
    torch.testing.assert_close(got, cold, atol=1e-4, rtol=0)


def test_when_memory_runs_out_without_a_tree_it_is_an_error() -> None:
    model = Exhausted(make_llama(), make_tokenizer(), prefill_step_tokens=8)
    reader = PrefixReader(model, PrefixTree(10**9))
    assert reader.bytes_per_token
    model.fails_at = frozenset({model.num_steps + 1})
    with pytest.raises(BackendError, match="out of memory"):
        reader.read([part("system. ")])


def test_a_reading_on_a_packed_prefix_says_so() -> None:
    reader = PrefixReader(MODEL, PrefixTree(10**9, storage="int8"))
    parts = [part("system. "), part("a passage. ")]
    assert reader.read(parts).is_exact
    reader.tree.shrink(reader.tree.num_bytes // 2)
    trace = Trace("test")
    reading = reader.read([*parts, part("another. ")], trace=trace)
    assert not reading.is_exact
    assert reuse_span(trace)["is_exact"] is False
    again = reader.read([*parts[:1], part("other. ")], on=reading)
    assert not again.is_exact
    assert reader.read([part("other. ")], on=again).is_exact  # of a cache cropped to nothing


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
