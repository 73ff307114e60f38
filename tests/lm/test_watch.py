import threading

import pytest
import torch

from readahead.lm.generate import generate, stream
from readahead.lm.model import TransformersModel
from readahead.lm.sample import SamplingParams
from readahead.lm.watch import WatchedModel, make_watchable, num_layers
from tests.conftest import make_llama, make_tokenizer

IDS = torch.tensor([list(b"The tide turns twice a day.")])


def make_model() -> TransformersModel:
    return TransformersModel(make_llama(), make_tokenizer(), prefill_step_tokens=16)


def test_watching_changes_no_logit() -> None:
    model = make_model()
    plain = model.forward(IDS, model.new_cache(), num_logits=3)
    watched = WatchedModel(model, [0, 1])
    cache = watched.new_cache()
    seen = watched.forward(IDS, cache, num_logits=3)
    assert torch.equal(plain, seen)
    assert watched.logits is not None
    assert torch.equal(watched.logits, plain[0, -1])
    step = torch.tensor([[65]])
    alone = model.new_cache()
    model.forward(IDS, alone)
    assert torch.equal(watched.forward(step, cache), model.forward(step, alone))


def test_a_watched_model_still_minds_its_padding() -> None:
    model = make_model()
    prompts = [list(b"A lamp burns oil."), list(b"x")]
    before = generate(model, prompts, SamplingParams(max_new_tokens=8))
    assert make_watchable(model)
    assert generate(model, prompts, SamplingParams(max_new_tokens=8)) == before


@pytest.mark.parametrize("layer", [0, 1])
def test_the_weights_are_those_of_eager_attention(layer: int) -> None:
    eager = make_llama()
    eager.set_attn_implementation("eager")
    with torch.no_grad():
        expected = eager(IDS, output_attentions=True).attentions[layer][:, :, -1]
    watched = WatchedModel(make_model(), [layer])
    watched.forward(IDS, watched.new_cache())
    assert torch.allclose(watched.attention[layer].weights(), expected, atol=1e-6)


def test_keys_come_without_their_positions() -> None:
    """The first layer's key of a token is the same wherever the token stands."""
    watched = WatchedModel(make_model(), [0])
    cache = watched.new_cache()
    keys = []
    for _ in range(2):
        watched.forward(torch.tensor([[65]]), cache)
        key = watched.attention[0].key
        assert key is not None
        keys.append(key)
    assert torch.allclose(keys[0], keys[1], atol=1e-6)
    rotated = watched.attention[0].keys
    assert not torch.allclose(rotated[:, :, 0], rotated[:, :, 1], atol=1e-3)


def test_a_bias_moves_what_is_returned_and_not_what_is_seen() -> None:
    model = make_model()
    watched = WatchedModel(model)
    watched.bias[7] = 2.0
    logits = watched.forward(IDS, watched.new_cache())[0, -1]
    plain = model.forward(IDS, model.new_cache())[0, -1]
    assert float((logits - plain)[7]) == pytest.approx(2.0, abs=1e-5)
    assert int((logits != plain).sum()) == 1
    assert watched.logits is not None
    assert torch.equal(watched.logits, plain)


def test_a_stream_through_it_is_the_stream() -> None:
    model = make_model()
    params = SamplingParams(max_new_tokens=20)
    plain = list(stream(model, IDS[0].tolist(), params))
    assert list(stream(WatchedModel(model, [1]), IDS[0].tolist(), params)) == plain


def test_threads_do_not_see_each_other() -> None:
    model = make_model()
    watched = WatchedModel(model, [0])
    watched.forward(IDS, watched.new_cache())
    seen = watched.attention[0]
    worker = threading.Thread(target=lambda: model.forward(IDS[:, :3], model.new_cache()))
    worker.start()
    worker.join()
    assert watched.attention[0] is seen


def test_other_attention_is_left_alone() -> None:
    llama = make_llama()
    llama.set_attn_implementation("eager")
    watched = WatchedModel(TransformersModel(llama, make_tokenizer()), [0])
    watched.forward(IDS, watched.new_cache())
    assert watched.attention == {}
    assert watched.logits is not None


def test_the_protocol_is_passed_on() -> None:
    model = make_model()
    watched = WatchedModel(model)
    assert watched.tokenizer is model.tokenizer
    assert watched.eos_token_ids == model.eos_token_ids
    assert watched.max_context_tokens == model.max_context_tokens
    assert watched.prefill_step_tokens == model.prefill_step_tokens
    assert num_layers(model) == 2
    assert num_layers(watched) == 0
