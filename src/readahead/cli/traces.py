"""The command that shows what happened in a request."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from readahead.cli.options import Json, Kb, settings
from readahead.cli.output import COLUMNS, note, one_line, say, say_json
from readahead.cli.timeline import num_seconds, timeline
from readahead.knowledge import KnowledgeBase


def trace(
    context: typer.Context,
    id: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="A trace's id; without it, the last are listed."),
    ] = None,
    kb: Kb = None,
    as_json: Json = False,
) -> None:
    """Show the timeline of a request, or list the last requests."""
    with KnowledgeBase.open(settings(context, kb), create=False) as knowledge:
        found: list[dict[str, Any]] = (
            knowledge.store.traces() if id is None else [knowledge.store.trace(id)]
        )
    if as_json:
        say_json({"traces": found} if id is None else found[0])
    elif id is not None:
        say("\n".join(timeline(found[0])))
    elif not found:
        note("No request was made yet. Make one: readahead ask QUESTION")
    else:
        for item in found:
            say(_row(item))


def _row(trace: dict[str, Any]) -> str:
    when = datetime.fromtimestamp(trace["started_at"])
    question = str(trace["attributes"].get("question", ""))
    row = f"{trace['id']}  {trace['kind']:<6}  {when:%Y-%m-%d %H:%M}  {num_seconds(trace):7.2f} s"
    return one_line(f"{row}  {question}", COLUMNS)
