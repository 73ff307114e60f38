"""Are edited numbers and dates caught, how often is a true sentence accused, and how fast?

Sentences of passages are claims over their own passage and two others, unchanged and with one
number, date, percentage or unit changed. The time is for short answers against ten passages.

    python benchmarks/bench_evidence.py --passages FILE --questions FILE [--n N] [--out FILE]
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from readahead.evaluation.datasets import read_questions
from readahead.evaluation.edits import edited
from readahead.evaluation.evidence import is_alarm
from readahead.evidence import Checker
from readahead.text import sentences
from readahead.types import Passage
from report import SEED, finish, options

NUM_OTHERS = 2
NUM_PASSAGES = 10
NUM_ANSWERS = 10
NUM_RUNS = 20


def main() -> None:
    """Measure, print a table, and the record as the last line."""
    parser = options(__doc__)
    parser.add_argument("--passages", type=Path, required=True, help="JSON Lines of title, text")
    parser.add_argument("--questions", type=Path, required=True, help="as for eval retrieval")
    parser.add_argument("--n", type=int, default=1000, help="passages to take a sentence from")
    given = parser.parse_args()
    passages = read_passages(given.passages)
    metrics = edits(passages, given.n)
    asked = [(q.text, q.answers[0]) for q in read_questions(given.questions) if q.answers]
    metrics |= {"check_ms": speed(passages, asked)}
    for name, value in metrics.items():
        print(f"{name:<24} {value:.3f}")
    finish(
        "evidence_edits",
        metrics,
        models={},
        workload="one sentence of each passage, over it and two others; ten answers, ten passages",
        n=int(metrics["num_edits"]),
        out=given.out,
    )


def read_passages(path: Path) -> list[Passage]:
    """Return the passages of a file, each a document of its own."""
    records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [
        Passage(str(r["title"]), r["text"], 0, len(r["text"]), heading=(r["title"],))
        for r in records
    ]


def edits(passages: Sequence[Passage], n: int) -> dict[str, float]:
    """Return how many edits are caught, and how many true sentences are accused."""
    generator = random.Random(SEED)
    caught: list[bool] = []
    false: list[bool] = []
    conflicts: list[bool] = []
    kinds: Counter[str] = Counter()
    for passage in generator.sample(passages, min(n, len(passages))):
        checker = Checker([*generator.sample(passages, NUM_OTHERS), passage])
        spans = sentences(passage.text)
        for start, end in generator.sample(spans, len(spans)):
            edit = edited(passage.text[start:end], generator)
            if edit is not None:
                found = checker.check(edit.text)
                caught.append(is_alarm(found))
                conflicts.append(found.verdict == "contradicted")
                false.append(is_alarm(checker.check(passage.text[start:end])))
                kinds[edit.kind] += 1
                break
    total = max(1, len(caught))
    return {
        "edits_caught": sum(caught) / total,
        "edits_contradicted": sum(conflicts) / total,
        "false_alarms": sum(false) / total,
        "num_edits": float(len(caught)),
        **{f"num_{kind}": float(count) for kind, count in sorted(kinds.items())},
    }


def speed(passages: Sequence[Passage], asked: Sequence[tuple[str, str]]) -> float:
    """Return the median processor time of checking ten answers against ten passages, in ms."""
    generator = random.Random(SEED)
    times = []
    for _ in range(NUM_RUNS):
        shown = generator.sample(passages, NUM_PASSAGES)
        answers = generator.sample(asked, min(NUM_ANSWERS, len(asked)))
        begun = time.process_time()
        checker = Checker(shown)
        for question, answer in answers:
            checker.check(answer, question=question)
        times.append(1e3 * (time.process_time() - begun))
    return median(times)


if __name__ == "__main__":
    main()
