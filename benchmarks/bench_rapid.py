"""Compare ways to draft tokens: plain, transformers' two, and ours, on grounded and free answers.

The claim: with the rule ``exact`` the hybrid of copied and drafted tokens decodes a multiple as
fast as the plain loop, faster than transformers' prompt lookup and assisted generation, and no way
of ours is slower than plain where nothing can be guessed. All run in turn, one prompt after the
other, each prompt read once beforehand; times are of decoding, from the first tokens to the last.
In float32 the greedy tokens must be the same; elsewhere the gap of the logits at the first
difference is told, which is that of a tie, rounded the other way.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import get_args

from race import Results, Run, Runner, Task, Track, read_tasks
from readahead.lm.model import TransformersModel, load_named
from readahead.lm.sample import SamplingParams
from readahead.speculation.tokens import decode
from readahead.speculation.tokens.acceptance import Mode, Rule
from readahead.speculation.tokens.base import Pacer
from readahead.speculation.tokens.drafters import DrafterKind, ModelDrafter, make_drafter
from readahead.speculation.tokens.governor import FixedPacer, Governor
from readahead.speculation.tokens.lookup import LookupDrafter, Sources
from report import finish, options

DRAFTERS = get_args(DrafterKind)
THEIRS = ("hf_lookup", "hf_assisted")
SHOWN = (
    "begin_s",
    "token_s",
    "decode_speedup",
    "tokens_per_forward",
    "acceptance_rate",
    "mean_gap",
    "identical_share",
    "outside_models_share",
    "largest_gap",
)
MODES: tuple[Mode, ...] = ("augmented", "paper")


def main(name: str = "rapid", ways: tuple[str, ...] = (*DRAFTERS, *THEIRS)) -> None:
    """Race on contexts of each length asked for."""
    given = parsed(ways)
    target = load_named(given.target, given.device, given.dtype)
    drafter = load_named(given.drafter, given.device, given.drafter_dtype or given.dtype)
    params = SamplingParams(
        max_new_tokens=given.max_new_tokens, temperature=given.temperature, seed=given.seed
    )
    track = Track(target, params)
    runners = all_ways(track, drafter, given)
    results = Results()
    found: dict[str, float] = {}
    ours = [way for way in given.ways if way.split(":")[0] in DRAFTERS]
    for length in given.context:
        tasks = read_tasks(given.questions, given.passages, target, n=given.n, num_tokens=length)
        of_length = Results()
        of_length.race(track, tasks, {way: runners[way] for way in given.ways})
        results.add(of_length)
        if len(given.context) > 1:
            metrics = of_length.metrics(ours)
            found |= {f"{key}@{length}": metrics[key] for key in metrics if "speedup" in key}
    found |= results.metrics(ours)
    show(results, given.ways, found)
    finish(
        name,
        found,
        models={"target": given.target, "drafter": given.drafter},
        workload=f"{given.questions.name} over {given.passages.name}, contexts of "
        f"{', '.join(map(str, given.context))} tokens, at most {given.max_new_tokens} new tokens, "
        f"temperature {given.temperature}; drafter in {given.drafter_dtype or given.dtype}",
        n=sum(len(runs["plain"]) for runs in results.runs.values()),
        out=given.out,
        device=str(target.device),
        dtype=given.dtype,
        seed=given.seed,
    )


def parsed(ways: tuple[str, ...]) -> argparse.Namespace:
    """Return the options."""
    parser = options(__doc__ or "")
    parser.add_argument("--questions", type=Path, required=True, help="question, answers, passage")
    parser.add_argument("--passages", type=Path, required=True, help="id, title, text")
    parser.add_argument("--target", default="qwen2.5-coder-1.5b")
    parser.add_argument("--drafter", default="qwen2.5-coder-0.5b")
    parser.add_argument("--n", type=int, default=9, help="grounded questions of each length")
    parser.add_argument("--context", type=int, nargs="+", default=[600], help="tokens")
    parser.add_argument("--max-new-tokens", type=int, default=96)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--dtype", default="bfloat16", choices=("float32", "bfloat16"))
    parser.add_argument("--drafter-dtype", choices=("float32", "bfloat16", "int8"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--gamma", type=int, default=0, help="fixed; 0: the governor decides")
    parser.add_argument("--ways", nargs="+", default=ways, help="beside plain")
    parser.add_argument("--eta", type=float, nargs="*", default=[], help="of augmented and paper")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    etas = [f"rag:{mode}:{eta:g}" for mode in ("augmented", "paper") for eta in given.eta]
    given.ways = ["plain", *given.ways, *etas]
    return given


def all_ways(
    track: Track, drafter: TransformersModel, given: argparse.Namespace
) -> dict[str, Runner]:
    """Return every way to decode, by name; each of ours has a governor, kept from task to task."""
    ways: dict[str, Runner] = {
        "plain": track.plain,
        "hf_lookup": partial(track.transformers, prompt_lookup_num_tokens=10),
        "hf_assisted": partial(track.transformers, assistant_model=drafter.backend),
    }
    rules = {f":{mode}:{eta:g}": Rule(mode, eta=eta) for mode in MODES for eta in given.eta}
    for kind, end in [*((kind, "") for kind in DRAFTERS), *(("rag", end) for end in rules)]:
        pacer = FixedPacer(given.gamma) if given.gamma else Governor()
        rule = rules.get(end, decode.EXACT)

        def run(
            task: Task, kind: DrafterKind = kind, pacer: Pacer = pacer, rule: Rule = rule
        ) -> Run:
            size = track.target.vocabulary_size
            model = ModelDrafter(drafter, task.drafter_ids, vocabulary_size=size)
            made = make_drafter(kind, LookupDrafter(Sources(task.texts)), model)
            return track.speculated(task, made, pacer, rule)

        ways[kind + end] = run
    return ways


def show(results: Results, ways: Sequence[str], found: Mapping[str, float]) -> None:
    """Print the table."""
    head: tuple[str, ...] = (
        "begin s",
        "s/token",
        "speed-up",
        "tokens/forward",
        "accepted",
        "TV to p",
        "same",
    )
    head = (*head, "outside", "gap")
    for kind, runs in results.runs.items():
        end = "" if kind == "grounded" else f".{kind}"
        print(f"{kind}: {len(runs['plain'])} prompts")
        print(f"  {'':<20}" + "".join(f"{name:>15}" for name in head))
        for way in ways:
            cells: list[float | None] = [found.get(f"{name}{end}.{way}") for name in SHOWN]
            row = "".join(f"{'' if cell is None else f'{cell:.3f}':>15}" for cell in cells)
            print(f"  {way:<20}{row}")


if __name__ == "__main__":
    main()
