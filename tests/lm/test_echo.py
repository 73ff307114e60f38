import itertools

import pytest
import torch
from transformers import LlamaForCausalLM

from readahead.errors import ContextOverflow, InputError
from readahead.lm.echo import echo
from readahead.lm.generate import stream
from readahead.lm.model import TransformersModel
from readahead.lm.sample import SamplingParams
from readahead.lm.score import score
from readahead.trace import Trace
from tests.conftest import make_llama, make_tokenizer

TEXT = list("The tide turns twice a day, 潮水.".encode())  # longer than two steps of 16


@pytest.mark.parametrize("num_tokens", [1, 2, 16, 17, 18, len(TEXT)])
def test_an_echo_is_the_score_of_the_text(model: TransformersModel, num_tokens: int) -> None:
    ids = TEXT[:num_tokens]
    found = echo(model, ids)
    assert found is not None
    [expected] = score(model, [ids[:1]], [ids[1:]])
    assert found.logprobs == pytest.approx(expected.logprobs, abs=1e-4)
    assert (found.top, found.cache.length) == ((), num_tokens - 1)


def test_the_most_likely_tokens_are_the_models(
    llama: LlamaForCausalLM, model: TransformersModel
) -> None:
    found = echo(model, TEXT, 4)
    with torch.no_grad():
        expected = llama(torch.tensor([TEXT])).logits.log_softmax(-1)[0, :-1].topk(4)
    assert found is not None
    assert [[i for i, _ in top] for top in found.top] == expected.indices.tolist()
    got = torch.tensor([[logprob for _, logprob in top] for top in found.top])
    assert torch.allclose(got, expected.values, atol=1e-4)


def test_what_follows_an_echo_is_what_follows_the_text(model: TransformersModel) -> None:
    params = SamplingParams(max_new_tokens=9)
    found, trace = echo(model, TEXT), Trace("test")
    assert found is not None
    behind = list(stream(model, TEXT, params, cache=found.cache, trace=trace))
    assert [p.token_ids for p in behind] == [p.token_ids for p in stream(model, TEXT, params)]
    assert trace.counters["computed_tokens"] <= 1 + 9


@pytest.mark.parametrize("after", range(3))
def test_an_echo_stops_within_one_step(model: TransformersModel, after: int) -> None:
    asked, trace = itertools.count(), Trace("test")
    assert echo(model, TEXT, cancelled=lambda: next(asked) >= after, trace=trace) is None
    assert trace.counters.get("computed_tokens", 0) == 16 * after


def test_the_context_is_a_limit() -> None:
    model = TransformersModel(make_llama(max_position_embeddings=32), make_tokenizer())
    assert echo(model, list(b"x" * 32)) is not None
    with pytest.raises(ContextOverflow):
        echo(model, list(b"x" * 33))
    with pytest.raises(InputError, match="empty"):
        echo(model, [])


@pytest.mark.real
def test_an_echo_of_the_real_model(smollm: TransformersModel) -> None:
    ids = smollm.tokenizer.encode("Lake Baikal is the deepest lake. 水在一百摄氏度沸腾。" * 12)
    assert len(ids) > smollm.prefill_step_tokens
    found = echo(smollm, ids, 1)
    [expected] = score(smollm, [ids[:1]], [ids[1:]])
    assert found is not None
    assert found.logprobs == pytest.approx(expected.logprobs, abs=1e-3)
