"""Computing all anew is a plain prefill, computing nothing anew is naive reuse; nothing is kept."""

from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from readahead.lm import generate
from readahead.lm.base import Cache, Cancelled, never
from readahead.lm.blend import Blender
from readahead.lm.blendplan import Plan, plan_blend
from readahead.lm.kv import KVCache, KVSegment
from readahead.lm.model import TransformersModel
from readahead.lm.patch import AttentionPaid, PatchCache
from readahead.lm.prefixtree import PrefixTree, root_key
from readahead.lm.prompt import Part, build_prompt, joined
from readahead.lm.reuse import PrefixReader
from readahead.lm.rope import inverse_frequencies, rotated
from readahead.lm.sample import SamplingParams
from readahead.trace import Trace
from readahead.types import Passage
from tests.conftest import make_llama, make_tokenizer

MODEL = TransformersModel(make_llama(), make_tokenizer(), prefill_step_tokens=16)
ROOT = root_key(MODEL.fingerprint)
SYSTEM = Part(tuple(b"system. "))
ASKED = Part(tuple(b"Question: why does it do that?"))
TEXTS = {
    "a": "a comet returns every seven years. ",
    "b": "the keeper of the observatory writes it down. ",
    "c": "nobody else has ever seen it. ",
}


def shown(*labels: str) -> list[Part]:
    """Return a prompt over passages, numbered as they are shown."""
    numbered = enumerate(labels, 1)
    return [SYSTEM, *(Part(tuple(f"[{n}] {TEXTS[x]}".encode()), x) for n, x in numbered), ASKED]


def reader_after(*orders: str, model: TransformersModel = MODEL, share: float = 0) -> PrefixReader:
    """Return a reader that has read the passages in each of ``orders``."""
    reader = PrefixReader(model, PrefixTree(10**9), blend_share=share)
    for order in orders:
        reader.read(shown(*order), num_kept=-1)
    return reader


def blended(
    reader: PrefixReader, parts: list[Part], share: float, *, cancelled: Cancelled = never
) -> tuple[Plan, Cache]:
    """Return what carrying out the plan gives, whether or not it saves anything."""
    blender = Blender(reader.model, reader.tree, share=share)
    assert blender.refusal == ""
    cache = reader.open(parts).cache
    root = root_key(reader.model.fingerprint)
    with reader.tree.find({part.label for part in parts} - {""}, root) as copies:
        plan = plan_blend(parts, cache.length, copies, share)
        assert blender.carry_out(plan, copies, cache, cancelled=cancelled)
    return plan, cache


def cold(parts: list[Part], model: TransformersModel = MODEL) -> KVCache:
    cache = model.new_cache()
    model.forward(torch.tensor([joined(parts)]), cache)
    return cache


def whole(cache: Cache) -> KVSegment:
    segment = cache.cut(0, cache.length)
    assert isinstance(segment, KVSegment)
    return segment


def gap(a: Cache, b: Cache) -> float:
    """Return the largest difference of what is held, over layers, keys and values."""
    one, other = whole(a), whole(b)
    pairs = zip((*one.keys, *one.values), (*other.keys, *other.values), strict=True)
    return max(float((x - y).abs().max()) for x, y in pairs)


def next_logits(model: TransformersModel, cache: Cache) -> torch.Tensor:
    return model.forward(torch.tensor([list(b" Answer:")]), cache.fork())


def qwen() -> TransformersModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = Qwen2Config(
            vocab_size=259,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=512,
        )
        return TransformersModel(Qwen2ForCausalLM(config), make_tokenizer(), prefill_step_tokens=16)


@pytest.mark.parametrize("order", ["abc", "cab", "bc"])
@pytest.mark.parametrize("model", [MODEL, qwen()], ids=["llama", "qwen2"])
def test_computing_all_anew_is_a_plain_prefill(model: TransformersModel, order: str) -> None:
    reader = reader_after("ba", "ac", model=model)
    parts = shown(*order)
    plan, cache = blended(reader, parts, 1.0)
    assert plan.moves
    assert plan.num_computed == len(joined(parts)) - plan.num_known
    assert cache.length == len(joined(parts))
    assert gap(cache, cold(parts, model)) < 1e-4
    expected = next_logits(model, cold(parts, model))
    torch.testing.assert_close(next_logits(model, cache), expected, atol=1e-4, rtol=0)


def test_computing_nothing_anew_is_naive_reuse() -> None:
    reader = reader_after("ba")
    parts = shown("a", "b")
    plan, cache = blended(reader, parts, 0.0)
    source = whole(cold(shown("b", "a")[:-1]))
    inv_freq = inverse_frequencies(MODEL)
    naive = MODEL.new_cache()
    MODEL.forward(torch.tensor([SYSTEM.token_ids]), naive)
    first, second = (part.token_ids for part in parts[1:3])
    at_a, at_b = len(SYSTEM.token_ids), len(SYSTEM.token_ids) + len(first)
    # b was first and is second, and the other way round; each had another number.
    for ids, new, old, num_read in (
        (first, at_a, at_a + len(second), len("[1] ")),
        (second, at_b, at_a, len("[2")),
    ):
        MODEL.forward(torch.tensor([ids[:num_read]]), naive)
        run = source.part(old + num_read, old + len(ids))
        keys = tuple(rotated(key, inv_freq, new - old) for key in run.keys)
        naive.extend([KVSegment(keys, run.values)])
    MODEL.forward(torch.tensor([ASKED.token_ids]), naive)
    assert plan.num_known == at_a + len("[1] ")
    assert plan.num_chosen == 0
    assert gap(cache, naive) < 1e-4
    assert gap(cache, cold(parts)) > 0.01


def test_the_more_is_computed_the_closer_it_is() -> None:
    reader = reader_after("cb", "ba")
    parts = shown("a", "b", "c")
    gaps = []
    for share in (0.0, 0.5, 1.0):
        cache = blended(reader, parts, share)[1]
        difference = next_logits(MODEL, cache) - next_logits(MODEL, cold(parts))
        gaps.append(float(difference.norm()))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-3


@settings(max_examples=25, deadline=None)
@given(
    orders=st.lists(st.permutations("abc"), min_size=1, max_size=3),
    wanted=st.permutations("abc"),
    share=st.sampled_from([0.0, 0.2, 0.7, 1.0]),
)
def test_every_plan_adds_up(orders: list[list[str]], wanted: list[str], share: float) -> None:
    reader = reader_after(*("".join(order) for order in orders))
    parts = shown(*wanted)
    token_ids = joined(parts)
    num_known = reader.num_known(parts)
    with reader.tree.find(set(wanted), ROOT) as copies:
        plan = plan_blend(parts, num_known, copies, share)
        assert plan.moved == sorted(set(plan.moved))
        for move in plan.moves:
            held = move.node.part.token_ids[move.first :][: move.num_tokens]
            assert token_ids[move.new_start :][: move.num_tokens] == held
            assert move.node.start + move.first == move.old_start
            assert move.new_start >= num_known
    assert 0 <= plan.num_chosen <= len(plan.moved)
    assert all(not node.num_pins for _, node in copies.places)
    if plan.moves:
        _, cache = blended(reader, parts, share)
        assert cache.length == len(token_ids)
        assert gap(cache, cold(parts)) < 1e-4 or not cache.is_exact
    assert reader.tree.check() == []


def test_a_passage_is_found_behind_its_number_and_where_it_was_shortened() -> None:
    reader = reader_after("ab")
    parts = shown("b", "a")
    number = len("[1")
    with reader.tree.find({"a", "b"}, ROOT) as copies:
        plan = plan_blend(parts, len(SYSTEM.token_ids) + 1, copies, 0.2)
        assert [move.num_tokens for move in plan.moves] == [
            len(parts[1].token_ids) - number,
            len(parts[2].token_ids) - number,
        ]
    short = [SYSTEM, Part(parts[1].token_ids[:20], "b"), ASKED]
    with reader.tree.find({"b"}, ROOT) as copies:
        plan = plan_blend(short, len(SYSTEM.token_ids), copies, 0.2)
        assert [move.num_tokens for move in plan.moves] == [20 - number]


def test_of_each_run_as_many_first_tokens_lead() -> None:
    reader = reader_after("cb", "ba")
    parts = shown("a", "b", "c")
    with reader.tree.find(set("abc"), ROOT) as copies:
        plan = plan_blend(parts, len(SYSTEM.token_ids), copies, 0.1)
        starts = [move.new_start for move in plan.moves]
        assert len(plan.leading) == plan.num_chosen // 2 == 6
        assert plan.leading == [*starts, *(start + 1 for start in starts)]


def test_passages_of_another_model_or_tenant_are_not_found() -> None:
    reader = reader_after("ab")
    with reader.tree.find({"a", "b"}, root_key(MODEL.fingerprint, "somebody else")) as copies:
        assert copies.places == ()


def test_what_is_chosen_is_what_the_question_attends_to() -> None:
    patch = PatchCache(MODEL, 20, [(0, whole(cold([SYSTEM])))])
    patch.aim(torch.arange(8, 20))
    with AttentionPaid() as paid:
        MODEL.forward(torch.tensor([ASKED.token_ids[:12]]), patch)
    eager = make_llama()
    eager.set_attn_implementation("eager")
    ids = torch.tensor([[*SYSTEM.token_ids, *ASKED.token_ids[:12]]])
    with torch.no_grad():
        output = eager(ids, output_attentions=True, cache=DynamicCache())
    expected = torch.stack(output.attentions)[..., 8:, :].sum(dim=(0, 1, 2, 3))
    assert paid.total is not None
    torch.testing.assert_close(paid.total, expected, atol=1e-3, rtol=0)


def test_what_is_computed_anew_comes_first_or_is_what_the_question_attends_to() -> None:
    reader = reader_after("cb", "ba")
    parts = shown("a", "b", "c")
    plan, cache = blended(reader, parts, 0.3)
    naive = blended(reader, parts, 0.0)[1]
    one, other = whole(cache), whole(naive)
    # In the first layer a key depends on nothing but token and place.
    moves = (one.keys[1] - other.keys[1]).abs().amax(dim=(0, 1, 3)) > 1e-4
    chosen = [position for position in plan.moved if moves[position]]
    left = [position for position in plan.moved if not moves[position]]
    assert len(chosen) == plan.num_chosen == -(-len(plan.moved) * 3 // 10)
    assert set(plan.leading) < set(chosen)
    attended = [position for position in chosen if position not in plan.leading]
    assert len(attended) == -(-plan.num_chosen // 2)
    naive.crop(len(joined(parts[:-1])))
    with AttentionPaid() as paid:
        looked = PatchCache(MODEL, len(plan.token_ids), [(0, whole(naive))])
        looked.aim(torch.arange(naive.length, len(plan.token_ids)))
        MODEL.forward(torch.tensor([ASKED.token_ids]), looked)
    assert paid.total is not None
    assert float(paid.total[attended].mean()) > 2 * float(paid.total[left].mean())


def test_what_is_not_known_yet_is_not_attended_to() -> None:
    logits = []
    for filling in (0.0, 100.0):
        patch = PatchCache(MODEL, 24, [(0, whole(cold([SYSTEM])))])
        for layer in patch._layers:
            layer.keys[..., 8:12, :] = layer.values[..., 8:12, :] = filling
        patch.aim(torch.arange(12, 24))
        logits.append(MODEL.forward(torch.tensor([ASKED.token_ids[:12]]), patch))
    assert torch.equal(*logits)


# Through the reader: what it is used for, and what is left as it was.


def blend_span(trace: Trace) -> dict[str, object]:
    return next(span.attributes for span in trace.spans if span.name == "blend")


def test_the_reader_blends_only_where_it_was_told_to() -> None:
    parts = shown("a", "b", "c")
    exact = reader_after("cb", "ba").begin(parts)
    assert exact.is_exact
    assert exact.cache.length == len(SYSTEM.token_ids) + len("[1] ")
    trace = Trace("test")
    reading = reader_after("cb", "ba", share=0.2).begin(parts, trace=trace)
    assert not reading.is_exact
    assert reading.token_ids == joined(parts)
    assert reading.cache.length == len(joined(parts))
    assert reading.num_reused_tokens + reading.num_computed_tokens > len(joined(parts))
    span = blend_span(trace)
    assert (span["approximate"], span["share"]) == (True, 0.2)
    assert trace.counters == {
        "reused_tokens": reading.num_reused_tokens,
        "computed_tokens": reading.num_computed_tokens,
    }
    assert reading.num_computed_tokens < len(joined(parts)) - exact.num_reused_tokens


def test_what_is_known_exactly_is_not_blended() -> None:
    trace = Trace("test")
    reading = reader_after("ab", share=0.2).begin(shown("a", "b"), trace=trace)
    assert reading.is_exact
    assert blend_span(trace) == {"approximate": False, "reason": "it saves nothing"}


def test_an_answer_goes_on_from_what_was_blended() -> None:
    parts = shown("a", "b")
    reading = reader_after("ba", share=0.2).begin([*parts[:-1], Part(ASKED.token_ids[:-1])])
    params = SamplingParams(max_new_tokens=8)
    assert isinstance(reading.cache, KVCache)
    pieces = list(generate.stream(MODEL, joined(parts), params, cache=reading.cache))
    assert sum(len(piece.token_ids) for piece in pieces) == 8
    assert not reading.cache.is_exact


def test_nothing_that_was_blended_enters_the_tree() -> None:
    reader = reader_after("cb", "ba", share=0.2)
    parts = shown("a", "b", "c")
    num_bytes, known = reader.tree.num_bytes, reader.num_known(parts)
    reading = reader.begin(parts)
    assert reading.cache.is_blended
    assert "behind other tokens" in reader.keep(parts, reading)
    assert reader.tree.insert(parts, reading.cache, ROOT) == 0
    assert reader.tree.insert(parts, reading.cache.fork(), ROOT) == 0
    # Going on from it is no way in, either.
    more = [*parts, Part(tuple(b"an answer")), Part(tuple(b"a passage. "), "d")]
    again = reader.read(more, reading)
    assert again.cache is reading.cache
    assert (reader.tree.num_bytes, reader.num_known(parts)) == (num_bytes, known)
    assert gap(reader.read(parts).cache, cold(parts)) < 1e-4


def test_cropped_to_what_is_exact_a_cache_is_exact_again() -> None:
    reading = reader_after("ba", share=0.2).begin(shown("a", "b"))
    reading.cache.crop(len(SYSTEM.token_ids) + len("[1] a"))
    assert reading.cache.is_blended
    reading.cache.crop(len(SYSTEM.token_ids))
    assert (reading.cache.is_blended, reading.cache.is_exact) == (False, True)
    assert gap(reading.cache, cold([SYSTEM])) < 1e-4


def test_what_is_moved_counts_as_used() -> None:
    reader = reader_after("ba", share=0.2)
    with reader.tree.find({"a", "b"}, ROOT) as copies:
        before = [node.num_uses for _, node in copies.places]
        reader.begin(shown("a", "b"))
        assert [node.num_uses for _, node in copies.places] > before


def test_what_the_tree_holds_stays_as_it_was() -> None:
    reader = reader_after("ba", share=0.2)
    before = shown("b", "a")[:-1]
    reader.begin(shown("a", "b"))
    assert gap(reader.open(before).cache, cold(before)) < 1e-4


@pytest.mark.parametrize("where", ["forward", "_placed", "_read"])
def test_memory_that_runs_out_leaves_the_exact_prefix(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    reader = reader_after("cb", "ba", share=0.5)
    assert reader.begin(shown("a", "b")).cache.is_blended
    owner = MODEL.backend if where == "forward" else Blender
    monkeypatch.setattr(owner, where, exhausted)
    trace = Trace("test")
    reading = reader.begin(shown("a", "b", "c"), trace=trace)
    assert reading.is_exact
    assert reading.cache.length == reading.num_reused_tokens
    assert blend_span(trace)["reason"] == "memory ran out"


def exhausted(*args: object, **kwargs: object) -> None:
    torch.empty(2**60, dtype=torch.uint8)


@pytest.mark.parametrize("num_steps", range(4))
def test_cancelled_it_leaves_the_exact_prefix(num_steps: int) -> None:
    reader = reader_after("cb", "ba", share=0.5)
    parts = shown("a", "b", "c")
    cancelled = partial(next, iter([False] * num_steps), True)
    trace = Trace("test")
    reading = reader.begin(parts, cancelled=cancelled, trace=trace)
    assert reading.is_exact
    assert reading.cache.length == reader.num_known(parts)
    assert "cancelled" in str(blend_span(trace)["reason"])
    assert not reading.cache.is_blended


SMALL: dict[str, Any] = dict(
    vocab_size=259,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
)


def test_models_that_cannot_be_blended_are_read_exactly() -> None:
    gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=259, n_embd=32, n_layer=2, n_head=4))
    sliding = MistralForCausalLM(MistralConfig(**SMALL, sliding_window=512))
    eager = make_llama()
    eager.set_attn_implementation("eager")
    reasons = ("no rotary positions", "hold every position", "not torch's")
    for backend, reason in zip((gpt2, sliding, eager), reasons, strict=True):
        model = TransformersModel(backend, make_tokenizer())
        reader = reader_after("ba", model=model, share=0.2)
        trace = Trace("test")
        reading = reader.begin(shown("a", "b"), trace=trace)
        assert reading.is_exact
        assert reason in str(blend_span(trace)["reason"])


def test_the_packed_prefix_of_a_tree_may_be_moved() -> None:
    reader = PrefixReader(MODEL, PrefixTree(10**9, storage="int8"), blend_share=0.2)
    reader.read(shown("b", "a"), num_kept=-1)
    reader.tree.shrink(reader.tree.num_bytes // 2)
    assert reader.tree.steps["packed"]
    reading = reader.begin(shown("a", "b"))
    assert reading.cache.is_blended


def test_a_prompt_of_which_nothing_is_known_exactly() -> None:
    reader = reader_after("ba")
    parts = shown("a", "b")[1:]  # no system part
    plan, cache = blended(reader, parts, 1.0)
    assert plan.num_known == 0
    assert gap(cache, cold(parts)) < 1e-4
    assert not cache.is_exact
    MODEL.forward(torch.tensor([list(b"more")]), cache)
    assert cache.length == len(joined(parts)) + 4


@pytest.mark.real
def test_the_real_model_reads_the_same_where_all_is_computed_anew(
    smollm: TransformersModel,
) -> None:
    passages = [Passage(f"d{n}", TEXTS[x], 0, 1, id=x) for n, x in enumerate("abc")]

    def parts(order: str) -> list[Part]:
        listed = [passages["abc".index(x)] for x in order]
        return list(build_prompt(smollm.tokenizer, "Why?", listed, max_tokens=4096).parts)

    reader = PrefixReader(smollm, PrefixTree(10**9))
    reader.read(parts("cba")[:-2])
    plan, cache = blended(reader, parts("abc"), 1.0)
    assert len(plan.moves) == 3
    assert gap(cache, cold(parts("abc"), smollm)) < 1e-3
    _, naive = blended(reader, parts("abc"), 0.0)
    assert gap(naive, cold(parts("abc"), smollm)) > 0.1
