"""What a finished trace says came of speculation, in words from short lists; counts nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from readahead.trace import Trace

METHODS = ("plain", "prefetch", "drafts", "rapid", "bare")
OTHER = "other"
Guess = Literal["", "kept", "partly", "dropped"]


def method_of(trace: Trace) -> str:
    """Return what answered, one of ``METHODS`` or ``other``."""
    method = trace.attributes.get("method")
    return str(method) if method in METHODS else OTHER


def is_kept(trace: Trace) -> bool:
    """Return whether the trace is stored with its tenant: one of the bare target is not."""
    return method_of(trace) != "bare"


def asked_s(trace: Trace) -> float:
    """Return when the question was asked, on the clock of the trace."""
    return number(trace, "asked_s")


def number(trace: Trace, name: str) -> float:
    """Return an attribute that is a number, 0 if it is missing."""
    value = trace.attributes.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def guess_of(trace: Trace) -> Guess:
    """Return what came of reading ahead, "" where nothing was read ahead."""
    told = _mapping(trace, "prefetch")
    computed = trace.counters.get("computed_ahead_tokens", 0)
    if not (told.get("guessed") or computed):
        return ""
    num_new, num_kept = told.get("num_new_passages", 0), told.get("num_kept_passages", 0)
    is_useful = bool(num_kept or told.get("num_useful_tokens", 0))
    if num_kept == num_new and is_useful:
        return "kept"
    return "partly" if is_useful else "dropped"


def abstention_of(trace: Trace) -> str:
    """Return why the answer says that there is none, "" where it says something.

    ``nothing_found``: no passage fits; ``declined``: the model said so; ``no_draft``: no draft
    holds an answer; ``uncertain``: none is probable enough.
    """
    if not trace.attributes.get("abstained"):
        return ""
    if not trace.attributes.get("passages"):
        return "nothing_found"
    if method_of(trace) != "drafts":
        return "declined"
    return "uncertain" if _mapping(trace, "drafts").get("candidates") else "no_draft"


def drafts_of(trace: Trace) -> Counter[str]:
    """Return how many drafts were ``selected``, ``rejected``, ``saved`` or at fault, and how."""
    outcomes = Counter[str]()
    for audit in _audits(_mapping(trace, "drafts")):
        outcomes["saved"] += audit["num_saved_drafts"]
        outcomes.update(_outcome(draft, audit["candidates"]) for draft in audit["drafts"])
    return +outcomes


def has_fallen_back(trace: Trace) -> bool:
    """Return whether plain RAG answered a question to drafts."""
    return bool(_mapping(trace, "drafts").get("fell_back"))


def rounds_of(trace: Trace) -> list[tuple[int, int]]:
    """Return of each verification of draft tokens how many there were, and were accepted."""
    rounds = _mapping(trace, "speculation").get("rounds", ())
    return [(drafted, accepted) for _, drafted, accepted, _ in rounds if drafted]


def _audits(audit: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the audit of a question and of its parts."""
    if audit:
        yield audit
        for part in audit["steps"]:
            yield from _audits(part)


def _outcome(draft: Mapping[str, Any], candidates: list[Mapping[str, Any]]) -> str:
    if draft["fault"]:
        return str(draft["fault"])
    place = draft["candidate"]
    return "selected" if place is not None and candidates[place]["selected"] else "rejected"


def _mapping(trace: Trace, name: str) -> Mapping[str, Any]:
    value = trace.attributes.get(name)
    return value if isinstance(value, Mapping) else {}
