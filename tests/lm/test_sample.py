import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from readahead.errors import InputError
from readahead.lm.generate import generate
from readahead.lm.model import TransformersModel
from readahead.lm.sample import SamplingParams, distribution, draw


def random_logits(seed: int, size: int) -> Tensor:
    return 4 * torch.randn(2, size, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    size=st.integers(2, 40),
    temperature=st.sampled_from([0.3, 1.0, 2.5]),
    top_k=st.integers(0, 50),
    top_p=st.sampled_from([0.05, 0.5, 0.95, 1.0]),
    penalty=st.sampled_from([0.8, 1.0, 1.7]),
)
def test_the_distribution_equals_that_of_transformers(
    seed: int, size: int, temperature: float, top_k: int, top_p: float, penalty: float
) -> None:
    logits = random_logits(seed, size)
    seen = torch.randint(size, (2, 5), generator=torch.Generator().manual_seed(seed))
    processors = LogitsProcessorList(
        [RepetitionPenaltyLogitsProcessor(penalty), TemperatureLogitsWarper(temperature)]
    )
    if top_k:
        processors.append(TopKLogitsWarper(top_k))
    processors.append(TopPLogitsWarper(top_p))
    expected = processors(seen, logits.clone()).softmax(-1)  # type: ignore[arg-type]
    params = SamplingParams(
        temperature=temperature, top_k=top_k, top_p=top_p, repetition_penalty=penalty
    )
    torch.testing.assert_close(distribution(logits, params, list(seen)), expected)


def test_temperature_zero_is_certain() -> None:
    probs = distribution(torch.tensor([[0.0, 3.0, 3.0, -1.0]]), SamplingParams(), [])
    assert probs.tolist() == [[0.0, 1.0, 0.0, 0.0]]


@pytest.mark.parametrize("temperature", [1e-40, 1e-300, 5e-324])
def test_a_temperature_next_to_zero_is_nearly_certain(temperature: float) -> None:
    params = SamplingParams(temperature=temperature)
    probs = distribution(torch.tensor([[10.0, 30.0, -1.0]]), params, [])
    assert probs.tolist() == [[0.0, 1.0, 0.0]]


def test_each_row_draws_from_its_own_generator() -> None:
    probs = random_logits(0, 50).softmax(-1)
    together = draw(probs, [torch.Generator().manual_seed(s) for s in (1, 2)])
    alone = [draw(probs[b : b + 1], [torch.Generator().manual_seed(b + 1)]) for b in (0, 1)]
    assert together.tolist() == [int(alone[0]), int(alone[1])]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_new_tokens", 0),
        ("max_new_tokens", 2.5),
        ("seed", -1),
        ("seed", 2**63),
        ("repetition_penalty", 1e-300),
        ("stop", "abc"),
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_p", math.nan),
        ("repetition_penalty", 0.0),
        ("stop", ("",)),
        ("num_top_logprobs", -1),
        ("num_top_logprobs", 21),
    ],
)
def test_a_value_out_of_range_is_named(name: str, value: object) -> None:
    with pytest.raises(InputError, match=name):
        SamplingParams(**{name: value})  # type: ignore[arg-type]


def test_penalties_count_what_the_answer_has_and_nothing_of_the_prompt() -> None:
    params = SamplingParams(temperature=1.0, frequency_penalty=0.5, presence_penalty=0.25)
    logits = torch.zeros(2, 6)
    seen = [torch.tensor([1, 1, 2, 2, 3]), torch.tensor([4, 5, 5])]
    probs = distribution(logits, params, seen, [2, 3])
    expected = torch.tensor([0.0, 0.0, -1.25, -0.75, 0.0, 0.0]).softmax(dim=-1)
    assert torch.allclose(probs[0], expected)
    assert torch.allclose(probs[1], torch.full((6,), 1 / 6))


def test_a_penalty_hinders_repetition(model: TransformersModel) -> None:
    prompt = model.tokenizer.encode("abc")
    plain, varied = (
        generate(
            model,
            [prompt],
            SamplingParams(max_new_tokens=60, frequency_penalty=penalty, ignore_eos=True),
        )[0]
        for penalty in (0.0, 2.0)
    )
    assert max(Counter(varied.token_ids).values()) < max(Counter(plain.token_ids).values())
