"""Write the figures of ``benchmarks/results/drafts*.json`` into ``docs/answers.md``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from figures import renew

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "answers.md"
RESULT = ROOT / "benchmarks" / "results" / "drafts.json"
ABLATIONS = ROOT / "benchmarks" / "results" / "drafts-ablations.json"
SYSTEMS = {
    "plain": "plain RAG by the target over all passages",
    "drafter_alone": "plain RAG by the drafter over all passages",
    "fast": "drafts, `fast`",
    "accurate": "drafts, `accurate`",
    "best_of_drafts": "the best of the drafts of `accurate`, by an oracle",
}
COLUMNS = ("clean", "strict", "names_wrong", "abstained", "seconds_mean", "seconds_p95")
VARIANTS = {
    "fast.single.m10": "`fast`: single passages, up to 10 drafts",
    "fast.single.m5": "5 drafts",
    "fast.single.m3": "3 drafts",
    "fast.single.m1": "1 draft",
    "fast.perspectives.m5": "`perspectives`, two passages each, 5 drafts",
    "fast.random.m5": "`random`, two passages each, 5 drafts",
    "accurate.single.m10": "`accurate`: single passages, up to 10 drafts",
    "accurate.single.m5": "5 drafts",
    "accurate.single.m3": "3 drafts",
    "accurate.single.m1": "1 draft",
    "without_consistency": "without ρ_SC",
    "without_support": "without ρ_SR",
    "without_evidence": "without evidence",
}
VARIANT_COLUMNS = ("clean", "strict", "names_wrong", "perplexity", "draft_s")


def table() -> str:
    """Return what was measured, and how."""
    record = json.loads(RESULT.read_text(encoding="utf-8"))
    metrics, models = record["metrics"], record["models"]
    return "\n".join(
        [
            f"`benchmarks/bench_drafts.py`: {record['n']} questions, {record['workload']}. "
            f"{models['drafter']} drafts, {models['target']} is the target, {record['dtype']}, "
            f"{record['device']}. *Clean*: at least one right answer and no wrong one; *strict*: "
            "every right answer and no wrong one.",
            "",
            *rows("system", SYSTEMS, COLUMNS, metrics),
            "",
            *times(metrics),
            "",
            *parts(json.loads(ABLATIONS.read_text(encoding="utf-8"))),
        ]
    )


def times(metrics: Mapping[str, float]) -> list[str]:
    """Return what the presets take of the time of plain RAG."""
    presets = [name for name in ("fast", "accurate") if f"time_ratio.{name}" in metrics]
    ratios = [f"`{name}` {metrics[f'time_ratio.{name}']:.2f}" for name in presets]
    return [f"Of the time of plain RAG by the target: {', '.join(ratios)}."]


def parts(record: Mapping[str, Any]) -> list[str]:
    """Return what each part adds, where that was measured."""
    metrics: Mapping[str, float] = record["metrics"]
    known = {name: said for name, said in VARIANTS.items() if f"clean.{name}" in metrics}
    if not known:
        return []
    said = (
        f"What each part adds, on {record['n']} of these questions, so that a difference of one is "
        f"{1 / record['n']:.2f}; chosen anew from drafts that were recorded once, on one core; "
        "*perplexity* is "
        "over how many answers the probability spreads, *draft_s* the seconds that drafting took:"
    )
    return [said, "", *rows("variant", known, VARIANT_COLUMNS, metrics), ""]


def rows(
    title: str, named: Mapping[str, str], columns: tuple[str, ...], metrics: Mapping[str, float]
) -> list[str]:
    """Return a table with a line for each name, as far as it was measured."""
    lines = [f"| {title} | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, said in named.items():
        figures = [metrics.get(f"{column}.{name}") for column in columns]
        if any(figure is not None for figure in figures):
            cells = ["" if figure is None else f"{figure:.2f}" for figure in figures]
            lines.append(f"| {said} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Rewrite the page, or with ``--check`` fail if that would change it."""
    renew(PAGE, table(), "scripts/make_answers_docs.py")


if __name__ == "__main__":
    main()
