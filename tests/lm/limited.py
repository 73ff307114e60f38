"""Answers several questions under a hard limit of memory: ``python -m tests.lm.limited BYTES``.

Keys and values of this model take 16 KiB a token, so that a few prompts fill what is left.
"""

import json
import resource
import sys
from dataclasses import dataclass

import psutil
import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from readahead.lm import generate
from readahead.lm.kv import KVCache
from readahead.lm.model import TransformersModel
from readahead.lm.prefixtree import PrefixTree
from readahead.lm.prompt import Part, joined
from readahead.lm.reuse import PrefixReader
from readahead.lm.sample import SamplingParams
from readahead.trace import Trace
from tests.conftest import make_tokenizer

SYSTEM = Part(tuple(b"system. "))
PASSAGES = [Part(tuple(f"passage {number} ".encode() * 40)) for number in range(8)]
QUESTION = Part(tuple(b"why?"))
RESERVE_BYTES = 8 * 2**20


@dataclass(frozen=True)
class Outcome:
    """What was answered, and what memory had to do with it."""

    answers: list[str]
    steps: dict[str, int]
    reasons: list[str]


def make_model() -> TransformersModel:
    """Return a random Llama with large heads."""
    tokenizer = make_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=256,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    model.generation_config = GenerationConfig()
    return TransformersModel(model, tokenizer, prefill_step_tokens=64)


def ask_all(reader: PrefixReader, passages: list[Part]) -> Outcome:
    """Ask over each passage in turn, then over each again."""
    answers, reasons = [], []
    for passage in passages * 2:
        parts, trace = [SYSTEM, passage, QUESTION], Trace("test")
        reading = reader.read(parts[:-1], trace=trace)
        assert isinstance(reader.model, TransformersModel)
        assert isinstance(reading.cache, KVCache)
        pieces = generate.stream(
            reader.model, joined(parts), SamplingParams(max_new_tokens=8), cache=reading.cache
        )
        answers.append("".join(piece.text for piece in pieces))
        reasons += [str(s.attributes["reason"]) for s in trace.spans if "reason" in s.attributes]
    return Outcome(answers, dict(reader.tree.steps), reasons)


def main() -> None:
    """Warm up, limit the memory to what is taken and ``BYTES`` more, and ask."""
    torch.set_num_threads(1)
    reader = PrefixReader(make_model(), PrefixTree(10**12), reserve_bytes=RESERVE_BYTES)
    ask_all(reader, PASSAGES[:1])
    reader.tree.clear()
    limit = psutil.Process().memory_info().vms + int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    print(json.dumps(vars(ask_all(reader, PASSAGES))))


if __name__ == "__main__":
    main()
