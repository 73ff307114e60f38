"""Write the figures of ``benchmarks/results/rapid*.json`` into ``docs/tokens.md``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from figures import renew

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "tokens.md"
RESULTS = ROOT / "benchmarks" / "results"
FILES = ("rapid", "rapid-sampled", "rapid-long", "rapid-8k", "rapid-self", "lookup")
WAYS = {
    "lookup": "`lookup`",
    "rag": "`rag`",
    "hybrid": "`hybrid`",
    "hf_lookup": "transformers' lookup",
    "hf_assisted": "transformers' assistant",
}
KINDS = {"": "grounded", "free.": "free"}


def table() -> str:
    """Return how many times as fast as plainly each way decodes, run by run."""
    heads = ["run", "answers", *WAYS.values(), "outside the models"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    notes = []
    for name in FILES:
        record = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        lines += rows(name, record["metrics"])
        models = record["models"]
        notes.append(
            f"- `{name}`: {models['target']} in {record['dtype']}"
            + (f", drafter {models['drafter']}" if "drafter" in models else "")
            + f"; {record['workload']}; {record['n']} prompts, {record['device']}."
        )
    return "\n".join([*lines, "", *notes]) + "\n"


def rows(name: str, metrics: Mapping[str, Any]) -> list[str]:
    """Return the rows of a run: of all its prompts, or of each length of context."""
    lengths = sorted({int(key.rpartition("@")[2]) for key in metrics if "@" in key})
    ends = [(f" at {length}", f"@{length}") for length in lengths] or [("", "")]
    return [row(f"`{name}`{told}", kind, metrics, end) for told, end in ends for kind in KINDS]


def row(told: str, kind: str, metrics: Mapping[str, Any], end: str) -> str:
    """Return one row."""
    found = [metrics.get(f"decode_speedup.{kind}{way}{end}") for way in WAYS]
    outside = [metrics.get(f"outside_models_share.{kind}{way}") for way in WAYS]
    share = max(value for value in outside if value is not None)
    cells = ["" if value is None else f"{value:.2f}" for value in found]
    return f"| {told} | {KINDS[kind]} | " + " | ".join(cells) + f" | {share:.1%} |"


def main() -> None:
    """Rewrite the page, or with ``--check`` fail if that would change it."""
    renew(PAGE, table(), "scripts/make_rapid_docs.py", mark="rapid")


if __name__ == "__main__":
    main()
