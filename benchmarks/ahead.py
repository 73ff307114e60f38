"""What the two benchmarks of reading ahead share: one turn's figures, and what they come to."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from readahead.config import Config, load_config
from readahead.types import Answer
from report import options

TARGET = "smollm2-135m"
NUM_ANSWER_TOKENS = 64


@dataclass(frozen=True)
class Turn:
    """One question, asked plainly and typed ahead."""

    plain: Answer
    ahead: Answer
    trace: Mapping[str, Any]  # of the one that was typed ahead
    is_identical: bool

    @property
    def counters(self) -> Mapping[str, int]:
        """Return what was counted while it was typed and answered."""
        counters: Mapping[str, int] = self.trace["counters"]
        return counters

    @property
    def num_guessed(self) -> int:
        """Return how many passages the last guess had read."""
        return len(self.trace["attributes"]["prefetch"]["guessed"] or ())

    @property
    def is_kept(self) -> bool:
        """Return whether the guess was of use: the passage that it begins with is shown first."""
        return bool(self.trace["attributes"]["prefetch"]["num_kept_passages"])


def ahead_options(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that both benchmarks share."""
    parser = options(description)
    parser.add_argument("--questions", type=Path, help="JSON Lines")
    parser.add_argument("--passages", type=Path, help="JSON Lines: id, title, text")
    parser.add_argument("--target", default=TARGET, help=f"what answers; default {TARGET}")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, …")
    parser.add_argument("--dtype", default="float32", help="float32 is the exact mode")
    parser.add_argument("--policy", default="same-set", help="same-set, exact-order or relaxed")
    parser.add_argument("--kb", type=Path, help="keep the knowledge base here, and use it again")
    parser.add_argument("--words-per-s", type=float, default=3.0, help="how fast one types")
    parser.add_argument("--pause", type=float, default=0.35, metavar="S", help="before Enter")
    parser.add_argument("--suggestions", type=int, default=0, help="made up between turns")
    parser.add_argument("--no-decode-ahead", action="store_true", help="decode nothing ahead")
    return parser


def settings(given: argparse.Namespace, kb: Path) -> Config:
    """Return the settings that the options come to."""
    return load_config(
        {
            "kb": given.kb or kb,
            "models.target": given.target,
            "models.device": given.device,
            "models.dtype": given.dtype,
            "prefetch.policy": given.policy,
            "prefetch.num_suggestions": given.suggestions,
            "prefetch.decode_ahead_tokens": 0 if given.no_decode_ahead else None,
            "generation.max_new_tokens": NUM_ANSWER_TOKENS,
            "traces.keep": 10_000,
        }
    )


def figures(turns: Sequence[Turn]) -> dict[str, float]:
    """Return the metrics; a ratio is that of typed ahead to plain, over the same questions."""
    ttft_plain = np.array([turn.plain.timing.ttft_s for turn in turns])
    ttft_ahead = np.array([turn.ahead.timing.ttft_s for turn in turns])
    guessed = [turn for turn in turns if turn.num_guessed]
    computed_plain = sum(turn.plain.usage.computed_tokens for turn in turns)
    computed = sum(turn.ahead.usage.computed_tokens for turn in turns)
    before = sum(turn.counters.get("computed_ahead_tokens", 0) for turn in turns)
    wasted = sum(turn.counters.get("wasted_tokens", 0) for turn in turns)
    return {
        "ttft_ratio_mean": float(ttft_ahead.mean() / ttft_plain.mean()),
        "ttft_ratio_p50": float(np.median(ttft_ahead) / np.median(ttft_plain)),
        "ttft_ratio_p95": float(np.quantile(ttft_ahead, 0.95) / np.quantile(ttft_plain, 0.95)),
        "ttft_s_plain": float(np.median(ttft_plain)),
        "ttft_s_ahead": float(np.median(ttft_ahead)),
        "total_ratio_mean": fmean(turn.ahead.timing.e2e_s for turn in turns)
        / fmean(turn.plain.timing.e2e_s for turn in turns),
        "total_ratio_bound": _bound(turns),
        "identical_share": fmean(turn.is_identical for turn in turns),
        "guessed_share": len(guessed) / len(turns),
        "kept_share": fmean(turn.is_kept for turn in guessed) if guessed else 0.0,
        "retrievals_per_turn": fmean(turn.ahead.usage.retrievals for turn in turns),
        "retrievals_ahead_per_turn": fmean(
            turn.counters.get("retrievals_ahead", 0) for turn in turns
        ),
        "computed_ratio": computed / computed_plain,
        "computed_after_submit_ratio": (computed - before) / computed_plain,
        "wasted_ratio": wasted / sum(turn.plain.usage.prompt_tokens for turn in turns),
        "wasted_tokens_per_turn": wasted / len(turns),
    }


def _bound(turns: Sequence[Turn]) -> float:
    """Return what the total would be if the first token took no time at all."""
    total_s = sum(turn.plain.timing.e2e_s for turn in turns)
    return 1 - sum(turn.plain.timing.ttft_s for turn in turns) / total_s


def show(metrics: Mapping[str, float]) -> None:
    """Print the metrics as a table."""
    for name, value in metrics.items():
        print(f"{name:<28} {value:8.3f}")


def tell(question: str, turn: Turn) -> None:
    """Print one line on a turn."""
    wasted = turn.counters.get("wasted_tokens", 0)
    print(
        f"{turn.plain.timing.ttft_s:6.2f} s {turn.ahead.timing.ttft_s:6.2f} s  "
        f"wasted {wasted:4d}  {'kept' if turn.is_kept else '    '}  {question}",
        flush=True,
    )
