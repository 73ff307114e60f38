"""Ways to decode the same prompt, one after the other: what both token benchmarks measure with."""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

import torch
from torch import Tensor

from readahead.lm.base import Cache
from readahead.lm.batch import prefill
from readahead.lm.generate import Piece, stream
from readahead.lm.model import TransformersModel
from readahead.lm.prompt import passage_text
from readahead.lm.sample import SamplingParams
from readahead.speculation.tokens import decode
from readahead.speculation.tokens.acceptance import Rule
from readahead.speculation.tokens.base import Drafter, Pacer
from readahead.speculation.tokens.tally import Tally
from readahead.trace import Trace
from readahead.types import Passage

GROUNDED = "You are a helpful assistant. Answer from the passages below."
DETAIL = " Explain your answer in detail, quoting the passages."
FREE = "You are a helpful assistant. The passages below have nothing to do with what is asked."
WISHES = (
    "Invent a short story about {}.",
    "Explain in your own words why people like {}.",
    "Write a Python function about {} with a docstring.",
)
TOPICS = "a lighthouse, chess, a lost key, winter, bees, an old bridge, salt, clocks, a fox".split(
    ", "
)


@dataclass(frozen=True)
class Task:
    """A prompt: what the target reads, what the drafter reads, and what can be copied from.

    Attributes:
        kind: ``grounded``, whose answer stands in the passages, or ``free``.
        texts: Token ids of the passages retrieved, best first, then of all of them.
    """

    kind: str
    prompt_ids: tuple[int, ...]
    drafter_ids: tuple[int, ...]
    texts: tuple[tuple[int, ...], ...]


def read_tasks(
    questions: Path, passages: Path, model: TransformersModel, *, n: int, num_tokens: int
) -> list[Task]:
    """Return n grounded tasks and a third as many free ones, each over ``num_tokens`` tokens.

    The passages are the right one and others of the file behind it, in the order of the file, the
    right one somewhere in the middle; the drafter reads the right one and its two neighbours.
    """
    texts = {
        row["id"]: Passage(row["title"], row["text"], 0, len(row["text"]), id=str(row["id"]))
        for row in map(json.loads, passages.read_text("utf-8").splitlines())
    }
    order = list(texts)
    rows = [json.loads(line) for line in questions.read_text("utf-8").splitlines()]
    rows = rows[:: max(1, len(rows) // n)][:n]
    tasks = []
    for number, row in enumerate(rows):
        right = order.index(row["passage"])
        asked = row["question"].rstrip("?") + "?" + DETAIL
        tasks.append(_task("grounded", asked, right, order, texts, model, num_tokens))
        if number % 3 == 0:
            asked = WISHES[number // 3 % len(WISHES)].format(TOPICS[number // 3 % len(TOPICS)])
            tasks.append(_task("free", asked, right, order, texts, model, num_tokens))
    return tasks


def _task(
    kind: str,
    question: str,
    right: int,
    order: Sequence[int],
    texts: dict[int, Passage],
    model: TransformersModel,
    num_tokens: int,
) -> Task:
    chosen: list[Passage] = []
    sizes = 0
    for offset in _outwards(len(order)):
        passage = texts[order[(right + offset) % len(order)]]
        size = len(model.tokenizer.encode(passage.text))
        if chosen and sizes + size > num_tokens:
            break
        chosen = [passage, *chosen] if offset < 0 else [*chosen, passage]
        sizes += size
    best = texts[order[right]]
    ranked = sorted(chosen, key=lambda passage: abs(chosen.index(passage) - chosen.index(best)))[:3]
    near = [passage for passage in chosen if passage in ranked]
    instructions = GROUNDED if kind == "grounded" else FREE
    prompt_ids, spans = _laid_out(model, instructions, question, chosen)
    drafter_ids, _ = _laid_out(model, instructions, question, near)
    span_of = dict(zip((passage.id for passage in chosen), spans, strict=True))
    copied = [prompt_ids[slice(*span_of[passage.id])] for passage in ranked]
    whole = prompt_ids[spans[0][0] : spans[-1][1]]
    return Task(kind, prompt_ids, drafter_ids, (*copied, whole))


def _laid_out(
    model: TransformersModel, instructions: str, question: str, passages: Sequence[Passage]
) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
    """Return the prompt, and where in it each passage stands."""
    head, tail = model.tokenizer.frame(instructions)
    ids = model.tokenizer.encode_control(head)
    spans = []
    for number, passage in enumerate(passages, start=1):
        begun = len(ids)
        ids += model.tokenizer.encode(passage_text(number, passage))
        spans.append((begun, len(ids)))
    ids += model.tokenizer.encode(f"Question: {question}")
    return (*ids, *model.tokenizer.encode_control(tail)), spans


def _outwards(n: int) -> Iterator[int]:
    """Yield 0, 1, −1, 2, −2, …."""
    yield 0
    for distance in range(1, n // 2):
        yield from (distance, -distance)


@dataclass
class Run:
    """What one way to decode came to on one task.

    Attributes:
        decode_s: From the first tokens to the last.
        num_later_tokens: Those written in that time.
        gap: Where it first differs from plain, and the gap of the logits there; None if nowhere.
        model_s: What forward passes of the target and the drafter took of it; 0 where not told.
    """

    token_ids: list[int]
    decode_s: float
    num_later_tokens: int
    begin_s: float
    model_s: float = 0.0
    gap: tuple[int, float] | None = None
    tally: Tally = field(default_factory=Tally)

    @property
    def token_s(self) -> float:
        """Return the seconds a token."""
        return self.decode_s / max(1, self.num_later_tokens)


Runner = Callable[[Task], Run]


class Track:
    """One target; reads each prompt once for all ways that are ours."""

    def __init__(self, target: TransformersModel, params: SamplingParams) -> None:
        self.target = target
        self.params = params
        self._read: tuple[Task, Cache] | None = None

    def cache(self, task: Task) -> Cache:
        """Return a cache that holds all of the prompt but its last token."""
        if self._read is None or self._read[0] is not task:
            cache = self.target.new_cache()
            prefill(self.target, torch.tensor([task.prompt_ids[:-1]]), cache)
            self._read = task, cache
        return self._read[1].fork()

    def plain(self, task: Task) -> Run:
        """Decode plainly."""
        return self._timed(
            stream(self.target, task.prompt_ids, self.params, cache=self.cache(task))
        )

    def speculated(
        self, task: Task, drafter: Drafter, pacer: Pacer, rule: Rule = decode.EXACT
    ) -> Run:
        """Decode with draft tokens."""
        tally, trace = Tally(), Trace("race")
        pieces = decode.stream(
            self.target,
            task.prompt_ids,
            self.params,
            drafter,
            rule=rule,
            pacer=pacer,
            cache=self.cache(task),
            trace=trace,
            tally=tally,
        )
        run = self._timed(pieces)
        run.tally = tally
        run.model_s = trace.total_s("verify") + trace.total_s("drafter_decode")
        return run

    def first_gap(
        self, task: Task, expected: Sequence[int], got: Sequence[int]
    ) -> tuple[int, float]:
        """Return where two answers first differ, and by how much the target prefers the first.

        In nats, told by reading what they have in common once more; 0 where one goes on and the
        other ends.
        """
        pairs = enumerate(zip(expected, got, strict=False))
        place = next((i for i, (a, b) in pairs if a != b), min(len(expected), len(got)))
        if place == min(len(expected), len(got)):
            return place, 0.0
        unread = torch.tensor([[task.prompt_ids[-1], *expected[:place]]])
        row = self.target.forward(unread, self.cache(task))[0, -1]
        return place, float(row[expected[place]] - row[got[place]])

    @staticmethod
    def _timed(pieces: Iterator[Piece]) -> Run:
        begun = time.perf_counter()
        first = next(pieces)
        told = time.perf_counter()
        ids, later = list(first.token_ids), 0
        for piece in pieces:
            ids += piece.token_ids
            later += len(piece.token_ids)
        return Run(ids, time.perf_counter() - told, later, told - begun)

    def transformers(self, task: Task, **options: object) -> Run:
        """Decode with transformers' own ``generate``."""
        prompt = torch.tensor([task.prompt_ids], device=self.target.device)
        clock = _Clock(prompt.shape[1])
        begun = time.perf_counter()
        params = self.params
        sampled = (
            {"do_sample": False}
            if not params.temperature
            else {
                "do_sample": True,
                "temperature": params.temperature,
                "top_k": 0,
                "top_p": params.top_p,
            }
        )
        written = self.target.backend.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=params.max_new_tokens,
            stopping_criteria=[clock],
            **{**sampled, **options},
        )
        ended = time.perf_counter()
        ids = written[0, prompt.shape[1] :].tolist()
        eos = self.target.eos_token_ids
        kept = next((i for i, token_id in enumerate(ids) if token_id in eos), len(ids))
        later = len(ids) - clock.num_first
        return Run(ids[:kept], ended - clock.first_s, later, clock.first_s - begun)


class _Clock:
    """Notes when the first tokens are there; a stopping criterion that never stops."""

    def __init__(self, num_prompt_tokens: int) -> None:
        self._num_prompt_tokens = num_prompt_tokens
        self.first_s = 0.0
        self.num_first = 0

    def __call__(self, input_ids: Tensor, scores: object, **more: object) -> Tensor:
        if not self.first_s:
            self.first_s = time.perf_counter()
            self.num_first = input_ids.shape[1] - self._num_prompt_tokens
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)


@dataclass
class Results:
    """All runs, by way and kind of task."""

    runs: dict[str, dict[str, list[Run]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    def race(self, track: Track, tasks: Sequence[Task], ways: dict[str, Runner]) -> None:
        """Run every task in every way; who begins moves on by one each time."""
        names = list(ways)
        for number, task in enumerate(tasks):
            at = number % len(names)
            for name in (*names[at:], *names[:at]):
                self.runs[task.kind][name].append(ways[name](task))
            expected = self.runs[task.kind]["plain"][-1].token_ids
            for name in names:
                run = self.runs[task.kind][name][-1]
                if run.token_ids != expected:
                    run.gap = track.first_gap(task, expected, run.token_ids)
            shown = " ".join(
                f"{name} {self.runs[task.kind][name][-1].token_s * 1000:.0f}" for name in names
            )
            print(f"{number + 1}/{len(tasks)} {task.kind}: ms a token: {shown}", file=sys.stderr)

    def add(self, more: Results) -> None:
        """Add the runs of other tasks."""
        for kind, runs in more.runs.items():
            for name, of in runs.items():
                self.runs[kind][name] += of

    def speedup(self, kind: str, name: str) -> float | None:
        """Return how many times as fast as plain: the median over tasks that can be timed.

        None where none can: an answer of one piece has no time from its first tokens to its last.
        """
        pairs = zip(self.runs[kind]["plain"], self.runs[kind][name], strict=True)
        ratios = [
            plain.token_s / run.token_s
            for plain, run in pairs
            if plain.num_later_tokens and run.num_later_tokens
        ]
        return median(ratios) if ratios else None

    def metrics(self, ours: Sequence[str]) -> dict[str, float]:
        """Return what is reported of each way, and the worst of ours over the kinds of task."""
        found: dict[str, float] = {}
        for kind, runs in self.runs.items():
            end = "" if kind == "grounded" else f".{kind}"
            for name, of in runs.items():
                told = _of_runs(of) | (_of_tallies(of) if name in ours else {})
                if name != "plain":
                    if (speedup := self.speedup(kind, name)) is not None:
                        told["decode_speedup"] = speedup
                    pairs = zip(runs["plain"], of, strict=True)
                    told["identical_share"] = fmean(a.token_ids == b.token_ids for a, b in pairs)
                    gaps = [run.gap for run in of if run.gap]
                    if gaps:
                        told["first_difference_at"] = fmean(place for place, _ in gaps)
                        told["largest_gap"] = max(abs(gap) for _, gap in gaps)
                found |= {f"{key}{end}.{name}": value for key, value in told.items()}
        exact = [name for name in ours if ":" not in name]
        for worst, of_each in (("worst_ratio", "decode_speedup"), ("identical_share",) * 2):
            keys = [key for key in found if key.split(".")[0] == of_each]
            if values := [found[key] for key in keys if key.rsplit(".", 1)[1] in exact]:
                found[worst] = min(values)
        return found


def _of_runs(runs: Sequence[Run]) -> dict[str, float]:
    later_s = [run.token_s for run in runs if run.num_later_tokens]
    return ({"token_s": median(later_s)} if later_s else {}) | {
        "begin_s": median(run.begin_s for run in runs),
        "num_tokens": fmean(len(run.token_ids) for run in runs),
    }


def _of_tallies(runs: Sequence[Run]) -> dict[str, float]:
    tallies = [run.tally for run in runs]
    drafted = sum(tally.drafted.total() for tally in tallies)
    accepted = sum(tally.accepted.total() for tally in tallies)
    num_rounds = sum(tally.num_rounds for tally in tallies)
    num_judged_tokens = sum(tally.num_judged_tokens for tally in tallies)
    decode_s = sum(run.decode_s for run in runs)
    return {
        "outside_models_share": 1 - sum(run.model_s for run in runs) / decode_s,
        "tokens_per_forward": 1 + accepted / max(1, num_rounds),
        "acceptance_rate": accepted / max(1, drafted),
        "mean_gap": sum(tally.gap for tally in tallies) / max(1, num_judged_tokens),
    }
