"""A seeded two-layer Llama and a byte tokenizer: real transformers objects, made in no time."""

import os
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings
from tokenizers import Tokenizer as BackendTokenizer
from tokenizers import decoders, models, pre_tokenizers
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from readahead.lm.model import TransformersModel
from readahead.lm.weights import pull

# A busy machine must not fail a property test; slow code fails tests of its own.
settings.register_profile("readahead", deadline=None)
settings.load_profile("readahead")

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_tokenizer(chat_template: str | None = CHAT_TEMPLATE) -> PreTrainedTokenizerFast:
    """Return a tokenizer with one token per byte, 0 to 255, and three control tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = BackendTokenizer(models.BPE({char: i for i, char in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
        chat_template=chat_template,
    )


def make_llama(seed: int = 0, *, max_position_embeddings: int = 2048) -> LlamaForCausalLM:
    """Return a random two-layer Llama with grouped-query attention over the byte vocabulary."""
    tokenizer = make_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=max_position_embeddings,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: LlamaForCausalLM = LlamaForCausalLM(config)
        # The default spread of 0.02 makes all logits alike, and ties would hide mistakes.
        for parameter in model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.3)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.eval()
    return model


@pytest.fixture(autouse=True)
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run tiny models on one thread: waiting for a second costs more than they compute."""
    before = torch.get_num_threads()
    torch.set_num_threads((os.cpu_count() or 1) if request.node.get_closest_marker("real") else 1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def llama() -> LlamaForCausalLM:
    return make_llama()


@pytest.fixture(scope="session")
def model(llama: LlamaForCausalLM) -> TransformersModel:
    return TransformersModel(llama, make_tokenizer(), name="tiny", prefill_step_tokens=16)


@pytest.fixture(scope="session")
def smollm() -> TransformersModel:
    """Return the real SmolLM2-135M in float32, brought once."""
    return TransformersModel.load(pull("smollm2-135m").folder, device="cpu", name="smollm2-135m")
