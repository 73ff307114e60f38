"""Draw every signal over the tokens of one recorded answer, as a small SVG.

Reads what ``record_answers.py`` recorded.

    python scripts/plot_signals.py FOLDER [--target NAME] [--question TEXT] [--present] [--out FILE]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from fit_sufficiency import layer_of
from record_answers import Answered, read_answers

OUT = Path(__file__).parents[1] / "docs" / "signals.svg"
OURS = {
    "entropy": "entropy (nats)",
    "top_probability": "top probability",
    "entropy_slope": "slope of entropy",
    "attention_entropy": "attention entropy",
    "value_sparsity": "Hoyer sparsity",
    "key_change": "key change",
}
THEIRS = {
    "source_key_entropy": ("source: key entropy", 1.2),
    "source_head_ratio": ("source: L1/L2", 0.85),
    "source_key_shift": ("source: key shift", 0.05),
}


def main() -> None:
    """Draw the answer that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="qwen2.5-coder-0.5b")
    parser.add_argument("--question", help="the first recorded one by default")
    parser.add_argument("--present", action="store_true", help="with the right passage shown")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    answers = [a for a in read_answers(given.folder, given.target) if a.present == given.present]
    draw(next(a for a in answers if given.question in (None, a.question)), given.out)


def draw(answered: Answered, out: Path) -> None:
    """Write the figure."""
    # Text stays text: the file is small, and the same for the same numbers.
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "readahead", "font.size": 8}
    num_tokens = len([piece for piece in answered.pieces if piece])
    figure, axes = plt.subplots(len(OURS) + len(THEIRS), sharex=True, figsize=(8, 9))
    tokens = answered.tokens[layer_of(answered)][:num_tokens]
    for axis, (name, label) in zip(axes, OURS.items(), strict=False):
        _line(axis, [getattr(token, name) for token in tokens], label, "tab:blue")
    for axis, (name, (label, threshold)) in zip(axes[len(OURS) :], THEIRS.items(), strict=True):
        _line(axis, list(answered.source[name][:num_tokens]), label, "tab:gray")
        axis.axhline(threshold, color="tab:red", linewidth=0.8, linestyle="--")
    shown = "with" if answered.present else "without"
    axes[0].set_title(f"“{answered.question}”, {shown} its passage", fontsize=9)
    pieces = [piece.strip() or "␣" for piece in answered.pieces[:num_tokens]]
    axes[-1].set_xticks(range(num_tokens), pieces, rotation=60, ha="right")
    figure.align_ylabels()
    figure.tight_layout(h_pad=0.3)
    figure.savefig(out, metadata={"Date": None})
    plt.close(figure)


def _line(axis: Axes, values: list[float], label: str, color: str) -> None:
    axis.plot(values, color=color, marker="o", markersize=2.5, linewidth=1)
    axis.set_ylabel(label, rotation=0, ha="right", va="center")
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(y=0.2)


if __name__ == "__main__":
    main()
