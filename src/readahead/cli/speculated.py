"""Tells what speculation on tokens came to, for people; knows not where it was kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from readahead.cli.output import COLUMNS, one_line, wrapped

MAX_ROUNDS = 400  # drawn of one answer
SHOWN_POSITIONS = 16
LEGEND = "■ copied, ● by the model, ◆ by both, hollow where rejected, + the target's own"
# An accepted and a rejected token, by what drafted them.
_MARKS = {"lookup": ("■", "□"), "model": ("●", "○")}
_MIXED = ("◆", "◇")
_OWN = "+"
_SOURCES = {"lookup": ("copying", " where something matches"), "model": ("the drafter", "")}
_PHASES = ("retrieval", "prefill", "drafter_prefill", "draft", "verify")


def table(told: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that sum up an answer's draft tokens: how many, whose, when, from what.

    No line takes more than ``COLUMNS`` columns of the terminal.

    Args:
        told: As ``Answer.speculation``; what it lacks is not told.
    """
    per_forward = 1 + told["num_accepted_tokens"] / max(1, told["num_rounds"])
    yield one_line(
        f"  {told['num_rounds']} rounds · {told['num_draft_tokens']} draft tokens, "
        f"{told['num_accepted_tokens']} accepted ({told['draft_acceptance_rate']:.2f}) · "
        f"{per_forward:.2f} tokens per forward of the target",
        COLUMNS,
    )
    if "num_drafted_rounds" in told:
        yield from wrapped(_why(told), "  ")
    yield from _columns("source", "{:>8}", list(told["drafted"]))
    yield from _columns("drafted", "{:>8}", list(told["drafted"].values()))
    yield from _columns("accepted", "{:>8}", [told["accepted"].get(n, 0) for n in told["drafted"]])
    shares = told["acceptance_by_position"][:SHOWN_POSITIONS]
    yield from _columns("position", "{:>4}", list(range(1, len(shares) + 1)))
    yield from _columns("accepted", "{:>4.2f}", shares)
    if seconds := told.get("seconds"):
        phases = (*_PHASES, "refresh") if seconds.get("refresh_s") else _PHASES
        spent = (f"{name.replace('_', ' ')} {seconds[f'{name}_s']:.2f}" for name in phases)
        yield f"  {'seconds':<9} {' · '.join(spent)}"
    if (read := told.get("read")) and "passages" in read:
        yield from wrapped(_read(read), "  ")
    if told.get("mode", "exact") != "exact":
        yield (
            f"  mode {told['mode']}: approximate; total variation from the target "
            f"{told['mean_gap']:.4f} a token, in the mean"
        )


def _why(told: Mapping[str, Any]) -> str:
    """Return in how many rounds was drafted, and what the governor believes of doing so."""
    num_drafted = told["num_drafted_rounds"]
    rounds = f"drafted in {num_drafted} rounds, {told['num_rounds'] - num_drafted} were plain"
    if (beliefs := told.get("governor")) is None:
        return rounds
    if not beliefs:
        return f"{rounds}; the governor had nothing to choose from"
    expected = (_believed(source, belief) for source, belief in beliefs.items())
    return f"{rounds}; the governor expects {'; '.join(expected)}"


def _believed(source: str, belief: Mapping[str, float]) -> str:
    does, where = _SOURCES.get(source, (source, ""))
    verdict = "" if belief["speed_up"] > 1 else ", which is not worth it"
    return (
        f"{does} to decode {belief['speed_up']:.2f} times as fast as plain{where}, at an "
        f"acceptance of {belief['acceptance']:.2f}{verdict}"
    )


def _columns(name: str, form: str, values: Sequence[object]) -> Iterator[str]:
    if values:
        yield f"  {name:<9} " + " ".join(map(form.format, values))


def _read(read: Mapping[str, Any]) -> str:
    """Return what the drafting model read, or what was copied from before all else."""
    did = (
        f"the drafter read {read['num_prompt_tokens']} tokens, of them"
        if read["num_prompt_tokens"]
        else "copied first from"
    )
    why = "; none resembles the question, so these are the best" if read["is_fallback"] else ""
    ids = " ".join(read["passages"])
    return f"{did} {len(read['passages'])} passages, {read['num_tokens']} tokens{why}: {ids}"


def drawn(rounds: Sequence[tuple[float, int, int, str]]) -> Iterator[str]:
    """Yield lines with a mark for each token of each round, in front of them when they began.

    Args:
        rounds: When each began, draft tokens, accepted ones, and what drafted them.
    """
    if not rounds:
        return
    yield f"  rounds: {LEGEND}"
    line, begun_s = "", rounds[0][0]
    for start_s, num_drafted, num_accepted, source in rounds[:MAX_ROUNDS]:
        accepted, rejected = _MARKS.get(source, _MIXED)
        marks = accepted * num_accepted + rejected * (num_drafted - num_accepted) + _OWN
        if line and len(line) + 1 + len(marks) > COLUMNS - len(_begun(begun_s)):
            yield _begun(begun_s) + line
            line, begun_s = "", start_s
        line = f"{line} {marks}" if line else marks
    yield _begun(begun_s) + line
    if len(rounds) > MAX_ROUNDS:
        yield f"  and {len(rounds) - MAX_ROUNDS} more rounds"


def _begun(seconds: float) -> str:
    return f"  {seconds:8.3f} s  "
