"""The commands that manage what a knowledge base holds."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from readahead.cli.options import Json, Kb, LexicalOnly, settings
from readahead.cli.output import counting, note, say, say_json
from readahead.knowledge import STDIN, KnowledgeBase
from readahead.retrieval.index import AddReport
from readahead.types import Document

DONE_WITH_FAILURES = 1


def add(
    context: typer.Context,
    paths: Annotated[list[str], typer.Argument(help="Files and folders; - reads stdin.")],
    kb: Kb = None,
    include: Annotated[
        list[str] | None, typer.Option(help="Only files that match this pattern; repeatable.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="No files that match this pattern; repeatable.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What to call stdin, for instance a.md.")] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show what cleaning removed.")
    ] = False,
    lexical_only: LexicalOnly = False,
    as_json: Json = False,
) -> None:
    """Add files to the knowledge base; unchanged ones cost nothing, changed ones are replaced."""
    config = settings(
        context,
        kb,
        lexical_only=lexical_only,
        documents__include=tuple(include) if include else None,
        documents__exclude=tuple(exclude) if exclude else None,
    )
    stdin = sys.stdin.buffer.read() if STDIN in paths else None
    removed: dict[str, Mapping[str, int]] = {}

    def see(document: Document) -> None:
        removed[document.name] = document.removed

    with KnowledgeBase.open(config) as knowledge, counting("Adding", quiet=as_json) as count:
        report = knowledge.add(
            paths,
            stdin=stdin,
            stdin_name=name or STDIN,
            progress=lambda r: count(r.added + r.replaced + r.unchanged, None, _state(r)),
            on_document=see,
        )
    _report(report, as_json=as_json)
    for path, counts in removed.items() if verbose else ():
        listed = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
        note(f"  removed from {path}: {listed or 'nothing'}")
    if report.failed:
        raise typer.Exit(DONE_WITH_FAILURES)


def _state(report: AddReport) -> str:
    return f"Adding: {report.encoded} passages embedded; files"


def _report(report: AddReport, *, as_json: bool) -> None:
    if as_json:
        say_json(
            {
                "added": report.added,
                "unchanged": report.unchanged,
                "replaced": report.replaced,
                "failed": report.failed,
                "passages": report.passages,
                "seconds": report.seconds,
            }
        )
    else:
        say(
            f"{report.added} added, {report.unchanged} unchanged, {report.replaced} replaced, "
            f"{len(report.failed)} failed; {report.passages} passages in {report.seconds:.1f} s"
        )
    for failure in report.failed:
        note(f"  failed: {failure.path}: {failure.reason}")


def ls(context: typer.Context, kb: Kb = None, as_json: Json = False) -> None:
    """List the documents."""
    with KnowledgeBase.open(settings(context, kb), create=False) as knowledge:
        documents = knowledge.store.documents()
    if as_json:
        say_json({"documents": documents})
        return
    for document in documents:
        say(
            f"{document.id:>6}  {document.num_passages:>6} passages  {document.num_chars:>9} "
            f"characters  version {document.version}  {document.name}"
        )


def show(
    context: typer.Context,
    document: Annotated[str, typer.Argument(help="A document's name or id, or a passage's id.")],
    kb: Kb = None,
    as_json: Json = False,
) -> None:
    """Show the stored text of a document, or of one passage such as 3.1.7."""
    with KnowledgeBase.open(settings(context, kb), create=False) as knowledge:
        found = knowledge.document(document)
    if as_json:
        blocks = [
            {
                "kind": block.kind,
                "heading": list(block.heading),
                "page": block.page,
                "start": block.start,
                "end": block.end,
            }
            for block in found.blocks
        ]
        say_json(
            {
                "document": found.name,
                "text": found.text,
                "blocks": blocks,
                "removed": dict(found.removed),
            }
        )
    else:
        say(found.text)


def rm(
    context: typer.Context,
    documents: Annotated[list[str], typer.Argument(help="Names or ids of documents.")],
    kb: Kb = None,
    as_json: Json = False,
) -> None:
    """Delete documents for good, with all their versions."""
    with KnowledgeBase.open(settings(context, kb), create=False) as knowledge:
        removed = knowledge.remove(documents)
    if as_json:
        say_json({"removed": removed})
    else:
        for name in removed:
            say(f"removed {name}")


def reembed(context: typer.Context, kb: Kb = None, as_json: Json = False) -> None:
    """Embed all passages anew with the embedding model of the settings."""
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
