"""Simulate what reading ahead saves and wastes while questions are typed; runs no model.

From a recording of ``fit_gate.py``, the probabilities of models that were fitted on other folds,
and the plans and orders of ``readahead`` itself. Keys are struck as ``readahead.evaluation`` types.
At each complete word there is a retrieval, and what is planned is read in steps, until the text
changes. All that was read stays in the prefix tree. At Enter the question is retrieved for, and
what is missing is read. Words that settle before they are whole were not recorded, and are left
out.

What a model step costs is told in ``typing_reader.py``. Enter waits for the step that runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from fit_staying import K, examples
from readahead.config import PrefetchConfig
from readahead.evaluation.typing import PAUSE_S, strokes
from readahead.lm.weights import resolve
from readahead.session.line import Typed as Line
from readahead.session.line import settles_after_s
from readahead.speculation.retrieval.order import order_passages
from readahead.speculation.retrieval.plan import plan_passages
from readahead.speculation.retrieval.typed import complete_part, looks_finished
from readahead.types import Hit
from report import finish, options
from typing_fit import out_of_fold
from typing_reader import QUESTION, Outcome, Reader, Scheme, with_config
from typing_runs import Recording, Step, load

MAX_WASTED = 0.7
THRESHOLDS = (0.1, 0.15, 0.2, 0.25, 0.3)
HORIZONS = (150, 450)
STEPS = (64, 96, 128, 160, 192, 256)
SPEEDS = (200.0, 550.0, 2000.0)


@dataclass(frozen=True, slots=True)
class Typed:
    """A question: what is found after each word, and how likely its passages are to be shown.

    Attributes:
        stays: Of each step; empty where nothing is retrieved.
    """

    steps: Sequence[Step]
    stays: Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Moment:
    """The text has changed.

    Attributes:
        num_words: How many are complete.
        is_settled: Whether no key has moved for long enough.
    """

    at_s: float
    num_words: int
    is_settled: bool = False


def moments(question: str, scheme: Scheme) -> tuple[list[Moment], float]:
    """Return when there is something new to guess with, and when the last key is struck."""
    config = scheme.config
    struck = list(strokes(question, scheme.words_per_s))
    last_s = struck[-1][0]
    found = [Moment(0.0, 0)]
    for (at_s, text), (next_s, _) in pairwise([*struck, (last_s + scheme.pause_s, "")]):
        due_s = max(at_s + config.debounce_s, struck[0][0] + config.min_typing_s)
        num_words = len(complete_part(text).split())
        if num_words > found[-1].num_words and due_s < next_s:
            found.append(Moment(due_s, num_words))
        settled_s = at_s + settles_after_s(Line(text, struck[0][0], at_s), config)
        if text == question and settled_s <= next_s:
            found.append(Moment(max(due_s, settled_s), len(text.split()), True))
    return found[1:], last_s


def simulate(typed: Typed, lengths: Mapping[str, int], scheme: Scheme) -> Outcome:
    """Return what reading ahead does to one question."""
    reader = Reader(scheme, lengths)
    changes, last_s = moments(typed.steps[-1].text, scheme)
    enter_s = last_s + scheme.pause_s
    is_found = is_decoding = False
    for now, then in pairwise([*changes, Moment(enter_s, 0)]):
        step, stays = typed.steps[now.num_words - 1], typed.stays[now.num_words - 1]
        if not stays:
            continue
        reader.clock_s = max(reader.clock_s, now.at_s) + scheme.guess_s
        is_found = now.num_words == len(typed.steps)
        if now.is_settled and looks_finished(step.text):
            planned = order_passages(step.hits, K, scheme.config, reader.known)
            reader.go_on([*planned, QUESTION], then.at_s)
            rests_s = max(reader.clock_s, last_s + scheme.config.rest_s)
            is_decoding = rests_s < enter_s
        else:
            planned = plan_passages(step.hits, stays, K, scheme.config, reader.known)
            reader.go_on(planned, then.at_s)
    if is_decoding:
        start_s = max(reader.clock_s, last_s + scheme.config.rest_s)
    else:  # the search runs while the last step ends
        start_s = max(reader.clock_s, enter_s + (0.0 if is_found else scheme.retrieval_s))
    return _outcome(reader, typed.steps[-1].hits, start_s, enter_s)


def _outcome(reader: Reader, final: Sequence[Hit], start_s: float, enter_s: float) -> Outcome:
    """Read what is missing of the final prompt, and compare with reading all after Enter."""
    scheme = reader.scheme
    shown = order_passages(final, K, scheme.config, reader.known)
    num_kept, num_tokens = reader.known([*shown, QUESTION])
    ready_s = start_s + scheme.reading_s(num_tokens + 1 - num_kept)
    best = sum(reader.lengths[hit.passage.id] for hit in final[:K])
    plain = scheme.system_tokens + best + scheme.question_tokens
    return Outcome(
        ttft_s=max(0.0, ready_s - enter_s),
        plain_s=scheme.retrieval_s + scheme.reading_s(plain),
        num_tokens=plain,
        num_kept=num_kept,
        num_wasted=reader.num_read - num_kept,
    )


def typed_questions(recording: Recording) -> list[Typed]:
    """Return the questions with the probabilities of models that were fitted on others."""
    judged = examples(recording)
    probabilities = out_of_fold(judged.data, judged.is_typed)
    stays: list[list[list[float]]] = [[[] for _ in steps] for steps in recording.questions]
    rows = zip(judged.data.questions, judged.steps, probabilities.tolist(), strict=True)
    for number, step, probability in rows:
        stays[number][step].append(probability)
    return [Typed(*pair) for pair in zip(recording.questions, stays, strict=True)]


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
    """Return what reading ahead does to the questions, as ``bench_prefetch.py`` counts it."""
    outcomes = [simulate(typed, lengths, scheme) for typed in questions]
    ahead_s = np.array([outcome.ttft_s for outcome in outcomes])
    plain_s = np.array([outcome.plain_s for outcome in outcomes])
    num_tokens = sum(outcome.num_tokens for outcome in outcomes)
    return {
        "ttft_ratio_mean": float(ahead_s.mean() / plain_s.mean()),
        "ttft_ratio_p50": float(np.median(ahead_s) / np.median(plain_s)),
        "ttft_ratio_p95": float(np.quantile(ahead_s, 0.95) / np.quantile(plain_s, 0.95)),
        "wasted": sum(outcome.num_wasted for outcome in outcomes) / num_tokens,
        "reused": sum(outcome.num_kept for outcome in outcomes) / num_tokens,
    }


def show(name: str, values: Mapping[str, float]) -> None:
    """Print a line of a table."""
    print(f"{name:40}" + "".join(f"{value:9.3f}" for value in values.values()), flush=True)


def search(questions: Sequence[Typed], lengths: Mapping[str, int], scheme: Scheme) -> None:
    """Print what each setting does, then the best that waste little enough."""
    found: list[tuple[float, str]] = []
    for threshold, horizon, step in product(THRESHOLDS, HORIZONS, STEPS):
        changes = {"threshold": threshold, "horizon_tokens": horizon, "step_tokens": step}
        tried = with_config(scheme, **changes)
        plain = summary(questions, lengths, tried)
        paused = summary(questions, lengths, replace(tried, pause_s=PAUSE_S))
        label = f"{threshold:.2f}, {horizon}, {step}"
        show(label, plain)
        show(f"{label}, pause {PAUSE_S} s", paused)
        if max(plain["wasted"], paused["wasted"]) <= MAX_WASTED:
            found.append((plain["ttft_ratio_mean"] + paused["ttft_ratio_mean"], label))
    print(f"best within {MAX_WASTED} wasted: {min(found)[1] if found else 'none'}")


def schemes() -> Iterator[tuple[str, Scheme]]:
    """Yield what is compared: policies at one speed, then speeds under one policy."""
    for policy in ("same-set", "exact-order", "relaxed"):
        yield policy, with_config(Scheme(), policy=policy)
    for speed in SPEEDS:
        slower = Scheme().prefill_per_s / speed  # in all
        yield f"same-set_{speed:g}", Scheme(prefill_per_s=speed, step_s=slower * Scheme().step_s)


def main() -> None:
    """Search the thresholds, then compare policies, pauses and speeds."""
    parser = options(__doc__)
    parser.add_argument("--recording", type=Path, required=True, help="of fit_gate.py")
    parser.add_argument("--tokenizer", default="smollm2-135m", help="whose tokens are counted")
    parser.add_argument("--grid", action="store_true", help="search the thresholds first")
    given = parser.parse_args()
    recording = load(given.recording)
    questions, lengths = typed_questions(recording), passage_lengths(recording, given.tokenizer)
    print(
        f"{'threshold, horizon, step':40}{'mean':>9}{'p50':>9}{'p95':>9}{'wasted':>9}{'reused':>9}"
    )
    if given.grid:
        search(questions, lengths, Scheme())
    metrics: dict[str, float] = {}
    for name, scheme in schemes():
        for suffix, pause_s in (("", 0.0), ("_pause", PAUSE_S)):
            found = summary(questions, lengths, replace(scheme, pause_s=pause_s))
            show(f"{name}, pause {pause_s} s", found)
            metrics |= {f"{metric}.{name}{suffix}": value for metric, value in found.items()}
    config, scheme = PrefetchConfig(), Scheme()
    finish(
        "typing",
        metrics | {"threshold": config.threshold, "horizon_tokens": config.horizon_tokens},
        models={"tokenizer": given.tokenizer},
        workload=f"{given.recording.name}, {scheme.words_per_s:g} words/s, simulated with "
        f"{scheme.prefill_per_s:g} tokens/s and {scheme.step_s:g} s a step",
        n=len(questions),
        out=given.out,
    )


if __name__ == "__main__":
    main()
