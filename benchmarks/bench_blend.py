"""Measure what blending passages that were read elsewhere costs in answers, and saves in time.

The claim: passages whose keys are only moved change most answers; with a fifth to a third of their
tokens computed anew, more answers stay, in about half of the time. Each question is asked over
the first three passages that it retrieves; the second and the first were read behind the fourth,
and the third behind the fifth. Ways of reading take turns, in float32. Rows go to ``--rows``, so a
run can be stopped and taken up.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from statistics import fmean, median

import torch
from torch import Tensor

from readahead.config import load_config
from readahead.evaluation.datasets import read_questions
from readahead.knowledge import KnowledgeBase
from readahead.lm.base import Cache
from readahead.lm.batch import prefill
from readahead.lm.blend import Blender
from readahead.lm.blendplan import plan_blend
from readahead.lm.model import TransformersModel
from readahead.lm.prefixtree import PrefixTree, root_key
from readahead.lm.prompt import Part, Prompt, build_prompt
from readahead.lm.reuse import PrefixReader
from readahead.lm.weights import pull
from readahead.types import Passage
from report import finish, options

NUM_TOKENS = 12
NUM_SHOWN, NUM_FOUND = 3, 5
MAX_TOKENS = 2000
Row = dict[str, float]


@dataclass(frozen=True)
class Asked:
    """One question with its prompt, and what was read before."""

    prompt: Prompt
    without: Prompt  # no passage at all
    before: tuple[Prompt, ...]

    @property
    def unread(self) -> list[Part]:
        """Return all of the prompt but its last token."""
        *parts, last = self.prompt.parts
        return [*parts, Part(last.token_ids[:-1])]


@dataclass(frozen=True)
class Said:
    """What the model says first, how long that took to come, and what it read for it."""

    log_probs: Tensor  # (V,)
    token_ids: tuple[int, ...]
    seconds: float
    num_computed: int


class Ways:
    """The ways of reading one prompt."""

    def __init__(self, model: TransformersModel, asked: Asked) -> None:
        self.model = model
        self.asked = asked
        self.reader = PrefixReader(model, PrefixTree(2**33))
        self._root = root_key(model.fingerprint)
        for prompt in asked.before:
            self.reader.read(prompt.parts[:-2])

    def plain(self) -> tuple[Cache, Prompt]:
        """Read everything."""
        return self.model.new_cache(), self.asked.prompt

    def nothing(self) -> tuple[Cache, Prompt]:
        """Read the question alone."""
        return self.model.new_cache(), self.asked.without

    def exact(self) -> tuple[Cache, Prompt]:
        """Read what is not known at its very place."""
        return self.reader.open(self.asked.unread).cache, self.asked.prompt

    def blended(self, share: float) -> tuple[Cache, Prompt]:
        """Move what is known anywhere, and read ``share`` of it again."""
        parts = self.asked.unread
        cache = self.reader.open(parts).cache
        blender = Blender(self.model, self.reader.tree, share=share)
        with self.reader.tree.find({part.label for part in parts} - {""}, self._root) as copies:
            plan = plan_blend(parts, cache.length, copies, share)
            assert blender.carry_out(plan, copies, cache)
        self.num_computed = plan.num_computed
        return cache, self.asked.prompt

    def say(self, way: Callable[[], tuple[Cache, Prompt]]) -> Said:
        """Read in one ``way``, then decode greedily."""
        self.num_computed = 0
        begun = time.perf_counter()
        cache, prompt = way()
        unread = torch.tensor([prompt.token_ids[cache.length :]])
        logits = prefill(self.model, unread, cache)
        seconds = time.perf_counter() - begun
        assert logits is not None
        num_computed = self.num_computed + unread.shape[1]
        token_ids = tuple(self._decoded(logits, cache))
        return Said(logits[0].double().log_softmax(-1), token_ids, seconds, num_computed)

    def _decoded(self, logits: Tensor, cache: Cache) -> Iterator[int]:
        """Yield the first tokens; after the answer's end, its end again."""
        for _ in range(NUM_TOKENS):
            token_id = int(logits[0].argmax())
            yield token_id
            if token_id not in self.model.eos_token_ids:
                logits = self.model.forward(torch.tensor([[token_id]]), cache)[:, -1]


def compare(got: Said, plain: Said) -> Row:
    """Return how far ``got`` is from ``plain``."""
    pairs = zip(got.token_ids, plain.token_ids, strict=True)
    same = [a == b for a, b in pairs]
    kl = (plain.log_probs.exp() * (plain.log_probs - got.log_probs)).sum()
    return {
        "kl_mean": max(0.0, float(kl)),
        "top1_share": float(same[0]),
        "greedy12_share": sum(takewhile(bool, same)) / NUM_TOKENS,
        "computed_share": got.num_computed / plain.num_computed,
        "seconds": got.seconds,
    }


def measure(model: TransformersModel, asked: Asked, shares: Sequence[float], turn: int) -> Row:
    """Ask one question in all ways; which goes first changes with ``turn``."""
    ways = Ways(model, asked)
    all_ways: dict[str, Callable[[], tuple[Cache, Prompt]]] = {
        "plain": ways.plain,
        "exact": ways.exact,
        **{f"blend_{share:g}": partial(ways.blended, share) for share in shares},
        "no_passages": ways.nothing,
    }
    names = list(all_ways)
    turned = names[turn % len(names) :] + names[: turn % len(names)]
    said = {name: ways.say(all_ways[name]) for name in turned}
    row = {"num_tokens": float(len(asked.prompt.token_ids))}
    for name in names:
        figures = compare(said[name], said["plain"])
        row |= {f"{figure}.{name}": value for figure, value in figures.items()}
    return row


def questions(model: TransformersModel, given: argparse.Namespace, kb: Path) -> list[Asked]:
    """Return the questions with what they retrieve."""
    config = load_config({"kb": given.kb or kb})

    def prompt(question: str, passages: Sequence[Passage]) -> Prompt:
        return build_prompt(model.tokenizer, question, passages, max_tokens=MAX_TOKENS)

    asked = []
    with KnowledgeBase.open(config) as knowledge:
        knowledge.add([given.passages])
        for question in read_questions(given.questions)[given.skip :][: given.n]:
            found = [hit.passage for hit in knowledge.search(question.text, NUM_FOUND)]
            first, second, third, fourth, fifth = found
            orders = ([fourth, second, first], [fifth, third])
            before = tuple(prompt(question.text, order) for order in orders)
            shown = prompt(question.text, found[:NUM_SHOWN])
            asked.append(Asked(shown, prompt(question.text, ()), before))
    return asked


def measured(given: argparse.Namespace, first: int) -> Iterator[Row]:
    """Yield the rows of the questions from the ``first`` on."""
    model = TransformersModel.load(pull(given.target).folder, device="cpu", dtype="float32")
    with tempfile.TemporaryDirectory() as folder:
        asked = questions(model, given, Path(folder))
    measure(model, asked[first], given.share, 0)  # the first pass through a model is slow
    for number in range(first, len(asked)):
        row = measure(model, asked[number], given.share, number)
        print(f"{number + 1} of {len(asked)}", file=sys.stderr)
        if given.rows:
            with given.rows.open("a") as file:
                file.write(json.dumps(row) + "\n")
        yield row


def figures(rows: Sequence[Row]) -> Row:
    """Return medians of seconds, with their ratio to the plain ones, and means of all else."""
    found: Row = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        found[name] = median(values) if name.startswith("seconds.") else fmean(values)
    for name in [name for name in found if name.startswith("seconds.")]:
        way = name.removeprefix("seconds.")
        found[f"time_ratio.{way}"] = found[name] / found["seconds.plain"]
    return found


def show(found: Row) -> None:
    """Print the table."""
    columns = ("computed_share", "time_ratio", "kl_mean", "top1_share", "greedy12_share")
    print(f"{'':<12}" + "".join(f"{column:>16}" for column in columns))
    for name in [name for name in found if name.startswith("time_ratio.")]:
        way = name.removeprefix("time_ratio.")
        print(f"{way:<12}" + "".join(f"{found[f'{column}.{way}']:16.4f}" for column in columns))


def main() -> None:
    """Ask every question in all ways, and compare."""
    parser = options(__doc__)
    parser.add_argument("--target", default="smollm2-135m")
    parser.add_argument("--questions", type=Path, required=True, help="JSON Lines: question, …")
    parser.add_argument("--passages", type=Path, required=True, help="JSON Lines: id, title, text")
    parser.add_argument("--n", type=int, default=20, help="questions")
    parser.add_argument("--skip", type=int, default=0, help="questions left out before them")
    parser.add_argument("--share", type=float, nargs="+", default=[0.0, 0.15, 0.2, 0.3, 1.0])
    parser.add_argument("--kb", type=Path, help="keep the knowledge base here, and use it again")
    parser.add_argument("--rows", type=Path, help="keep rows here, and go on behind the last")
    given = parser.parse_args()
    rows: list[Row] = []
    if given.rows and given.rows.exists():
        rows = [json.loads(line) for line in given.rows.read_text().splitlines()]
    if len(rows) < given.n:
        rows += measured(given, len(rows))
    found = figures(rows[: given.n])
    print(f"{given.target}, {found['num_tokens']:.0f} tokens a prompt, mean or median")
    show(found)
    finish(
        "blend",
        found,
        models={"target": given.target, "embedder": load_config().models.embedder},
        workload=f"{given.questions.name} over {given.passages.name}, 3 passages each, read before "
        f"in another order behind others, the first {given.skip} questions left out",
        n=len(rows[: given.n]),
        out=given.out,
    )


if __name__ == "__main__":
    main()
