"""The command that talks: chat."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

from readahead.cli.options import (
    Device,
    Kb,
    LexicalOnly,
    Precision,
    Target,
    TopK,
    decoded,
    note_words_only,
    settings,
)
from readahead.cli.output import note, one_line, print_answer, working
from readahead.cli.questions import Inject
from readahead.errors import InputError
from readahead.knowledge import KnowledgeBase

if TYPE_CHECKING:
    from readahead.session import Session, Status

MAX_STATUS_CELLS = 100
REFRESH_S = 0.1


def chat(
    context: typer.Context,
    kb: Kb = None,
    k: TopK = None,
    target: Target = None,
    device: Device = None,
    dtype: Precision = None,
    inject: Inject = None,
    lexical_only: LexicalOnly = False,
) -> None:
    """Talk about the documents; what a question will need is read while it is typed."""
    config = settings(
        context,
        kb,
        lexical_only=lexical_only,
        k=k,
        target=target,
        device=device,
        dtype=dtype,
        inject__enabled=inject,
    )
    with KnowledgeBase.open(config, create=False) as knowledge:
        note_words_only(knowledge)
        num_documents = len(knowledge.store.documents())
        with working("Loading the models"):
            from readahead.engine import Engine  # takes seconds: after what may be wrong
            from readahead.session import Session

            session = Session(Engine(knowledge))
        with session:
            note(f"Ask about {num_documents} documents; Ctrl-C stops an answer, Ctrl-D ends.")
            for question in _questions(_reader(session)):
                _answer(session, question)


def _answer(session: Session, question: str) -> None:
    try:
        print_answer(session.submit(question))
    except InputError as error:
        note(f"error: {one_line(str(error))}")
    except KeyboardInterrupt:
        note("\nStopped. Ctrl-D ends.")


def _questions(read_line: Callable[[], str]) -> Iterator[str]:
    """Yield the lines that are not blank."""
    with suppress(EOFError):
        while True:
            try:
                question = read_line().strip()
            except InputError as error:
                note(f"error: {one_line(str(error))}")
                continue
            if question:
                yield question


def _reader(session: Session) -> Callable[[], str]:
    """Return what reads the next line, raising EOFError at the end."""
    return _editor(session) if sys.stdin.isatty() else _read_piped


def _read_piped() -> str:
    """Return the next line of a file or pipe.

    Raises:
        EOFError: There is none.
        InputError: It is not UTF-8.
    """
    if not (line := sys.stdin.buffer.readline()):
        raise EOFError
    return decoded(line)


def _editor(session: Session) -> Callable[[], str]:
    """Return a line editor with a history, and a status line of what is ready."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    keys = KeyBindings()

    @keys.add("tab")
    def take_suggestion(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        buffer.text = next_suggestion(buffer.text, session.suggestions())
        buffer.cursor_position = len(buffer.text)

    def typed(buffer: Buffer) -> None:
        session.type(buffer.text)

    editor: PromptSession[str] = PromptSession(
        "> ",
        bottom_toolbar=lambda: status_line(session.status, session.suggestions()),
        refresh_interval=REFRESH_S,
        key_bindings=keys,
    )
    editor.default_buffer.on_text_changed += typed

    def read_line() -> str:
        try:
            return editor.prompt()
        except KeyboardInterrupt:  # clears the line
            session.type("")
            return ""

    return read_line


def next_suggestion(text: str, suggestions: Sequence[str]) -> str:
    """Return what Tab puts into the line: the first suggestion, then the one behind it, ….

    What one has typed oneself stays.
    """
    if not suggestions or (text and text not in suggestions):
        return text
    at = suggestions.index(text) + 1 if text else 0
    return suggestions[at % len(suggestions)]


def status_line(status: Status, suggestions: Sequence[str] = ()) -> str:
    """Return what is ready for the question that is being typed, in one line."""
    if not status.num_tokens and not status.reason:
        waiting = "nothing read ahead yet"
        return one_line(f"Tab: {suggestions[0]}", MAX_STATUS_CELLS) if suggestions else waiting
    if not status.num_tokens:
        return f"waiting: {status.reason}"
    figures = f"{status.num_tokens} tokens read"
    if status.num_answer_tokens:
        figures += f", {status.num_answer_tokens} of the answer written"
    ready = "".join([": ", " · ".join(status.passages)] if status.passages else [])
    return one_line(f"{figures} ahead{ready}", MAX_STATUS_CELLS)
