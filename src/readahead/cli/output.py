"""Prints for all commands, without terminal escapes; knows no command."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

import typer
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from readahead.types import Answer, Citation, Usage

if TYPE_CHECKING:
    from readahead.evaluation.answers import FailedQuestion

LONG_S = 10.0  # who waits longer without a terminal is told once
COLUMNS = 100  # of a page: tables and timelines are drawn for it
SHOWN_CELLS = 80  # of a question that failed
DONE_WITH_FAILURES = 1  # the exit status of a command that did only a part
# Control characters but tab and line feed, the marks that turn the direction of text around, and
# invisible tags: what a document or a model wrote must not drive the terminal.
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """Return ``text`` with nothing in it that a terminal would obey."""
    return _UNPRINTABLE.sub("\ufffd", text)


def one_line(text: str, max_cells: int | None = None) -> str:
    """Return ``text`` on one line, cut to ``max_cells`` columns of the terminal."""
    line = printable(re.sub(r"[\t\n\r]", "\ufffd", text))
    if max_cells is None or cell_len(line) <= max_cells:
        return line
    return set_cell_size(line, max_cells - 1).rstrip() + "…"


def wrapped(text: str, indent: str) -> Iterator[str]:
    """Yield ``text`` in lines of the page's width; wide characters count twice."""
    width = COLUMNS - len(indent)
    for line in Text(printable(text)).wrap(Console(width=width), width):
        yield indent + line.plain.rstrip()


def is_coloured() -> bool:
    """Return whether stdout shows colours."""
    console = Console()
    return console.is_terminal and not console.no_color and console.color_system is not None


def say_styled(line: Text) -> None:
    """Print a line that is printable, with its styles if stdout shows colours."""
    if is_coloured():
        Console().print(line, soft_wrap=True)
    else:
        say(line.plain)


def say(text: str = "", *, end: str = "\n") -> None:
    """Print ``text`` on stdout at once."""
    sys.stdout.write(printable(text) + end)
    sys.stdout.flush()


def note(text: str) -> None:
    """Print ``text`` on stderr."""
    sys.stderr.write(printable(text) + "\n")
    sys.stderr.flush()


def say_json(value: object) -> None:
    """Print one JSON object on stdout; dataclasses become objects."""
    # Lone surrogates are valid in JSON only as escapes, which ensure_ascii writes.
    sys.stdout.write(json.dumps(_plain(value), ensure_ascii=True) + "\n")
    sys.stdout.flush()


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def answer_json(answer: Answer) -> dict[str, object]:
    """Return the answer as ``ask --json`` prints it: its text is called ``answer``."""
    fields = _plain(answer)
    assert isinstance(fields, dict)
    for name in ("audit", "speculation"):
        if not fields[name]:
            del fields[name]
    return {"answer": fields.pop("text"), **fields}


def place_line(document: str, heading: Sequence[str], page: int | None) -> str:
    """Return where a passage stands: document, page, and the titles above it."""
    parts = [document, f"page {page}" if page else "", " > ".join(heading)]
    return one_line(" · ".join(part for part in parts if part))


def citation_lines(citation: Citation) -> str:
    """Return a citation for people: where it stands, and the words."""
    place = place_line(citation.document, citation.heading, citation.page)
    quoted = " ".join(citation.text.split())
    return f"  [{citation.marker}] {place} [{citation.start}:{citation.end}]\n      “{quoted}”"


def figures_line(answer: Answer) -> str:
    """Return one line of figures of an answer."""
    timing, usage = answer.timing, answer.usage
    if answer.method == "drafts" and answer.audit:
        return _drafts_figures(answer)
    rate = 1 / timing.tpot_s if timing.tpot_s else 0.0
    supported = "" if answer.abstained else f"{answer.confidence:.0%} of sentences supported · "
    return (
        f"{supported}first token {timing.ttft_s:.2f} s (retrieval {timing.retrieval_s:.2f} s, "
        f"prefill {timing.prefill_s:.2f} s) · {_prompt_figures(usage)} · "
        f"{usage.completion_tokens} written at {rate:.1f} tokens/s{_per_forward(answer)} · "
        f"trace {answer.trace_id}"
    )


def _per_forward(answer: Answer) -> str:
    rate = answer.speculation.get("tokens_per_forward")
    return "" if rate is None else f", {rate:.1f} for each forward pass"


def _drafts_figures(answer: Answer) -> str:
    timing, drafts = answer.timing, answer.audit["drafts"]
    assert isinstance(drafts, list)
    right = "" if answer.abstained else f"right with probability {answer.confidence:.2f} · "
    return (
        f"{right}{len(drafts)} drafts · answer after {timing.e2e_s:.2f} s "
        f"(retrieval {timing.retrieval_s:.2f} s) · trace {answer.trace_id}"
    )


def _prompt_figures(usage: Usage) -> str:
    reused = f", {usage.reused_tokens} of them read before" if usage.reused_tokens else ""
    return f"{usage.prompt_tokens} tokens in the prompt{reused}"


def print_answer(events: Iterable[str | Citation | Answer]) -> Answer:
    """Print an answer while it is written, then its citations and figures; return it."""
    for event in events:
        if isinstance(event, str):
            say(event, end="")
        elif isinstance(event, Answer):
            _finish(event)
            return event
    raise AssertionError("the events of an answer end with an Answer")


def _finish(answer: Answer) -> None:
    say()
    for citation in answer.citations:
        say(citation_lines(citation))
    if answer.abstained:
        say("  (abstained: the passages do not hold the answer)")
    for text in answer.notes:
        note(f"  note: {one_line(text)}")
    note(f"  {figures_line(answer)}")


def say_failed(failed: Sequence[FailedQuestion]) -> None:
    """Name the questions that could not be asked.

    Raises:
        typer.Exit: There are some: the command is done with failures.
    """
    for failure in failed:
        note(f"  failed: {one_line(failure.question, SHOWN_CELLS)}: {one_line(failure.reason)}")
    if failed:
        raise typer.Exit(DONE_WITH_FAILURES)


def is_terminal() -> bool:
    """Return whether progress can be drawn, on stderr."""
    return sys.stderr.isatty()


class DownloadBar:
    """Shows the steps of a pull on stderr: bars on a terminal, one line a step elsewhere."""

    def __init__(self) -> None:
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not is_terminal(),
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def notice(self, text: str) -> None:
        """Show one line that the user should read."""
        if is_terminal():
            self._bars.console.print(printable(text), markup=False, highlight=False)
        else:
            note(text)

    def start(self, task: str, total_bytes: int | None) -> None:
        """Begin a step; None means that its length is not known."""
        if not is_terminal():
            note(f"{task} …")
        self._task = self._bars.add_task(task, total=total_bytes)

    def advance(self, num_bytes: int) -> None:
        """Count ``num_bytes`` more as done."""
        if self._task is not None:
            self._bars.advance(self._task, num_bytes)

    def done(self) -> None:
        """End the step."""
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None


@contextmanager
def working(description: str) -> Iterator[None]:
    """Show on a terminal's stderr that something takes its time, while the body runs."""
    if is_terminal():
        with Console(stderr=True).status(description):
            yield
    else:
        yield


@contextmanager
def waiting(description: str) -> Iterator[None]:
    """Tell on stderr what is waited for: on a terminal with the time, else once, after a while."""
    if is_terminal():
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
            bars.add_task(description, total=None)
            yield
        return
    late = threading.Timer(LONG_S, note, [f"{description} …"])
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()


@contextmanager
def counting(description: str, *, quiet: bool = False) -> Iterator[_Counter]:
    """Show how many things are done of how many, on a terminal's stderr, while the body runs."""
    bars = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=quiet or not is_terminal(),
    )
    with bars:
        yield _Counter(bars, bars.add_task(description, total=None))


class _Counter:
    """Moves one bar."""

    def __init__(self, bars: Progress, task: TaskID) -> None:
        self._bars = bars
        self._task = task

    def __call__(self, done: int, total: int | None, label: str = "") -> None:
        self._bars.update(self._task, completed=done, total=total)
        if label:
            self._bars.update(self._task, description=printable(label))
