"""What every benchmark ends with: one JSON object as the last line, with versions and workload."""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

SCHEMA = 1
SEED = 0
PACKAGES = (
    "readahead",
    "torch",
    "transformers",
    "sentence-transformers",
    "apsw",
    "faiss-cpu",
    "numpy",
)


def options(description: str) -> argparse.ArgumentParser:
    """Return a parser with the option that all benchmarks share."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--out", type=Path, help="also write the JSON line to this file")
    return parser


def finish(
    benchmark: str,
    metrics: Mapping[str, float],
    *,
    models: Mapping[str, str],
    workload: str,
    n: int,
    out: Path | None,
    device: str = "cpu",
    dtype: str = "float32",
    seed: int = SEED,
) -> None:
    """Print the record of a run as one line, and write it to ``out``."""
    record = {
        "benchmark": benchmark,
        "schema": SCHEMA,
        "versions": {"python": platform.python_version()} | {p: version(p) for p in PACKAGES},
        "device": device,
        "dtype": dtype,
        "models": models,
        "seed": seed,
        "workload": workload,
        "n": n,
        "metrics": metrics,
    }
    line = json.dumps(record)
    if out:
        out.write_text(line + "\n", encoding="utf-8")
    print(line)


def timed(action: Callable[[], object]) -> float:
    """Return the seconds that ``action`` takes."""
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun
