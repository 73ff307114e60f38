"""The commands that ask: search, ask, chat."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from readahead.cli.filters import Documents, Kinds, Metadata, search_filter
from readahead.cli.options import (
    Device,
    Json,
    Kb,
    LexicalOnly,
    Precision,
    Target,
    TopK,
    decoded,
    note_words_only,
    settings,
    text_of,
)
from readahead.cli.output import (
    answer_json,
    citation_lines,
    figures_line,
    note,
    one_line,
    passage_json,
    place_line,
    say,
    say_json,
    working,
)
from readahead.errors import InputError
from readahead.knowledge import KnowledgeBase
from readahead.types import Answer, Citation

if TYPE_CHECKING:
    from readahead.engine import Engine

MaxNewTokens = Annotated[
    int | None, typer.Option(metavar="N", help="The answer's length limit, in tokens.")
]
Temperature = Annotated[
    float | None, typer.Option(metavar="T", help="0 takes the most likely token.")
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Seeds the sampling.")]
Inject = Annotated[
    bool | None,
    typer.Option(
        "--inject",
        help="Retrieve again while the answer is written, if its passages seem to lack it.",
    ),
]
SHOWN_CELLS = 240


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Any text; - reads stdin.")],
    kb: Kb = None,
    k: TopK = None,
    documents: Documents = None,
    kinds: Kinds = None,
    metadata: Metadata = None,
    lexical_only: LexicalOnly = False,
    as_json: Json = False,
) -> None:
    """Show the passages that fit a query best."""
    config = settings(context, kb, lexical_only=lexical_only, retrieval__k=k)
    text = text_of(query)
    with KnowledgeBase.open(config, create=False) as knowledge:
        note_words_only(knowledge)
        chosen = search_filter(knowledge.store, documents, kinds, metadata)
        hits = knowledge.search(text, config.retrieval.k, filter=chosen)
    if as_json:
        say_json({"hits": [{**passage_json(hit.passage), "score": hit.score} for hit in hits]})
        return
    if not hits:
        note("Nothing found.")
    for rank, hit in enumerate(hits, start=1):
        passage = hit.passage
        place = place_line(passage.document, passage.heading, passage.page)
        say(f"{rank}. {place} ({passage.id})")
        say("   " + one_line(" ".join(passage.text.split()), SHOWN_CELLS))


def ask(
    context: typer.Context,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="Any text; - reads stdin.")],
    kb: Kb = None,
    method: Annotated[
        str, typer.Option(metavar="METHOD", help="plain: retrieve, then answer.")
    ] = "plain",
    k: TopK = None,
    target: Target = None,
    device: Device = None,
    dtype: Precision = None,
    max_new_tokens: MaxNewTokens = None,
    temperature: Temperature = None,
    seed: Seed = None,
    inject: Inject = None,
    documents: Documents = None,
    kinds: Kinds = None,
    metadata: Metadata = None,
    lexical_only: LexicalOnly = False,
    as_json: Json = False,
) -> None:
    """Answer a question from the documents, with citations."""
    config = settings(
        context,
        kb,
        lexical_only=lexical_only,
        retrieval__k=k,
        models__target=target,
        models__device=device,
        models__dtype=dtype,
        generation__max_new_tokens=max_new_tokens,
        generation__temperature=temperature,
        generation__seed=seed,
        inject__enabled=inject,
    )
    text = text_of(question)
    with KnowledgeBase.open(config, create=False) as knowledge:
        note_words_only(knowledge)
        chosen = search_filter(knowledge.store, documents, kinds, metadata)
        engine = _engine(knowledge)
        if as_json:
            say_json(answer_json(engine.ask(text, method=method, filter=chosen)))
        else:
            _print(engine.stream(text, method=method, filter=chosen))


def chat(
    context: typer.Context,
    kb: Kb = None,
    k: TopK = None,
    target: Target = None,
    device: Device = None,
    dtype: Precision = None,
    lexical_only: LexicalOnly = False,
) -> None:
    """Answer one question a line; each stands for itself."""
    config = settings(
        context,
        kb,
        lexical_only=lexical_only,
        retrieval__k=k,
        models__target=target,
        models__device=device,
        models__dtype=dtype,
    )
    with KnowledgeBase.open(config, create=False) as knowledge:
        note_words_only(knowledge)
        num_documents = len(knowledge.store.documents())
        engine = _engine(knowledge)
        note(f"Ask about {num_documents} documents; Ctrl-D ends.")
        for question in _questions():
            try:
                _print(engine.stream(question))
            except InputError as error:
                note(f"error: {one_line(str(error))}")
            except KeyboardInterrupt:
                note("\nStopped. Ctrl-D ends.")


def _engine(knowledge: KnowledgeBase) -> Engine:
    with working("Loading the models"):
        from readahead.engine import Engine  # takes seconds: after what may be wrong

        return Engine(knowledge).load()


def _print(events: Iterator[str | Citation | Answer]) -> None:
    """Print an answer while it is written, then its citations and figures."""
    for event in events:
        if isinstance(event, str):
            say(event, end="")
        elif isinstance(event, Answer):
            _finish(event)


def _finish(answer: Answer) -> None:
    say()
    for citation in answer.citations:
        say(citation_lines(citation))
    if answer.abstained:
        say("  (abstained: the passages do not hold the answer)")
    for text in answer.notes:
        note(f"  note: {one_line(text)}")
    note(f"  {figures_line(answer)}")


def _questions() -> Iterator[str]:
    """Yield the lines of stdin that are not blank; a terminal's can be edited and recalled."""
    with suppress(EOFError):
        while True:
            try:
                question = _read_line().strip()
            except InputError as error:
                note(f"error: {one_line(str(error))}")
                continue
            if question:
                yield question


def _read_line() -> str:
    """Return the next line.

    Raises:
        EOFError: There is none.
        InputError: It is not UTF-8.
    """
    if sys.stdin.isatty():
        with suppress(ImportError):
            import readline  # noqa: F401 (input() then edits lines)
        return input("> ")
    if not (line := sys.stdin.buffer.readline()):
        raise EOFError
    return decoded(line)
