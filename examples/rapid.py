"""Decode several tokens a step, each of them checked: with the engine, and in transformers alone.

``python examples/rapid.py ["QUESTION"]``
"""

import sys
import tempfile
import time
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer, TextStreamer

from readahead import Engine, load_config, pull
from readahead.speculation.tokens.custom import RapidDecoder

MANUAL = Path(__file__).parent / "documents" / "telescope-manual.md"
QUESTION = "How is the Marlowe refractor started up?"


def in_the_engine(question: str) -> None:
    """Answer about a whole document, copying what stands in it."""
    with tempfile.TemporaryDirectory() as folder:
        config = load_config({"kb": f"{folder}/knowledge", "generation.max_new_tokens": 64})
        for model in (config.models.target, config.models.embedder):
            pull(model)
        with Engine.open(config) as engine:
            engine.knowledge.add([MANUAL])
            answer = engine.ask(question, method="rapid")
    print(f"? {question}\n{answer.text}")
    print(f"  {answer.speculation['mean_acceptance_length']:.2f} tokens a step\n")


def in_transformers(question: str) -> None:
    """Complete a prompt with ``generate``, plainly and speculatively: the same tokens."""
    folder = pull(load_config().models.target).folder
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    message = f"{MANUAL.read_text(encoding='utf-8')[:2000]}\n\n{question} Quote the manual."
    chat = [{"role": "user", "content": message}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    inputs = tokenizer(prompt, return_tensors="pt")
    decoder = RapidDecoder(tokenizer, streamer=TextStreamer(tokenizer, skip_prompt=True))

    begun_s = time.perf_counter()
    plain = model.generate(**inputs, max_new_tokens=64, do_sample=False)
    plain_s = time.perf_counter() - begun_s
    rapid = model.generate(**inputs, max_new_tokens=64, do_sample=False, custom_generate=decoder)
    rapid_s = time.perf_counter() - begun_s - plain_s
    print(f"\n  the same tokens: {bool((plain == rapid).all())}")
    print(f"  {decoder.tally.mean_acceptance_length:.2f} tokens a step")
    print(f"  {rapid_s:.2f} s, plainly {plain_s:.2f} s")


if __name__ == "__main__":
    asked = sys.argv[1] if len(sys.argv) > 1 else QUESTION
    in_the_engine(asked)
    in_transformers(asked)
