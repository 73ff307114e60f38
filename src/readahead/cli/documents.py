"""The commands that manage what a knowledge base holds."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated

import typer

from readahead.cli.filters import document_names
from readahead.cli.options import Json, Kb, LexicalOnly, note_words_only, settings
from readahead.cli.output import (
    DONE_WITH_FAILURES,
    counting,
    note,
    one_line,
    say,
    say_json,
)
from readahead.errors import InputError, NotFound
from readahead.knowledge import STDIN, KnowledgeBase
from readahead.retrieval.index import AddReport
from readahead.types import Document, Passage

_LS_ROW = "{:>6}  {:>8}  {:>10}  {:>7}  {}"
_PASSAGE_ID = re.compile(r"\d+\.\d+\.\d+")


def add(
    context: typer.Context,
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Files and folders; - reads stdin.")
    ],
    kb: Kb = None,
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="In folders, only files that match; repeatable."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="In folders, nothing that matches; repeatable."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What to call stdin, for instance a.md.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show what cleaning removed.")
    ] = False,
    lexical_only: LexicalOnly = False,
    as_json: Json = False,
) -> None:
    """Add files; unchanged ones cost nothing, changed are replaced."""
    config = settings(
        context,
        kb,
        lexical_only=lexical_only,
        documents__include=tuple(include) if include else None,
        documents__exclude=tuple(exclude) if exclude else None,
    )
    if name is not None and STDIN not in paths:
        raise InputError(f"--name {name!r} names stdin.", remedy="Give - among the paths.")
    stdin = _read_stdin(config.documents.max_file_bytes) if STDIN in paths else None
    removed: dict[str, Mapping[str, int]] = {}

    def see(document: Document) -> None:
        removed[document.name] = document.removed

    with KnowledgeBase.open(config) as knowledge:
        note_words_only(knowledge)
        with counting("Adding", quiet=as_json) as count:
            report = knowledge.add(
                paths,
                stdin=stdin,
                stdin_name=name or STDIN,
                progress=lambda r: count(
                    r.added + r.replaced + r.unchanged,
                    None,
                    f"{r.encoded} of {r.to_encode} passages embedded; files",
                ),
                on_document=see if verbose else None,
            )
        by_source = _by_source(removed, knowledge) if verbose else {}
    _report(report, as_json=as_json)
    for source, counts in by_source.items():
        listed = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
        note(f"  removed from {one_line(source)}: {listed or 'nothing'}")
    if report.failed:
        raise typer.Exit(DONE_WITH_FAILURES)


def _read_stdin(max_bytes: int) -> bytes:
    """Return stdin; one byte over the limit tells the reader that the rest is missing."""
    return sys.stdin.buffer.read(max_bytes + 1)


def _by_source(
    removed: Mapping[str, Mapping[str, int]], knowledge: KnowledgeBase
) -> dict[str, Counter[str]]:
    """Return the counts of each document summed over the file that it is from."""
    sources = {info.name: info.source for info in knowledge.store.documents()}
    sums: dict[str, Counter[str]] = {}
    for name, counts in removed.items():
        sums.setdefault(sources.get(name, name), Counter()).update(counts)
    return sums


def _report(report: AddReport, *, as_json: bool) -> None:
    if as_json:
        say_json(
            {
                "added": report.added,
                "unchanged": report.unchanged,
                "replaced": report.replaced,
                "failed": report.failed,
                "passages": report.passages,
                "too_long": report.too_long,
                "seconds": report.seconds,
            }
        )
    else:
        say(
            f"{report.added} added, {report.unchanged} unchanged, {report.replaced} replaced, "
            f"{len(report.failed)} failed; {report.passages} passages in {report.seconds:.1f} s"
        )
    if report.too_long:
        note(
            f"  {report.too_long} of the passages are longer than the embedder reads: their ends "
            "are found by their words, not by their meaning"
        )
    for failure in report.failed:
        note(f"  failed: {one_line(failure.path)}: {one_line(failure.reason)}")


def ls(context: typer.Context, kb: Kb = None, as_json: Json = False) -> None:
    """List the documents."""
    with KnowledgeBase.open(settings(context, kb), create=False) as knowledge:
        documents = knowledge.store.documents()
    if as_json:
        say_json({"documents": documents})
        return
    if not documents:
        note("The knowledge base is empty. Fill it: readahead add PATH…")
    else:
        say(_LS_ROW.format("id", "passages", "characters", "version", "name"))
    for document in documents:
        info = (document.id, document.num_passages, document.num_chars, document.version)
        say(_LS_ROW.format(*info, one_line(document.name)))


def show(
    context: typer.Context,
    document: Annotated[
        str, typer.Argument(metavar="ID|PATH", help="A document's id or name, or a passage's id.")
    ],
    kb: Kb = None,
    as_json: Json = False,
) -> None:
    """Show the stored text of a document, or of a passage such as 3.1.7."""
    with KnowledgeBase.open(settings(context, kb), create=False) as knowledge:
        found = _find(document, knowledge)
    if as_json:
        say_json(found.to_json())
    else:
        say(found.text)


def _find(name: str, knowledge: KnowledgeBase) -> Document | Passage:
    """Return the document or the passage that ``name`` means.

    Raises:
        NotFound: It means neither, or several documents.
    """
    if _PASSAGE_ID.fullmatch(name):
        with suppress(NotFound):
            return knowledge.store.passage(name)
    names = document_names(knowledge.store, [name])
    if len(names) > 1:
        raise NotFound(
            f"{name!r} holds {len(names)} documents.",
            remedy=f"Name one of them, for instance {names[0]!r}.",
        )
    return knowledge.document(names[0])


def rm(
    context: typer.Context,
    documents: Annotated[
        list[str], typer.Argument(metavar="ID|PATH", help="Documents, or folders of them.")
    ],
    kb: Kb = None,
    as_json: Json = False,
) -> None:
    """Delete documents for good, with all their versions."""
    with KnowledgeBase.open(settings(context, kb), create=False) as knowledge:
        removed = knowledge.remove(document_names(knowledge.store, documents))
    if as_json:
        say_json({"removed": removed})
    else:
        for name in removed:
            say(f"removed {one_line(name)}")


def reembed(context: typer.Context, kb: Kb = None, as_json: Json = False) -> None:
    """Embed all passages anew with the settings' embedding model."""
    config = settings(context, kb)
    with (
        KnowledgeBase.open(config, create=False) as knowledge,
        counting("Embedding", quiet=as_json) as count,
    ):
        num_passages = knowledge.reembed(progress=count)
    if as_json:
        say_json({"passages": num_passages})
    else:
        say(f"{num_passages} passages embedded with {config.models.embedder}")
