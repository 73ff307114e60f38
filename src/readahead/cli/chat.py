"""The command that talks: chat."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from readahead.cli.filters import Documents, document_names, search_filter
from readahead.cli.methods import RAPID, check_options
from readahead.cli.options import (
    Device,
    Drafter,
    Drafting,
    DraftTokens,
    Eta,
    Inject,
    Kb,
    LexicalOnly,
    Mode,
    Precision,
    Target,
    TopK,
    decoded,
    given,
    note_words_only,
    of_tokens,
    settings,
)
from readahead.cli.output import DONE_WITH_FAILURES, note, one_line, print_answer, working
from readahead.cli.questions import WAITED_FOR, awaited
from readahead.errors import InputError
from readahead.knowledge import KnowledgeBase

if TYPE_CHECKING:
    from readahead.session import DocumentChat, Session, Status

PREFETCH = "prefetch"
OF_RAPID = ("drafter", "drafting", "mode", "eta", "draft_tokens")
Method = Annotated[
    str,
    typer.Option(
        metavar="METHOD",
        help="prefetch: retrieve for each question, ahead of it; rapid: about one --document, "
        "which is read whole and once.",
    ),
]
MAX_STATUS_CELLS = 100
REFRESH_S = 0.1
KEYS = "Ctrl-C stops an answer, Ctrl-D ends."


def chat(
    context: typer.Context,
    kb: Kb = None,
    method: Method = PREFETCH,
    k: TopK = None,
    target: Target = None,
    drafter: Drafter = None,
    drafting: Drafting = None,
    mode: Mode = None,
    eta: Eta = None,
    draft_tokens: DraftTokens = None,
    device: Device = None,
    dtype: Precision = None,
    inject: Inject = None,
    documents: Documents = None,
    lexical_only: LexicalOnly = False,
) -> None:
    """Talk about the documents; what a question will need is read while it is typed."""
    of_rapid = given(context, OF_RAPID)
    _check_method(method, inject, of_rapid)
    config = settings(
        context,
        kb,
        lexical_only=lexical_only,
        k=k,
        target=target,
        device=device,
        dtype=dtype,
        inject__enabled=inject,
        models__drafter=drafter,
        **of_tokens(drafting, mode, eta, draft_tokens),
    )
    if method == RAPID:
        check_options(RAPID, config, **of_rapid)
    with KnowledgeBase.open(config, create=False) as knowledge:
        note_words_only(knowledge)
        if method == RAPID:
            _talk_about_one(knowledge, _one(knowledge, documents))
        else:
            _talk(knowledge, documents)


def _check_method(method: str, inject: bool | None, of_rapid: Mapping[str, object]) -> None:
    """Raise InputError if there is no such method, or an option is of the other one."""
    if method not in (PREFETCH, RAPID):
        raise InputError(
            f"There is no method {method!r} to chat by.", remedy=f"Use: {PREFETCH}, {RAPID}."
        )
    if inject and method == RAPID:
        raise InputError(
            f"--inject is of the method {PREFETCH}, not of {method!r}, which reads all there is.",
            remedy="Leave it out.",
        )
    named = [name for name, value in of_rapid.items() if value is not None]
    if named and method == PREFETCH:
        raise InputError(
            f"--{named[0].replace('_', '-')} is of the method {RAPID}, not of {method!r}.",
            remedy=f"Add: --method {RAPID} --document NAME",
        )


def _one(knowledge: KnowledgeBase, given: Sequence[str] | None) -> str:
    """Return the document that is talked about.

    Raises:
        InputError: None is named, or several are.
        NotFound: There is no such document.
    """
    if not given:
        raise InputError(
            f"The method {RAPID!r} talks about one document, and none is named.",
            remedy="Add: --document NAME (readahead ls shows the names)",
        )
    names = document_names(knowledge.store, given, to_add=True)
    if len(names) > 1:
        raise InputError(
            f"{len(names)} documents are named; the method {RAPID!r} talks about one.",
            remedy="Name one with --document.",
        )
    return names[0]


def _talk(knowledge: KnowledgeBase, documents: Sequence[str] | None) -> None:
    """Answer questions about all documents, or those named, reading ahead while one types."""
    chosen = search_filter(knowledge.store, documents, None, None)
    num_documents = len(chosen.documents if chosen else knowledge.store.documents())
    with working("Loading the models"):
        from readahead.engine import Engine  # takes seconds: after what may be wrong
        from readahead.session import Session

        session = Session(Engine(knowledge), filter=chosen)
    with session:
        note(f"Ask about {num_documents} documents; {KEYS}")
        read_line = _editor(session) if sys.stdin.isatty() else _read_piped
        _answer_all(session, read_line)


def _talk_about_one(knowledge: KnowledgeBase, document: str) -> None:
    """Answer questions about one document."""
    with working("Loading the models"):
        from readahead.engine import Engine  # takes seconds: after what may be wrong
        from readahead.session import DocumentChat

        about = DocumentChat(Engine(knowledge), document)
    note(f"Ask about {one_line(document)}; {KEYS}")
    read_line = _plain_editor() if sys.stdin.isatty() else _read_piped
    _answer_all(about, read_line, WAITED_FOR[RAPID])


def _answer_all(
    session: Session | DocumentChat, read_line: Callable[[], str], waited_for: str = "Answering"
) -> None:
    """Answer the lines that are not blank, until there are no more.

    Raises:
        typer.Exit: Some questions of a file or pipe could not be asked.
    """
    num_failed = 0
    with suppress(EOFError):
        while True:
            try:
                if question := read_line().strip():
                    _answer(session, question, waited_for)
            except InputError as error:
                note(f"error: {one_line(str(error))}")
                num_failed += 1
    if num_failed and not sys.stdin.isatty():
        raise typer.Exit(DONE_WITH_FAILURES)


def _answer(session: Session | DocumentChat, question: str, waited_for: str) -> None:
    """Answer a question.

    Raises:
        InputError: It cannot be asked.
    """
    try:
        print_answer(awaited(session.submit(question), waited_for))
    except KeyboardInterrupt:
        note("\nStopped. Ctrl-D ends.")


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


def _plain_editor() -> Callable[[], str]:
    """Return a line editor with a history."""
    from prompt_toolkit import PromptSession

    editor: PromptSession[str] = PromptSession("> ")

    def read_line() -> str:
        try:
            return editor.prompt()
        except KeyboardInterrupt:  # clears the line
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
