"""Show a risk–coverage curve: a few rows of it, or a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from readahead.errors import missing_extra
from readahead.speculation.answers.risk import Point

NUM_ROWS = 10


def rows(curve: Sequence[Point]) -> list[Point]:
    """Return the points of a curve nearest above each tenth of coverage, each once."""
    wanted = [(row + 1) / NUM_ROWS for row in range(NUM_ROWS)]
    found = [next(p for p in curve if p.coverage >= least - 1e-9) for least in wanted]
    return list(dict.fromkeys(found))


def check_plotting() -> None:
    """Raise ConfigError if nothing can be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise missing_extra("matplotlib", "dev") from None


def plot(curve: Sequence[Point], path: Path) -> None:
    """Draw accuracy over coverage, as an SVG.

    Raises:
        ConfigError: The package ``matplotlib`` is not installed.
    """
    check_plotting()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(
        [point.coverage for point in curve], [point.accuracy for point in curve], marker=".", lw=1
    )
    axes.set(xlabel="coverage", ylabel="accuracy of what is answered", xlim=(0, 1), ylim=(0, 1.03))
    axes.grid(alpha=0.3)
    figure.savefig(path, format="svg")
