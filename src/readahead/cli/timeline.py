"""Draws a trace as text: its spans as bars on one time axis; knows not where it was kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from readahead.cli.explain import tables
from readahead.cli.output import COLUMNS, one_line, wrapped
from readahead.cli.speculated import drawn, table

MIN_NAME, MAX_NAME = 8, 24
# From seldom busy to always: an aggregated span covers the pauses between its steps, too.
SHADES = "░▒▓█"
_TOLD_ELSEWHERE = frozenset(
    "question answer asked_s e2e_s passages citations drafts inject speculation".split()
)
# What happened long before the question was asked is listed, but not drawn.
MAX_TYPING_S = 15.0
MIN_WAIT_S = 0.005  # below, nobody waited
BEFORE = "before"


def num_seconds(trace: Mapping[str, Any]) -> float:
    """Return how long the answer took, or as far as it is known."""
    ends = [span["end_s"] or span["start_s"] for span in trace["spans"]]
    asked_s = trace["attributes"].get("asked_s", 0.0)
    return float(trace["attributes"].get("e2e_s") or max(ends, default=0.0) - asked_s)


def _window(trace: Mapping[str, Any]) -> tuple[float, float]:
    """Return from when to when the bars are drawn, on the clock of the trace."""
    asked_s = float(trace["attributes"].get("asked_s", 0.0))
    return max(0.0, asked_s - MAX_TYPING_S), asked_s + num_seconds(trace)


def timeline(trace: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a trace: what was asked, the bars, the figures, the answer.

    No line takes more than ``COLUMNS`` columns of the terminal.
    """
    when, attributes = datetime.fromtimestamp(trace["started_at"]), trace["attributes"]
    total_s, window = num_seconds(trace), _window(trace)
    yield one_line(f"{trace['kind']} {trace['id']} · {when:%Y-%m-%d %H:%M:%S} · {total_s:.2f} s")
    if question := attributes.get("question"):
        yield from wrapped(str(question), "  ")
    yield ""
    shown = [span for span in trace["spans"] if span["name"] != "wait" or _has_waited(span)]
    yield from _bars(shown, window, attributes.get("asked_s"))
    yield ""
    yield from _figures(trace)
    if passages := attributes.get("passages"):
        listed = " · ".join(f"{passage['id']} ({passage['score']:.3g})" for passage in passages)
        yield from wrapped(f"passages: {listed}", "  ")
    for record in attributes.get("inject", ()):
        yield from wrapped(_considered(record), "  ")
    if drafts := attributes.get("drafts"):
        yield ""
        yield from tables(drafts)
    if speculation := attributes.get("speculation"):
        yield ""
        yield from table(speculation)
        yield from drawn(speculation["rounds"])
    if answer := attributes.get("answer"):
        yield ""
        yield from wrapped(str(answer), "  ")
    for citation in attributes.get("citations", ()):
        place = f"{citation['passage_id']} [{citation['start']}:{citation['end']}]"
        yield f"  [{citation['marker']}] {one_line(place)}"


def _has_waited(span: Mapping[str, Any]) -> bool:
    return bool(span["busy_s"] >= MIN_WAIT_S)


def _bars(
    spans: Sequence[Mapping[str, Any]], window: tuple[float, float], asked_s: float | None
) -> Iterator[str]:
    longest = max((len(span["name"]) for span in spans), default=0)
    name_width = min(max(longest, MIN_NAME), MAX_NAME)
    head = f"  {'span':<{name_width}} {'start':>10} {'busy':>10} {'steps':>6}  "
    width = COLUMNS - len(head) - 1
    first, last = f"{window[0]:.0f} s", f"{window[1]:.2f} s"
    yield f"{head}{first}{last:>{width - len(first)}}"
    if asked_s is not None:
        column = min(round(_share(asked_s, window) * width), width - 1)
        note = "asked ▾" if column >= len("asked ▾") - 1 else "▾ asked"
        at = column - len(note) + 1 if note.endswith("▾") else column
        yield " " * (len(head) + at) + note
    for span in spans:
        name = one_line(span["name"], name_width)
        yield (
            f"  {name:<{name_width}} {span['start_s']:8.3f} s {span['busy_s']:8.3f} s "
            f"{span['count']:>6} │{_bar(span, window, width)}│"
        )


def _bar(span: Mapping[str, Any], window: tuple[float, float], width: int) -> str:
    """Return the bar of a span, at least one column long; the lighter, the less busy."""
    start_s: float = span["start_s"]
    end_s: float = window[1] if span["end_s"] is None else span["end_s"]
    if end_s < window[0]:
        return BEFORE.ljust(width)
    first = min(round(_share(start_s, window) * width), width - 1)
    last = min(max(round(_share(end_s, window) * width), first + 1), width)
    busy: float = span["busy_s"] / (end_s - start_s) if end_s > start_s else 1.0
    shade = SHADES[min(int(busy * len(SHADES)), len(SHADES) - 1)]
    return (" " * first + shade * (last - first)).ljust(width)


def _share(at_s: float, window: tuple[float, float]) -> float:
    """Return where ``at_s`` lies in the window, from 0 to 1."""
    length_s = window[1] - window[0]
    return min(1.0, max(0.0, (at_s - window[0]) / length_s)) if length_s > 0 else 0.0


def _figures(trace: Mapping[str, Any]) -> Iterator[str]:
    told = {k: v for k, v in trace["attributes"].items() if k not in _TOLD_ELSEWHERE}
    rows = [("request", told), ("counts", dict(sorted(trace["counters"].items())))]
    rows += [(span["name"], span["attributes"]) for span in trace["spans"]]
    for name, values in rows:
        listed = " · ".join(f"{key} {_shown(value)}" for key, value in values.items())
        if listed:
            yield from wrapped(f"{name}: {listed}", "  ")


def _considered(record: Mapping[str, Any]) -> str:
    """Return what came of asking whether to retrieve again: when, why, and what was injected."""
    told = [
        f"inject at {record['moment']}, token {record['at_token']}: the passages lack the answer "
        f"with probability {record['probability']:.2f}"
    ]
    if injected := record.get("injected"):
        told.append(
            f"injected {' '.join(injected)}, {record['num_tokens']} tokens, "
            f"{record['num_taken_back']} taken back"
        )
    if "retrieved" in record:
        ids = " ".join(hit["id"] for hit in record["retrieved"])
        told.append(f"retrieved {ids or 'nothing'} for “{record['query']}”")
    if "reason" in record:
        told.append(f"nothing injected: {record['reason']}")
    if signals := record.get("signals"):
        told.append(f"signals: {_shown(signals)}")
    return " · ".join(told)


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_shown(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
