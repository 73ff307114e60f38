"""The program ``readahead``: its commands, and how errors become one line and an exit status."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from readahead import __version__
from readahead.cli import checks, documents, models, questions
from readahead.cli.options import Context
from readahead.cli.output import note, say, say_json
from readahead.errors import ReadaheadError

FAULT = 3

app = typer.Typer(
    name="readahead",
    help="Ask your documents; speculate ahead; check every guess.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"readahead {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    context: typer.Context,
    kb: Annotated[
        Path | None,
        typer.Option(help="The folder of the knowledge base.", envvar="READAHEAD_KB"),
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    context.obj = Context(kb=kb)


for command in (
    models.pull,
    documents.add,
    documents.ls,
    documents.show,
    documents.rm,
    documents.reembed,
    questions.search,
    questions.ask,
    questions.chat,
    questions.trace,
    checks.doctor,
):
    app.command()(command)
app.add_typer(checks.evaluations, name="eval")


def main() -> None:
    """Run one command; exit 0 done, 1 done with failures, 2 bad usage or input, 3 a fault."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        app()
    except ReadaheadError as error:
        sys.exit(_report(error))
    except KeyboardInterrupt:
        note("Stopped.")
        sys.exit(130)
    except BrokenPipeError:
        # Who reads has left, as with `| head`; flushing at exit would fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if os.environ.get("READAHEAD_DEBUG"):
            raise
        note(f"error: a fault of readahead itself: {type(error).__name__}: {error}")
        note("Set READAHEAD_DEBUG=1 to see where, and please report it.")
        sys.exit(FAULT)


def _report(error: ReadaheadError) -> int:
    """Print the error as one line, as JSON too where JSON was asked for; return the status."""
    note(f"error: {' '.join(str(error).split())}")
    if "--json" in sys.argv:
        fields = {
            "type": type(error).__name__,
            "message": error.message,
            "remedy": error.remedy,
        }
        say_json({"error": fields})
    return error.exit_status
