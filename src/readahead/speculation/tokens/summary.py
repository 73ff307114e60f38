"""What speculation came to in one answer, gathered from its trace; knows no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import inf
from typing import cast

from readahead.speculation.tokens.acceptance import Mode
from readahead.speculation.tokens.base import REFRESH, Pacer
from readahead.speculation.tokens.governor import Governor
from readahead.trace import Span, Trace

_SPANS = {
    "retrieval_s": ("encode", "search", "retrieve"),
    "prefill_s": ("prefill",),
    "drafter_prefill_s": ("drafter_prefill",),
    "draft_s": ("draft",),
    "verify_s": ("verify",),
}


def summary(trace: Trace, mode: Mode, pacer: Pacer | None = None) -> dict[str, object]:
    """Return JSON values: the tally of draft tokens, where the time went, what the drafter read.

    Where a governor decided how much was drafted, ``governor`` has what it believes of each source.

    Args:
        trace: Of the answer; its attribute ``speculation`` holds the tally, see ``tally.Tally``.
        mode: The law of acceptance.
        pacer: What decided how much was drafted.
    """
    tally = cast("dict[str, object]", trace.attributes.get("speculation", {}))
    told = {"mode": mode, **tally, "seconds": phases(trace), "read": _read(trace)}
    if isinstance(pacer, Governor):
        told["governor"] = {name: asdict(belief) for name, belief in pacer.beliefs().items()}
    return told


def phases(trace: Trace) -> dict[str, float]:
    """Return the seconds that each phase of an answer took.

    ``refresh_s`` has all of a refresh, its retrieval and what the drafter reads then included; the
    other phases have nothing of it.
    """
    seconds = {name: _outside_s(trace, spans) for name, spans in _SPANS.items()}
    return {**seconds, "refresh_s": trace.total_s(REFRESH)}


def _outside_s(trace: Trace, names: Sequence[str]) -> float:
    """Return the seconds of spans of these names that are no part of a refresh."""
    refreshes = [span for span in trace.spans if span.name == REFRESH]
    return sum(span.busy_s for span in _outside(trace, refreshes) if span.name in names)


def _outside(trace: Trace, refreshes: Sequence[Span]) -> list[Span]:
    """Return the spans that began within none of ``refreshes``."""
    parts = [(span.start_s, span.end_s or inf) for span in refreshes]
    return [
        span for span in trace.spans if not any(start <= span.start_s < end for start, end in parts)
    ]


def _read(trace: Trace) -> dict[str, object]:
    """Return which passages were chosen for the drafter, and how many tokens a model read.

    A refresh that changed nothing has left it its passages.
    """
    idle = [span for span in trace.spans if span.attributes.get("changed") is False]
    spans = {span.name: span.attributes for span in _outside(trace, idle)}
    prompt = spans.get("drafter_prefill", {})
    parts = (cast("int", prompt.get(name, 0)) for name in ("num_tokens", "num_cached_tokens"))
    return {**spans.get("retrieve", {}), "num_prompt_tokens": sum(parts)}
