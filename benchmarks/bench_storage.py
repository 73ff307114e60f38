"""Measure what keys and values in fewer bits cost in answers, and save in memory and time.

The claim: of a prefix that was not used lately, int8 keeps the answers nearly as they were in just
over a quarter of the memory. Each question is asked over its own passage and the next two of the
file, in float32: after a reading of its own (exact), after packing and unpacking the keys and
values of everything before the question, and after they were on disk.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from statistics import fmean, median

import torch
from torch import Tensor

from readahead.evaluation.datasets import read_questions
from readahead.lm.base import Segment
from readahead.lm.model import TransformersModel
from readahead.lm.pack import Storage, pack
from readahead.lm.prompt import Prompt, build_prompt, joined
from readahead.lm.spill import Spill
from readahead.lm.weights import pull
from readahead.types import Passage
from report import finish, options, timed

STORAGES: tuple[Storage, ...] = ("bfloat16", "int8")
NUM_TOKENS = 12


@dataclass(frozen=True)
class Continuation:
    """What the model says to the question behind some keys and values.

    Attributes:
        log_probs: Of the first token, (V,).
        token_ids: The first tokens, greedy.
    """

    log_probs: Tensor
    token_ids: tuple[int, ...]


def continued(model: TransformersModel, segment: Segment, question: Sequence[int]) -> Continuation:
    """Read ``question`` behind ``segment`` and write the first tokens."""
    cache = model.new_cache()
    cache.extend([segment.unpack()])
    logits = model.forward(torch.tensor([question]), cache)[0, -1]
    log_probs = logits.double().log_softmax(-1)
    token_ids = [int(logits.argmax())]
    while len(token_ids) < NUM_TOKENS:
        token_ids.append(int(model.forward(torch.tensor([token_ids[-1:]]), cache)[0, -1].argmax()))
    return Continuation(log_probs, tuple(token_ids))


def prompts(
    model: TransformersModel, given_questions: Path, given_passages: Path, n: int
) -> list[Prompt]:
    """Return the prompt of each question: its passage first, then the two that follow it."""
    lines = given_passages.read_text(encoding="utf-8").splitlines()
    passages = [
        Passage(record["title"], record["text"], 0, len(record["text"]), id=str(record["id"]))
        for record in map(json.loads, lines)
    ]
    places = {passage.id: place for place, passage in enumerate(passages)}
    made = []
    for question in read_questions(given_questions)[:n]:
        first = places[question.passage]
        shown = [passages[(first + offset) % len(passages)] for offset in range(3)]
        made.append(build_prompt(model.tokenizer, question.text, shown, max_tokens=2000))
    return made


def compare(got: Continuation, exact: Continuation) -> dict[str, float]:
    """Return how far ``got`` is from ``exact``."""
    pairs = zip(got.token_ids, exact.token_ids, strict=True)
    same = [a == b for a, b in pairs]
    kl = (exact.log_probs.exp() * (exact.log_probs - got.log_probs)).sum()
    return {
        "kl": max(0.0, float(kl)),
        "top1": float(same[0]),
        "same_tokens": sum(takewhile(bool, same)) / NUM_TOKENS,
        "identical": float(all(same)),
    }


def measure(model: TransformersModel, prompt: Prompt, spill: Spill) -> dict[str, float]:
    """Ask one question after each kind of storage."""
    before, question = joined(prompt.parts[:-1]), prompt.parts[-1].token_ids
    cache = model.new_cache()
    metrics = {"prefill_s": timed(lambda: model.forward(torch.tensor([before]), cache))}
    segment = cache.cut(0, cache.length)
    exact = continued(model, segment, question)
    metrics["num_tokens"] = len(before)
    metrics["bytes_per_token.same"] = segment.num_bytes / len(before)
    metrics["copy_s"] = timed(lambda: model.new_cache().extend([segment]))
    kept: dict[str, Segment] = {"same": segment}
    for storage in STORAGES:
        begun = time.perf_counter()
        packed = pack(segment, storage)
        metrics[f"pack_s.{storage}"] = time.perf_counter() - begun
        assert packed is not None
        kept[storage] = packed
        metrics[f"unpack_s.{storage}"] = timed(packed.unpack)
        metrics[f"bytes_per_token.{storage}"] = packed.num_bytes / len(before)
        figures = compare(continued(model, packed, question), exact)
        metrics |= {f"{name}.{storage}": value for name, value in figures.items()}
    for name, one in kept.items():
        metrics |= on_disk(spill, name, one)
    loaded = spill.get(b"same")
    assert loaded is not None
    metrics["identical.disk"] = compare(continued(model, loaded, question), exact)["identical"]
    spill.discard([name.encode() for name in kept])
    return metrics


def on_disk(spill: Spill, name: str, segment: Segment) -> dict[str, float]:
    """Return the seconds that writing and loading take; the file is in the system's memory."""
    key = name.encode()

    def write() -> None:
        spill.put(key, segment)
        spill.flush()

    return {f"write_s.{name}": timed(write), f"load_s.{name}": timed(lambda: spill.get(key))}


def typical(name: str, values: Sequence[float]) -> float:
    """Return the median of times, the mean of everything else."""
    is_time = name.partition(".")[0].endswith("_s")
    return median(values) if is_time else fmean(values)


def show(storage: str, found: dict[str, float]) -> None:
    """Print one line of the table."""
    print(
        f"{storage:<9} {found[f'bytes_per_token.{storage}'] / 1024:>8.1f}"
        f" {found.get(f'kl.{storage}', 0.0):>10.6f} {found.get(f'top1.{storage}', 1.0):>6.2f}"
        f" {found.get(f'same_tokens.{storage}', 1.0):>12.3f}"
        f" {found.get(f'identical.{storage}', 1.0):>10.2f}"
        f" {1000 * found.get(f'pack_s.{storage}', 0.0):>8.1f}"
        f" {1000 * found.get(f'unpack_s.{storage}', 0.0):>10.1f}"
        f" {1000 * found[f'load_s.{storage}']:>8.1f}"
    )


def main() -> None:
    """Ask every question after each kind of storage, and compare."""
    parser = options(__doc__)
    parser.add_argument("--target", default="smollm2-135m")
    parser.add_argument("--questions", type=Path, required=True, help="JSON Lines: question, …")
    parser.add_argument("--passages", type=Path, required=True, help="JSON Lines: id, title, text")
    parser.add_argument("--n", type=int, default=20, help="questions")
    given = parser.parse_args()
    model = TransformersModel.load(pull(given.target).folder, device="cpu", dtype="float32")
    spill = Spill(2**30)
    rows: dict[str, list[float]] = defaultdict(list)
    all_prompts = prompts(model, given.questions, given.passages, given.n)
    for number, prompt in enumerate(all_prompts, start=1):
        for name, value in measure(model, prompt, spill).items():
            rows[name].append(value)
        print(f"{number} of {len(all_prompts)}", file=sys.stderr)
    spill.close()
    found = {name: typical(name, values) for name, values in rows.items()}
    print(f"{given.target}, {found['num_tokens']:.0f} tokens before the question, mean or median")
    print(
        f"{'storage':<9} {'KiB/token':>9} {'KL':>9} {'top-1':>6} {'same of 12':>12}"
        f" {'identical':>10} {'pack ms':>8} {'unpack ms':>10} {'load ms':>8}"
    )
    for storage in ("same", *STORAGES):
        show(storage, found)
    print(f"prefill {found['prefill_s']:.2f} s, copy into a cache {1000 * found['copy_s']:.1f} ms")
    print(f"identical after the disk: {found['identical.disk']:.2f}")
    finish(
        "storage",
        found,
        models={"target": given.target},
        workload=f"{given.questions.name} over {given.passages.name}, 3 passages each",
        n=len(all_prompts),
        out=given.out,
    )


if __name__ == "__main__":
    main()
