"""The program ``readahead``: its commands, and how errors become one line and an exit status."""

from __future__ import annotations

import io
import itertools
import os
import sys
from contextlib import suppress
from typing import Annotated

import typer

from readahead import __version__
from readahead.cli import (
    calibration,
    chat,
    documents,
    evaluations,
    health,
    keys,
    models,
    questions,
    rapid,
    serve,
    traces,
    verify,
)
from readahead.cli.options import Kb
from readahead.cli.output import note, say, say_json
from readahead.errors import InputError, ReadaheadError

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
    kb: Kb = None,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    context.obj = kb


for command in (
    models.pull,
    documents.add,
    documents.ls,
    documents.show,
    documents.rm,
    documents.reembed,
    questions.search,
    questions.ask,
    calibration.calibrate,
    chat.chat,
    serve.serve,
    traces.trace,
    verify.verify,
    health.doctor,
):
    app.command()(command)
app.add_typer(evaluations.app, name="eval")
app.add_typer(rapid.app, name="rapid")
app.add_typer(keys.app, name="keys")


def main() -> None:
    """Run one command; exit 0 done, 1 done with failures, 2 bad usage or input, 3 a fault.

    Typer ends the program itself on bad usage, on an interrupt and when nobody reads any more.
    """
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # ASCII terminals show Chinese as well
    try:
        app()
    except SystemExit as ending:
        # Typer has told people what is wrong with the usage, and keeps its error as the context.
        if told := getattr(ending.__context__, "format_message", None):
            _fail_json(InputError(told(), remedy="See: readahead --help"))
        raise
    except ReadaheadError as error:
        _fail(error)
    except Exception as error:
        if os.environ.get("READAHEAD_DEBUG"):
            raise
        _fail(_fault(error))


def _open_closed_streams() -> None:
    """Give the program the streams that it was started without; they hold nothing, keep nothing."""
    # Python has None for them, and the next file opened would get their number.
    for name, mode in {"stdin": "r", "stdout": "w", "stderr": "w"}.items():
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _fault(error: Exception) -> ReadaheadError:
    """Return the error for what nobody foresaw, of this machine or of readahead."""
    if isinstance(error, OSError):
        return ReadaheadError(
            f"The system refused: {error}.", remedy="Check the path, its permissions and the disk."
        )
    return ReadaheadError(
        f"A fault of readahead itself: {type(error).__name__}: {error}.",
        remedy="Set READAHEAD_DEBUG=1 to see where, and please report it.",
    )


def _fail(error: ReadaheadError) -> None:
    """Print the error as one line, as JSON too where that was asked for, and exit."""
    with suppress(OSError):
        note(f"error: {' '.join(str(error).split())}")
    _fail_json(error)
    _drop_unwritable()
    sys.exit(error.exit_status)


def _fail_json(error: ReadaheadError) -> None:
    """Print the error as JSON where that was asked for."""
    if "--json" in itertools.takewhile(lambda argument: argument != "--", sys.argv):
        fields = {"type": type(error).__name__, "message": error.message, "remedy": error.remedy}
        with suppress(OSError):
            say_json({"error": fields})


def _drop_unwritable() -> None:
    """Drop what a full disk did not take; Python would complain of it at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
