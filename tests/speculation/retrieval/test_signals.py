import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from readahead.lm.generate import stream
from readahead.lm.model import TransformersModel
from readahead.lm.sample import SamplingParams
from readahead.lm.watch import WatchedModel
from readahead.speculation.retrieval.signals import (
    SignalReader,
    attention_entropy,
    hoyer_sparsity,
    key_change,
    slope,
    source_head_ratio,
    source_key_entropy,
    source_key_shift,
    uncertainty,
)
from tests.conftest import make_llama, make_tokenizer

FINITE = st.floats(-50, 50, width=32)


@given(st.lists(FINITE, min_size=1, max_size=30))
def test_uncertainty_is_that_of_the_distribution(values: list[float]) -> None:
    logits = torch.tensor(values)
    entropy, top = uncertainty(logits)
    probs = logits.double().softmax(-1)
    assert entropy == pytest.approx(float(torch.special.entr(probs).sum()), abs=1e-3)
    assert top == pytest.approx(float(probs.max()), abs=1e-4)
    assert 0 <= entropy <= math.log(len(values)) + 1e-4


def test_what_cannot_come_adds_nothing_to_the_entropy() -> None:
    entropy, top = uncertainty(torch.tensor([1.0, 1.0, -math.inf]))
    assert entropy == pytest.approx(math.log(2), abs=1e-5)
    assert top == pytest.approx(0.5)


@given(st.integers(2, 12), st.floats(-3, 3), st.floats(-3, 3))
def test_slope_of_a_line(n: int, step: float, start: float) -> None:
    assert slope([start + step * i for i in range(n)]) == pytest.approx(step, abs=1e-9)
    assert slope([start]) == slope([]) == 0.0


@given(st.integers(3, 40), st.integers(1, 4), st.integers(0, 1000))
def test_attention_entropy_is_normalised_and_knows_no_sink(
    length: int, num_heads: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand((num_heads, length), generator=generator).softmax(-1)
    value = attention_entropy(weights)
    assert 0 <= value <= 1 + 1e-5
    sunk = torch.cat((weights[:, :1] + 9.0, weights[:, 1:]), dim=1) / 10
    assert attention_entropy(sunk) == pytest.approx(value, abs=1e-4)


def test_attention_entropy_at_its_ends() -> None:
    assert attention_entropy(torch.full((2, 9), 1 / 9)) == pytest.approx(1.0)
    assert attention_entropy(torch.tensor([[0.5, 0.5, 0.0, 0.0]])) == 0.0
    assert attention_entropy(torch.ones(2, 1)) == 0.0


@given(st.lists(FINITE, min_size=1, max_size=40), st.floats(0.1, 10))
def test_hoyer_sparsity_is_normalised_and_has_no_scale(values: list[float], factor: float) -> None:
    vector = torch.tensor(values)
    value = hoyer_sparsity(vector)
    assert 0 <= value <= 1
    # Squares of the smallest numbers vanish.
    if float(vector.abs().max()) > 1e-10:
        assert hoyer_sparsity(vector * factor) == pytest.approx(value, abs=1e-3)


def test_hoyer_sparsity_at_its_ends() -> None:
    assert hoyer_sparsity(torch.eye(1, 16)[0]) == pytest.approx(1.0)
    assert hoyer_sparsity(torch.full((16,), -2.0)) == pytest.approx(0.0, abs=1e-6)
    assert hoyer_sparsity(torch.zeros(16)) == hoyer_sparsity(torch.ones(1)) == 0.0


def test_key_change() -> None:
    key = torch.tensor([3.0, 4.0])
    assert math.isnan(key_change(key, []))
    assert key_change(key, [key, key]) == 0.0
    assert key_change(key, [torch.zeros(2)]) == pytest.approx(1.0)
    assert key_change(2 * key, [torch.zeros(2)]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("num_heads", "fires"), [(2, True), (3, True), (8, False), (16, False), (32, False)]
)
def test_the_sources_entropy_is_decided_by_the_number_of_heads(num_heads: int, fires: bool) -> None:
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        keys = torch.randn((num_heads, 5, 16), generator=generator)
        assert (source_key_entropy(keys) < 1.2) == fires


@given(st.integers(1, 32), st.integers(0, 1000))
def test_the_sources_sparsity_is_always_over_its_threshold(num_heads: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    ratio = source_head_ratio(torch.randn((num_heads, 4, 8), generator=generator))
    assert 0.85 < ratio <= math.sqrt(num_heads) + 1e-4


def test_the_sources_shift_of_a_growing_cache_is_nothing() -> None:
    keys = torch.randn((2, 6, 4), generator=torch.Generator().manual_seed(0))
    assert source_key_shift(keys, keys[:, :5]) == 0.0


def test_signals_of_an_answer() -> None:
    model = WatchedModel(TransformersModel(make_llama(), make_tokenizer()), [1])
    reader = SignalReader(model, 1)
    read = [
        (reader.read(), piece.logprobs)
        for piece in stream(model, list(b"A lamp"), SamplingParams(max_new_tokens=6))
        if piece.token_ids
    ]
    for signals, (logprob,) in read:
        assert signals.top_probability == pytest.approx(math.exp(logprob), abs=1e-4)
        assert 0 < signals.attention_entropy < 1
        assert 0 < signals.value_sparsity < 1
    first, second = read[0][0], read[1][0]
    assert math.isnan(first.key_change)
    assert second.key_change > 0
    assert second.entropy_slope == pytest.approx(second.entropy - first.entropy)
    assert first.to_json()["key_change"] is None


def test_without_a_layer_there_are_the_signals_of_the_logits() -> None:
    model = WatchedModel(TransformersModel(make_llama(), make_tokenizer()))
    reader = SignalReader(model)
    with pytest.raises(ValueError, match="nothing yet"):
        reader.read()
    model.forward(torch.tensor([[65]]), model.new_cache())
    signals = reader.read()
    assert signals.entropy > 0
    assert math.isnan(signals.attention_entropy)
