"""Measure how right, how fast and how often wrong answers chosen among drafts are.

The claims, on questions whose documents contradict each other: ``fast`` takes at most 0.49 of the
time of plain RAG with the same verifier at no more than 2 points fewer clean answers and at most
0.7 of its wrong ones; ``accurate`` gives at least 5 points more clean answers, more strict ones and
at most 0.6 of the wrong ones in at most 1.5 of the time.

Each question is answered by every system in turns, in one process, over the same passages. Replies
go to ``--rows``, and drafts for ``--ablations`` to ``--recorded``; what is there is not done again,
so a run can be stopped and taken up.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from ablations import Recorded, compare, record
from readahead.config import Config, load_config
from readahead.evaluation.contest import DRAFTER_ALONE, PLAIN, Contest
from readahead.evaluation.drafts import DraftsReport, Row, evaluate_drafts, report
from readahead.evaluation.ramdocs import Case, find_passages, read_cases
from readahead.knowledge import KnowledgeBase, load_embedder
from readahead.logistic import Logistic
from report import SEED, finish, options

DRAFTER, TARGET = "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"
MAX_PLAIN_TOKENS = 64
NUM_RETRIEVED = 6
_Kept = TypeVar("_Kept", Row, Recorded)


def main() -> None:
    """Ask every system every question, and compare."""
    given = parse()
    config = settings(given)
    cases = chosen(given, config)
    contest = Contest.load(config)
    systems = [*given.presets.split(","), PLAIN, DRAFTER_ALONE]
    rows = kept(given.rows, cases, Row.from_json)
    left = [case for case in cases if case.question not in {row.case.question for row in rows}]
    if left:
        rows += evaluate_drafts(
            left, contest, systems, on_row=lambda row: keep(row, given.rows)
        ).rows
    found = report(rows)
    show(found)
    metrics = found.metrics()
    if given.ablations:
        metrics |= compare(recordings(cases, contest, given), contest, models(given.models))
    finish(
        "drafts",
        metrics,
        models={"drafter": given.drafter, "target": given.target},
        workload=workload(given),
        n=len(rows),
        out=given.out,
        device=given.device,
        dtype=given.dtype,
        seed=given.seed,
    )


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = options(__doc__)
    parser.add_argument("--questions", type=Path, required=True, help="JSON Lines, as in RAMDocs")
    parser.add_argument("--passages", type=Path, help="JSON Lines, where questions bring none")
    parser.add_argument("--kb", type=Path, help="a knowledge base of the passages, to save time")
    parser.add_argument("--drafter", default=DRAFTER)
    parser.add_argument("--target", default=TARGET)
    parser.add_argument("--device", default="cpu", help="auto, cpu, cuda, …")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--n", type=int, default=60)
    parser.add_argument("--fitted", type=Path, help="recorded for fitting: left out here")
    parser.add_argument("--seed", type=int, default=SEED, help="shuffles the questions")
    parser.add_argument("--presets", default="fast,accurate")
    parser.add_argument("--ablations", action="store_true", help="tell what each part adds")
    parser.add_argument("--models", type=Path, help="fitted for the ablations: JSON, by name")
    parser.add_argument("--rows", type=Path, help="a file for the replies, to go on later")
    parser.add_argument("--recorded", type=Path, help="a file for the drafts, to go on later")
    return parser.parse_args()


def settings(given: argparse.Namespace) -> Config:
    """Return the settings that the options come to."""
    return load_config(
        {
            "kb": given.kb,
            "models.target": given.target,
            "models.drafter": given.drafter,
            "models.device": given.device,
            "models.dtype": given.dtype,
            "drafts.num_passages": NUM_RETRIEVED,
            "generation.max_new_tokens": MAX_PLAIN_TOKENS,
        }
    )


def chosen(given: argparse.Namespace, config: Config) -> list[Case]:
    """Return the first n questions after shuffling, with their passages."""
    cases = read_cases(given.questions)
    if given.fitted:
        lines = given.fitted.read_text(encoding="utf-8").split("\n")
        seen = {json.loads(line)["question"] for line in lines if line}
        cases = [case for case in cases if case.question not in seen]
    random.Random(given.seed).shuffle(cases)
    if given.kb and given.passages:
        with KnowledgeBase.open(config) as knowledge:
            knowledge.add([given.passages])
    return find_passages(cases[: given.n], config, None if given.kb else given.passages)


def kept(
    file: Path | None,
    cases: Sequence[Case],
    read: Callable[[Case, Mapping[str, Any]], _Kept],
) -> list[_Kept]:
    """Return what a file has of the questions, nothing if there is no such file."""
    if file is None or not file.exists():
        return []
    lines = file.read_text(encoding="utf-8").split("\n")
    records = {record["question"]: record for record in map(json.loads, filter(None, lines))}
    return [read(case, records[case.question]) for case in cases if case.question in records]


def keep(what: Row | Recorded, file: Path | None) -> None:
    """Append a question to a file."""
    print(f"  {what.case.question}", flush=True)
    if file is not None:
        with file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(what.to_json(), ensure_ascii=False) + "\n")


def recordings(
    cases: Sequence[Case], contest: Contest, given: argparse.Namespace
) -> list[Recorded]:
    """Return the drafts of all questions; those that are not recorded yet are written."""
    recorded = kept(given.recorded, cases, Recorded.from_json)
    done = {one.case.question for one in recorded}
    embedder = load_embedder(contest.config.models)
    for case in cases:
        if case.hits and case.question not in done:
            recorded.append(record(case, contest, embedder))
            keep(recorded[-1], given.recorded)
    return recorded


def models(file: Path | None) -> dict[str, Logistic]:
    """Return the models of a file, by name."""
    if file is None:
        return {}
    records = json.loads(file.read_text(encoding="utf-8"))
    return {name: Logistic.from_json(record) for name, record in records.items()}


def workload(given: argparse.Namespace) -> str:
    """Return what was asked, over what."""
    over = f"top {NUM_RETRIEVED} of {given.passages.name}" if given.passages else "its documents"
    questions = given.questions.name
    if given.fitted:
        questions += " without those that were fitted on"
    return f"{questions}, each over {over}, plain answers of {MAX_PLAIN_TOKENS} tokens"


def show(found: DraftsReport) -> None:
    """Print one line for each system, and the ratios of time."""
    columns = [name for figures in found.systems.values() for name in asdict(figures)]
    columns = list(dict.fromkeys(columns))
    print(f"\n{'':<16}", *(f"{column:>14}" for column in columns))
    for system, figures in found.systems.items():
        print(f"{system:<16}", *(f"{value:>14.3f}" for value in asdict(figures).values()))
    for preset, ratio in found.time_ratio.items():
        print(
            f"{preset} takes {ratio:.2f} of the time of plain, {found.cpu_ratio[preset]:.2f} of "
            "its processor time"
        )


if __name__ == "__main__":
    main()
