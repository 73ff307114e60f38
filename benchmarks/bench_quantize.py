"""Measure what weights in int8 cost in the next token's distribution, and save in memory and time.

The claim: ``dtype="int8"`` stays close to float32 and decodes faster than bfloat16 does. Texts are
read in all three precisions, and at every position the distributions of the next token are
compared with float32. Then steps of one token (decoding), a few (verifying draft tokens) and many
(prefill) are timed behind the same tokens, the precisions taking turns.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import fmean, median

import torch
from torch import Tensor

from readahead.config import Dtype
from readahead.lm.base import Cache
from readahead.lm.model import TransformersModel
from readahead.lm.weights import pull
from report import finish, options, timed

DTYPES: tuple[Dtype, ...] = ("float32", "bfloat16", "int8")
STEPS_TOKENS = (1, 5, 9, 64, 256)
KNOWN_TOKENS = 256  # that a timed step is read behind
MAX_TEXT_TOKENS = 200
SKIPPED_TOKENS = 16  # of a text: nothing says yet what it is about

Models = dict[str, TransformersModel]
Rows = dict[str, list[float]]


def log_probs(model: TransformersModel, token_ids: list[int]) -> Tensor:
    """Return ln p of the next token at every position but the first ones, (T, V)."""
    num_logits = len(token_ids) - SKIPPED_TOKENS
    logits = model.forward(torch.tensor([token_ids]), model.new_cache(), num_logits=num_logits)[0]
    return logits.log_softmax(-1)


def compare(models: Models, token_ids: list[int], rows: Rows) -> None:
    """Add how far each precision is from float32, position by position."""
    exact = log_probs(models["float32"], token_ids)
    for dtype in DTYPES[1:]:
        got = log_probs(models[dtype], token_ids)
        kl = (exact.exp() * (exact - got)).sum(-1).clamp_min(0)
        rows[f"kl.{dtype}"] += kl.tolist()
        rows[f"top1.{dtype}"] += (exact.argmax(-1) == got.argmax(-1)).float().tolist()
        following = torch.tensor(token_ids[SKIPPED_TOKENS + 1 :])[:, None]
        told = [ln_p[:-1].gather(-1, following)[:, 0] for ln_p in (got, exact)]
        rows[f"nll_gap.{dtype}"] += (told[1] - told[0]).tolist()


def time_steps(models: Models, token_ids: list[int], num_rounds: int, rows: Rows) -> None:
    """Add the seconds of each kind of step; in every round each precision has its turn.

    ``cpu_s`` is what this process computed, on all threads: other work on the machine hardly shows.
    """
    caches: dict[str, Cache] = {}
    for dtype, model in models.items():
        caches[dtype] = model.new_cache()
        model.forward(torch.tensor([token_ids[:KNOWN_TOKENS]]), caches[dtype])
    for number in range(num_rounds):
        for num_tokens in STEPS_TOKENS:
            ids = torch.tensor([token_ids[KNOWN_TOKENS : KNOWN_TOKENS + num_tokens]])
            for dtype, model in models.items():
                begun = time.process_time()
                rows[f"step{num_tokens}_s.{dtype}"].append(time_step(model, ids, caches[dtype]))
                rows[f"step{num_tokens}_cpu_s.{dtype}"].append(time.process_time() - begun)
        print(f"round {number + 1} of {num_rounds}", file=sys.stderr)


def time_step(model: TransformersModel, ids: Tensor, cache: Cache) -> float:
    """Return the seconds of one step, and take it back; a short one wants all of its logits."""
    num_logits = ids.shape[1] if ids.shape[1] <= 9 else 1
    seconds = timed(lambda: model.forward(ids, cache, num_logits=num_logits))
    cache.crop(KNOWN_TOKENS)
    return seconds


def summary(models: Models, rows: Rows) -> dict[str, float]:
    """Return means of what is compared, medians of times, and the ratios between these."""
    found = {
        name: median(values) if "_s." in name else fmean(values) for name, values in rows.items()
    }
    for dtype, model in models.items():
        found[f"weights_bytes.{dtype}"] = sum(p.nbytes for p in model.backend.parameters())
        for num_tokens in STEPS_TOKENS:
            step = f"step{num_tokens}"
            for kind in ("s", "cpu_s"):
                of_int8, own = (found[f"{step}_{kind}.{name}"] for name in ("int8", dtype))
                found[f"{step}_{kind}_ratio.int8_to_{dtype}"] = of_int8 / own
    return found


def show(dtype: str, found: dict[str, float]) -> None:
    """Print one line of the table."""
    pairs = [(found[f"step{n}_s.{dtype}"], found[f"step{n}_cpu_s.{dtype}"]) for n in STEPS_TOKENS]
    steps = " ".join(f"{1000 * wall:>6.0f}/{1000 * cpu:<6.0f}" for wall, cpu in pairs)
    print(
        f"{dtype:<9} {found[f'weights_bytes.{dtype}'] / 2**20:>6.0f}"
        f" {found.get(f'kl.{dtype}', 0.0):>8.4f} {found.get(f'top1.{dtype}', 1.0):>6.3f}"
        f" {found.get(f'nll_gap.{dtype}', 0.0):>8.4f} {steps}"
    )


def main() -> None:
    """Read the texts and time the steps in every precision."""
    parser = options(__doc__)
    parser.add_argument("--target", default="qwen2.5-coder-0.5b")
    parser.add_argument("--passages", type=Path, required=True, help="JSON Lines: text, …")
    parser.add_argument("--n", type=int, default=12, help="texts")
    parser.add_argument("--rounds", type=int, default=15, help="of timed steps")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    folder = pull(given.target).folder
    models: Models = {
        dtype: TransformersModel.load(folder, device="cpu", dtype=dtype) for dtype in DTYPES
    }
    lines = given.passages.read_text(encoding="utf-8").splitlines()
    texts = [models["int8"].tokenizer.encode(json.loads(line)["text"]) for line in lines]
    long = [ids for ids in texts if len(ids) > 2 * SKIPPED_TOKENS]
    chosen = long[:: max(1, len(long) // given.n)][: given.n]
    rows: Rows = defaultdict(list)
    for number, ids in enumerate(chosen, start=1):
        compare(models, list(ids[:MAX_TEXT_TOKENS]), rows)
        print(f"text {number} of {len(chosen)}", file=sys.stderr)
    num_positions = len(rows["kl.int8"])
    joined = [token_id for ids in long for token_id in ids][: KNOWN_TOKENS + max(STEPS_TOKENS)]
    time_steps(models, joined, given.rounds, rows)
    found = summary(models, rows)
    steps = " ".join(f"{f'{n} tokens':^13}" for n in STEPS_TOKENS)
    print(f"{given.target}, {len(chosen)} texts, {num_positions} positions, {given.rounds} rounds")
    print(f"{'dtype':<9} {'MiB':>6} {'KL':>8} {'top-1':>6} {'Δ nll':>8} {steps} (ms/CPU ms)")
    for dtype in DTYPES:
        show(dtype, found)
    finish(
        "quantize",
        found,
        models={"target": given.target},
        workload=f"{given.passages.name}, {num_positions} positions; "
        f"{given.rounds} rounds on {given.threads} threads",
        n=len(chosen),
        out=given.out,
        dtype="int8",
    )


if __name__ == "__main__":
    main()
