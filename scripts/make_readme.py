"""Write the figures of ``benchmarks/results`` into the README, between its two markers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- figures: begin -->\n", "<!-- figures: end -->"


def results() -> dict[str, dict[str, float]]:
    """Return the metrics of each file of results, by its name."""
    files = RESULTS.glob("*.json")
    return {file.stem: json.loads(file.read_text(encoding="utf-8"))["metrics"] for file in files}


def table() -> str:
    """Return the table of figures."""
    found = results()
    search, add = found["search"], found["add"]
    retrieval, generate = found["retrieval"], found["generate"]
    rows = [
        (
            "the right passage is among the first three (Natural Questions)",
            f"{retrieval['recall@3.hybrid']:.3f}",
            f"words alone {retrieval['recall@3.lexical']:.3f}, "
            f"meaning alone {retrieval['recall@3.dense']:.3f}",
            "retrieval",
        ),
        (
            f"search over {search['num_passages']:,} passages, p50",
            f"{search['p50_s'] * 1e3:.0f} ms",
            f"encoding the query alone {search['encode_p50_s'] * 1e3:.0f} ms",
            "search",
        ),
        (
            f"reading, cutting and storing, as a share of `add` ({add['num_files']} HTML pages)",
            f"{add['other_share']:.1%}",
            f"{add['seconds'] - add['encode_s']:.0f} s for {add['num_passages']:,} passages; "
            "the rest is the embedding model",
            "add",
        ),
        (
            "answers equal to `transformers.generate`, token for token",
            f"{generate['identical_share']:.0%}",
            f"in {generate['e2e_ratio']:.2f} of its time",
            "generate",
        ),
    ]
    lines = ["| what | measured | beside it | benchmark |", "|---|---|---|---|"]
    lines += [f"| {a} | **{b}** | {c} | `bench_{d}.py` |" for a, b, c, d in rows]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Rewrite the README, or with ``--check`` fail if that would change it."""
    text = README.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    fresh = head + BEGIN + table() + END + tail
    if "--check" in sys.argv:
        sys.exit("README.md is stale: run scripts/make_readme.py" if fresh != text else 0)
    README.write_text(fresh, encoding="utf-8")


if __name__ == "__main__":
    main()
