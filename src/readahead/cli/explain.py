"""Tells why an answer was chosen among drafts, for people; knows not where the audit was kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.cells import set_cell_size
from rich.console import Console
from rich.text import Text

from readahead.cli.output import COLUMNS, one_line, place_line, printable, wrapped
from readahead.errors import NotFound
from readahead.evidence.spans import find_run, normalize
from readahead.types import Passage

Audit = Mapping[str, Any]
MAX_EVIDENCE = 3  # sentences shown of one answer
CONTEXT_CHARS = 160  # of a passage, on either side of a sentence
PASSAGES_CELLS = 22
_INDENT = " " * 7
_HIGHLIGHT = "bold black on yellow"


def tables(audit: Audit) -> Iterator[str]:
    """Yield the lines that tell of every draft, and of every answer that drafts gave.

    The steps of a question that was split come behind it, each with tables of its own. No line
    takes more than ``COLUMNS`` columns of the terminal.
    """
    drafts, answers = audit["drafts"], audit["candidates"]
    if reason := audit.get("fell_back"):
        yield from wrapped(f"answered plainly: {reason}; written until then:", "  ")
    yield from wrapped(_head(audit), "  ")
    if drafts:
        yield (
            f"  {'#':>3}  {'passages':<{PASSAGES_CELLS}} {'prompt':>6} {'tokens':>6} "
            f"{'seconds':>7} {'ln q':>7}  {'by':<7} {'gives':<10} draft"
        )
    for number, draft in enumerate(drafts, start=1):
        yield _draft_row(number, draft)
    if answers:
        yield ""
        yield (
            f"  {'#':>3}  {'probability':>11} {'P(wrong)':>8} {'ln ρ_SC':>8} {'ρ_SR':>6}  "
            f"{'held by':<{PASSAGES_CELLS}} answer"
        )
    for number, answer in enumerate(answers, start=1):
        yield from _answer_rows(number, answer)
    for step in audit.get("steps", ()):
        yield ""
        yield from wrapped(f"step: {' '.join(step['question'].split())}", "  ")
        yield from tables(step)


def _head(audit: Audit) -> str:
    num_drafts, saved = len(audit["drafts"]), audit["num_saved_drafts"]
    told = [f"{num_drafts} drafts{f', {saved} not needed' if saved else ''}"]
    if not audit.get("fell_back"):
        told.append(_bars(audit))
        told.append(f"selection perplexity {audit['selection_perplexity']:.2f}")
    if lacking := audit.get("lacking"):
        told.append(f"lacking {lacking:.2f}")
    return " · ".join(told)


def _bars(audit: Audit) -> str:
    """Return how probable an answer has to be, and one that is given beside a better one."""
    told = f"an answer is given from probability {audit['threshold']:.2f} on"
    also = audit.get("also")
    return told if also is None else f"{told}, one beside a better answer from {also:.2f} on"


def _draft_row(number: int, draft: Mapping[str, Any]) -> str:
    candidate = draft["candidate"]
    gives = draft["fault"] if candidate is None else f"answer {candidate + 1}"
    gives = gives or "not judged"
    return one_line(
        f"  {number:>3}  {_ids(draft['passages'])} {draft['num_prompt_tokens']:>6} "
        f"{draft['num_tokens']:>6} {draft['seconds']:>7.2f} {_number(draft['logprob']):>7}  "
        f"{draft.get('author', ''):<7} {gives:<10} {' '.join(draft['answer'].split())}",
        COLUMNS,
    )


def _answer_rows(number: int, answer: Mapping[str, Any]) -> Iterator[str]:
    holding = [one["passage_id"] for one in answer["evidence"]]
    yield one_line(
        f"  {number:>3}  {answer['probability']:>11.2f} {_number(answer.get('wrong')):>8} "
        f"{_number(answer['consistency']):>8} {_number(answer['support']):>6}  {_ids(holding)} "
        f"{' '.join(answer['answer'].split())}",
        COLUMNS,
    )
    verdict = "selected" if answer["selected"] else f"not selected: {answer['reason']}"
    yield from wrapped(verdict + _checked(answer.get("claim")), _INDENT)


def _checked(claim: Mapping[str, Any] | None) -> str:
    """Return what all passages say about an answer."""
    if not claim:
        return ""
    against = [
        f"{one['passage_id']} [{one['start']}:{one['end']}] ({one['what']})"
        for one in claim["conflicting"]
    ]
    conflict = f", in conflict with {', '.join(against)}" if against else ""
    return f" · {claim['verdict']} by the passages{conflict}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _ids(ids: Sequence[str]) -> str:
    """Return as many ids as fit into their column, and how many more there are."""
    for num_shown in range(len(ids), 0, -1):
        more = len(ids) - num_shown
        listed = " ".join(ids[:num_shown]) + (f" +{more}" if more else "")
        if len(listed) <= PASSAGES_CELLS:
            return f"{listed:<{PASSAGES_CELLS}}"
    return set_cell_size(" ".join(ids), PASSAGES_CELLS)


def evidence(
    audit: Audit, find: Callable[[str], Passage], *, is_coloured: bool = False
) -> Iterator[Text]:
    """Yield lines that show each answer where it stands in the passages.

    Args:
        audit: As ``Answer.audit``.
        find: Returns a passage by its id; raises NotFound if it was removed meanwhile.
        is_coloured: Whether colours set the answer off; else »these marks« do.
    """
    for number, answer in enumerate(audit["candidates"], start=1):
        held = answer["evidence"]
        said = " ".join(answer["answer"].split())
        yield Text(one_line(f"  {number}. {said}", COLUMNS))
        if not held:
            yield Text(f"{_INDENT}no single sentence says it")
        for one in held[:MAX_EVIDENCE]:
            yield from _shown(answer["answer"], one, find, is_coloured)
        if len(held) > MAX_EVIDENCE:
            rest = " ".join(one["passage_id"] for one in held[MAX_EVIDENCE:])
            yield from map(Text, wrapped(f"and in {rest}", _INDENT))
    for step in audit.get("steps", ()):
        yield Text()
        yield from map(Text, wrapped(f"step: {' '.join(step['question'].split())}", "  "))
        yield from evidence(step, find, is_coloured=is_coloured)


def _shown(
    answer: str, held: Mapping[str, Any], find: Callable[[str], Passage], is_coloured: bool
) -> Iterator[Text]:
    span = f" {held['passage_id']} [{held['start']}:{held['end']}]"
    yield Text(one_line(_INDENT + place_line(held["document"], (), None) + span, COLUMNS))
    before, after = _context(held, find)
    start, end = _place(answer, held["text"])
    left, right = ("", "") if is_coloured else ("»", "«")
    line = Text.assemble(
        (_flat(before), "dim"),
        _flat(held["text"][:start]),
        (left + _flat(held["text"][start:end]) + right, _HIGHLIGHT),
        _flat(held["text"][end:]),
        (_flat(after), "dim"),
    )
    width = COLUMNS - len(_INDENT)
    for part in line.wrap(Console(width=width), width):
        part.rstrip()
        yield Text(_INDENT).append_text(part)


def _context(held: Mapping[str, Any], find: Callable[[str], Passage]) -> tuple[str, str]:
    """Return what stands in the passage before and after a sentence, as far as it is shown."""
    try:
        passage = find(held["passage_id"])
    except NotFound:
        return "", ""
    before = passage.text[: held["start"] - passage.start]
    after = passage.text[held["end"] - passage.start :]
    if len(before) > CONTEXT_CHARS:
        before = "…" + before[-CONTEXT_CHARS:]
    if len(after) > CONTEXT_CHARS:
        after = after[:CONTEXT_CHARS] + "…"
    return before, after


def _place(answer: str, sentence: str) -> tuple[int, int]:
    """Return where the answer stands in a sentence; all of it, if not word by word."""
    run = find_run(normalize(answer).squeezed(), normalize(sentence).squeezed(), sentence)
    return (run.start, run.end) if run else (0, len(sentence))


def _flat(text: str) -> str:
    return printable(re.sub(r"\s+", " ", text))
