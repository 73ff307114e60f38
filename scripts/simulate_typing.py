"""Simulate what reading ahead saves and wastes while questions are typed; runs no model.

From a recording of ``fit_gate.py`` and the probabilities that its gate gives, each question from
the folds it was not fitted on. At each complete word the three best passages are retrieved. If the
gate passes, those of them that were read already stay, from the front, and the missing ones are
read behind them, in steps; a new retrieval ends the work at a step's end. At Enter the question is
retrieved for, the longest usable beginning of what was read is kept, and the rest is read.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from fit_gate import examples, out_of_fold
from readahead.config import PrefetchConfig
from readahead.lm.weights import resolve
from report import finish, options
from typing_runs import Recording, load

K = 3
PAUSE_S = 0.35
MAX_WASTED = 0.7
GRID = (0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, slots=True)
class Scheme:
    """How a question is typed and read ahead.

    Attributes:
        threshold: The gate's probability from which the first passage is read.
        threshold_more: From which the others are.
        pause_s: Between the last stroke and Enter.
    """

    threshold: float
    threshold_more: float
    policy: str = "same-set"
    pause_s: float = 0.0
    rest_s: float = 0.3
    relaxed_k: int = 6
    words_per_s: float = 3.0
    prefill_per_s: float = 550.0
    retrieval_s: float = 0.02
    step_tokens: int = 64
    question_tokens: int = 20

    def allowed(self, ranking: Sequence[str]) -> Sequence[str]:
        """Return the passages that may be shown for a ranking."""
        return ranking[: self.relaxed_k if self.policy == "relaxed" else K]


@dataclass(frozen=True, slots=True)
class Typed:
    """A question: the ranking after each word, the last being final, and the gate's answers."""

    rankings: Sequence[Sequence[str]]
    probabilities: Sequence[float]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What reading ahead did to one question; shares are of the plain prompt's tokens."""

    ttft_ratio: float
    wasted: float
    reused: float


@dataclass(slots=True)
class _Reader:
    """What has been read, in order, and when it will be free again."""

    scheme: Scheme
    lengths: Mapping[str, int]
    clock: float = 0.0
    num_read: int = 0
    path: list[tuple[str, int]] = field(default_factory=list)  # passage, tokens read of it

    def read(self, plan: Sequence[str], until: float) -> None:
        """Read the passages of ``plan``, dropping what stands in their way, until it is time."""
        for place, passage in enumerate(plan):
            if place < len(self.path) and self.path[place][0] != passage:
                del self.path[place:]
            while self.clock < until:
                have = self.path[place][1] if place < len(self.path) else 0
                step = min(self.scheme.step_tokens, self.lengths[passage] - have)
                if not step:
                    break
                self.path[place:] = [(passage, have + step)]
                self.num_read += step
                self.clock += step / self.scheme.prefill_per_s
            else:
                return

    def arrange(self, ranking: Sequence[str], num: int) -> list[str]:
        """Return the passages to read, at least ``num``: first those read that may stay."""
        if self.scheme.policy == "exact-order":
            return list(ranking[:num])
        allowed = self.scheme.allowed(ranking)
        kept = [passage for passage, _ in takewhile(lambda read: read[0] in allowed, self.path)]
        new = [passage for passage in ranking[:K] if passage not in kept]
        return [*kept, *new][: max(num, len(kept))][:K]

    def kept(self, ranking: Sequence[str]) -> list[tuple[str, int]]:
        """Return the beginning of what was read that the final ranking lets stand."""
        if self.scheme.policy == "exact-order":
            pairs = zip(self.path, ranking[:K], strict=False)
            return [read for read, _ in takewhile(lambda pair: pair[0][0] == pair[1], pairs)]
        allowed = self.scheme.allowed(ranking)
        return list(takewhile(lambda read: read[0] in allowed, self.path))[:K]


def simulate(typed: Typed, lengths: Mapping[str, int], scheme: Scheme) -> Outcome:
    """Return what reading ahead does to one question."""
    reader = _Reader(scheme, lengths)
    last = len(typed.rankings) / scheme.words_per_s
    rested = scheme.pause_s >= scheme.rest_s
    # The last word is complete only when Enter or a rest follows it.
    ends = last + (scheme.rest_s if rested else scheme.pause_s)
    for number, ranking in enumerate(typed.rankings[:-1], start=1):
        probability = typed.probabilities[number - 1]
        if math.isnan(probability):
            continue
        reader.clock = max(reader.clock, number / scheme.words_per_s) + scheme.retrieval_s
        until = ends if number + 1 == len(typed.rankings) else (number + 1) / scheme.words_per_s
        if probability >= scheme.threshold:
            num = K if probability >= scheme.threshold_more else 1
            reader.read(reader.arrange(ranking, num), until)
    reader.clock = max(reader.clock, ends) + scheme.retrieval_s
    return _outcome(reader, typed.rankings[-1], last + scheme.pause_s)


def _outcome(reader: _Reader, final: Sequence[str], enter: float) -> Outcome:
    """Read what is missing for the final ranking, and compare with reading all after Enter."""
    scheme, lengths = reader.scheme, reader.lengths
    kept = reader.kept(final)
    shown = [passage for passage, _ in kept]
    shown += [passage for passage in final[:K] if passage not in shown][: K - len(shown)]
    num_kept = sum(tokens for _, tokens in kept)
    missing = sum(lengths[passage] for passage in shown) + scheme.question_tokens - num_kept
    plain = sum(lengths[passage] for passage in final[:K]) + scheme.question_tokens
    ready = reader.clock + missing / scheme.prefill_per_s
    return Outcome(
        ttft_ratio=max(0.0, ready - enter) / (scheme.retrieval_s + plain / scheme.prefill_per_s),
        wasted=(reader.num_read - num_kept) / plain,
        reused=num_kept / plain,
    )


def typed_questions(recording: Recording) -> list[Typed]:
    """Return the questions with the probabilities of gates that were fitted on others."""
    data = examples(recording)
    probabilities = np.where(data.waits, np.nan, out_of_fold(data))
    return [
        Typed(
            [[hit.passage.id for hit in step.hits] for step in steps],
            probabilities[data.questions == number].tolist(),
        )
        for number, steps in enumerate(recording.questions)
    ]


def passage_lengths(recording: Recording, name: str) -> dict[str, int]:
    """Return the tokens of every passage with its headings."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(resolve(name).folder / "tokenizer.json"))
    passages = {
        hit.passage.id: hit.passage
        for steps in recording.questions
        for step in steps
        for hit in step.hits
    }
    texts = [" / ".join(p.heading) + "\n" + p.text + "\n\n" for p in passages.values()]
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    return {id: len(tokens.ids) for id, tokens in zip(passages, encoded, strict=True)}


def summary(
    questions: Sequence[Typed], lengths: Mapping[str, int], scheme: Scheme
) -> dict[str, float]:
    """Return what reading ahead does to the questions."""
    outcomes = [simulate(typed, lengths, scheme) for typed in questions]
    ratios = [outcome.ttft_ratio for outcome in outcomes]
    return {
        "ttft_ratio_mean": float(np.mean(ratios)),
        "ttft_ratio_p50": float(np.percentile(ratios, 50)),
        "ttft_ratio_p95": float(np.percentile(ratios, 95)),
        "wasted": float(np.mean([outcome.wasted for outcome in outcomes])),
        "reused": float(np.mean([outcome.reused for outcome in outcomes])),
    }


def show(name: str, values: Mapping[str, float]) -> None:
    """Print a line of a table."""
    print(f"{name:40}" + "".join(f"{value:9.3f}" for value in values.values()), flush=True)


def search(questions: Sequence[Typed], lengths: Mapping[str, int], scheme: Scheme) -> None:
    """Print what each pair of thresholds does, then the best of those that waste little enough."""
    found: list[tuple[float, str]] = []
    for first in GRID:
        for more in (value for value in GRID if value >= first):
            tried = replace(scheme, threshold=first, threshold_more=more)
            values = summary(questions, lengths, tried)
            show(f"{first:.2f}, {more:.2f}", values)
            paused = summary(questions, lengths, replace(tried, pause_s=PAUSE_S))
            wasted = max(values["wasted"], paused["wasted"])
            if wasted <= MAX_WASTED:
                ratio, label = values["ttft_ratio_mean"], "two" if more > first else "one"
                line = f"TTFT {ratio:.3f}, at most {wasted:.3f} wasted"
                found.append((ratio, f"{label}: {first:.2f}, {more:.2f}: {line}"))
    for label in ("one", "two"):
        print(f"best within {MAX_WASTED} of {min(f for f in found if f[1].startswith(label))[1]}")


def main() -> None:
    """Search the thresholds, then compare policies, pauses and speeds."""
    parser = options(__doc__)
    parser.add_argument("--recording", type=Path, required=True, help="of fit_gate.py")
    parser.add_argument("--tokenizer", default="smollm2-135m", help="whose tokens are counted")
    parser.add_argument("--prefill-per-s", type=float, default=550.0, help="tokens")
    parser.add_argument("--grid", action="store_true", help="search the thresholds first")
    given = parser.parse_args()
    recording = load(given.recording)
    questions, lengths = typed_questions(recording), passage_lengths(recording, given.tokenizer)
    config = PrefetchConfig()
    scheme = Scheme(config.threshold, config.threshold_more, prefill_per_s=given.prefill_per_s)
    print(f"{'threshold, for more':40}{'mean':>9}{'p50':>9}{'p95':>9}{'wasted':>9}{'reused':>9}")
    if given.grid:
        search(questions, lengths, scheme)
    metrics: dict[str, float] = {}
    for policy in ("same-set", "exact-order", "relaxed"):
        for pause_s in (0.0, PAUSE_S):
            tried = replace(scheme, policy=policy, pause_s=pause_s)
            found = summary(questions, lengths, tried)
            show(f"{policy}, pause {pause_s} s", found)
            label = policy + ("_pause" if pause_s else "")
            metrics |= {f"{name}.{label}": value for name, value in found.items()}
    finish(
        "typing",
        metrics | {"threshold": config.threshold, "threshold_more": config.threshold_more},
        models={"tokenizer": given.tokenizer},
        workload=f"{given.recording.name}, 3 words/s, {given.prefill_per_s:g} tokens/s, simulated",
        n=len(questions),
        out=given.out,
    )


if __name__ == "__main__":
    main()
