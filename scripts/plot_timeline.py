"""Draw docs/timeline.svg: one question typed ahead, from the first stroke to the last token.

    python scripts/plot_timeline.py --kb DIR [--target MODEL] [--question TEXT] [--out FILE]

The knowledge base must hold passages; the question is typed in real time. Without ``--question``
it is asked of the sample documents.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from readahead.config import load_config
from readahead.engine import Engine
from readahead.evaluation.typing import PAUSE_S, strokes, type_out
from readahead.session import Session
from readahead.types import Answer

ROOT = Path(__file__).parent.parent
QUESTION = "How many visitors came to the observatory in 2025?"
ROWS = {
    "typed": "#9a9a9a",
    "retrieve": "#e0a030",
    "prefill": "#3a78b5",
    "decode": "#4a9d5b",
}
ROW_OF = {"encode": "retrieve", "search": "retrieve", "prefill": "prefill", "decode": "decode"}


def main() -> None:
    """Type, ask, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kb", type=Path, help="a knowledge base; else the sample documents")
    parser.add_argument("--target", help="what answers")
    parser.add_argument("--question", default=QUESTION)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "timeline.svg")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = load_config(
            {
                "kb": given.kb or folder,
                "models.target": given.target,
                "generation.max_new_tokens": 32,
                "prefetch.num_suggestions": 0,
            }
        )
        with Engine.open(config) as engine:
            if not given.kb:
                engine.knowledge.add([ROOT / "examples" / "documents"])
            engine.load().ask(given.question)
            plain = engine.ask(given.question)
            with Session(engine) as session:
                type_out(given.question, session.type)
                *_, ahead = session.submit(given.question)
            assert isinstance(ahead, Answer)
            trace = engine.knowledge.store.trace(ahead.trace_id)
    draw(trace, plain, ahead, given.question, given.out)


def draw(trace: Mapping[str, Any], plain: Answer, ahead: Answer, question: str, out: Path) -> None:
    """Draw the spans of ``trace`` on one axis whose zero is Enter."""
    asked_s = float(trace["attributes"]["asked_s"])
    typed_s = list(strokes(question))[-1][0]
    plt.rcParams["svg.hashsalt"] = "readahead"
    figure, axes = plt.subplots(figsize=(9, 2.6))
    names = list(ROWS)
    bars: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    bars["typed"].append((-typed_s - PAUSE_S, typed_s))
    for span in trace["spans"]:
        if row := ROW_OF.get(span["name"]):
            bars[row].append((span["start_s"] - asked_s, span["end_s"] - span["start_s"]))
    for index, name in enumerate(names):
        axes.broken_barh(bars[name], (index - 0.35, 0.7), facecolors=ROWS[name])
    axes.axvline(0, color="black", linewidth=1)
    axes.axvline(ahead.timing.ttft_s, color="#4a9d5b", linestyle="--", linewidth=1)
    axes.axvline(plain.timing.ttft_s, color="#b03030", linestyle="--", linewidth=1)
    axes.text(-0.03, -0.45, "Enter", ha="right", va="bottom", fontsize=8)
    axes.set_title(
        f"first token after Enter: {ahead.timing.ttft_s:.2f} s typed ahead (green), "
        f"{plain.timing.ttft_s:.2f} s plainly (red)",
        fontsize=9,
    )
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_ylim(len(names) - 0.4, -0.9)
    axes.set_xlabel(f"seconds from Enter, “{question}”")
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})
    print(out)


if __name__ == "__main__":
    main()
