"""Write the figures of ``benchmarks/results/transfer.json`` into ``docs/tokens.md``."""

from __future__ import annotations

import json
from pathlib import Path

from figures import renew

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "tokens.md"
RESULT = ROOT / "benchmarks" / "results" / "transfer.json"
PASSAGES = ("right", "unrelated")
COLUMNS = {"acceptance_rate": "accepted", "score": "right answers", "mean_gap": "TV to p"}


def table() -> str:
    """Return what was measured, and how."""
    record = json.loads(RESULT.read_text(encoding="utf-8"))
    metrics, models = record["metrics"], record["models"]
    heads = [f"{title}, {passages}" for passages in PASSAGES for title in COLUMNS.values()]
    lines = [
        f"`benchmarks/bench_transfer.py`: {record['n']} documents, {record['workload']}; target "
        f"{models['target']}, drafter {models['drafter']}, {record['dtype']}, {record['device']}. "
        f"The standard error of the share of right answers is {stderr(metrics):.2f} at most.",
        "",
        "| setting | " + " | ".join(heads) + " |",
        "|---" * (len(heads) + 1) + "|",
    ]
    for name in ways(metrics):
        figures = [metrics.get(f"{column}.{p}.{name}") for p in PASSAGES for column in COLUMNS]
        cells = ["" if figure is None else f"{figure:.2f}" for figure in figures]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def ways(metrics: dict[str, float]) -> list[str]:
    """Return the settings that were measured, in order."""
    prefix = f"score.{PASSAGES[0]}."
    return [key.removeprefix(prefix) for key in metrics if key.startswith(prefix)]


def stderr(metrics: dict[str, float]) -> float:
    """Return the largest standard error of a score."""
    return max(value for key, value in metrics.items() if key.startswith("score_stderr."))


def main() -> None:
    """Rewrite the page, or with ``--check`` fail if that would change it."""
    renew(PAGE, table(), "scripts/make_transfer_docs.py", mark="transfer")


if __name__ == "__main__":
    main()
