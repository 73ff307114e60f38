"""Write the figures of ``benchmarks/results/blend.json`` into ``docs/blend.md``."""

from __future__ import annotations

import json
from pathlib import Path

from figures import renew

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "blend.md"
RESULT = ROOT / "benchmarks" / "results" / "blend.json"
WAYS = {
    "plain": "everything read",
    "exact": "what stands in its place reused (the default)",
    "blend_0": "passages moved, none of their tokens computed anew",
    "blend_0.15": "moved, 0.15 anew",
    "blend_0.2": "moved, 0.2 anew",
    "blend_0.3": "moved, 0.3 anew",
    "blend_1": "moved, all anew",
    "no_passages": "no passages at all",
}
COLUMNS = {
    "computed_share": ("tokens computed", 2),
    "time_ratio": ("time", 2),
    "kl_mean": ("KL", 3),
    "top1_share": ("first token the same", 2),
    "greedy12_share": ("of 12 tokens the same", 2),
}


def table() -> str:
    """Return what was measured, and how."""
    record = json.loads(RESULT.read_text(encoding="utf-8"))
    metrics = record["metrics"]
    lines = [
        f"{record['models']['target']}, {record['dtype']}, {record['device']}; {record['n']} "
        f"questions, {metrics['num_tokens']:.0f} tokens a prompt; {record['workload']}. Everything "
        f"read takes {metrics['seconds.plain']:.2f} s.",
        "",
        "| way | " + " | ".join(title for title, _ in COLUMNS.values()) + " |",
        "|---" * (len(COLUMNS) + 1) + "|",
    ]
    for way, said in WAYS.items():
        figures = [f"{metrics[f'{name}.{way}']:.{n}f}" for name, (_, n) in COLUMNS.items()]
        lines.append(f"| {said} | " + " | ".join(figures) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Rewrite the page, or with ``--check`` fail if that would change it."""
    renew(PAGE, table(), "scripts/make_blend_docs.py")


if __name__ == "__main__":
    main()
