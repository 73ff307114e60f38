"""The command that serves: serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from readahead.cli.options import (
    Device,
    Drafter,
    Json,
    Kb,
    LexicalOnly,
    Precision,
    Target,
    TopK,
    note_words_only,
    settings,
)
from readahead.cli.output import note, one_line, say_json
from readahead.config import Config
from readahead.errors import missing_extra

if TYPE_CHECKING:
    from readahead.server.run import Started
    from readahead.server.state import Service

EXTRA = ("fastapi", "uvicorn", "starlette", "prometheus_client", "python_multipart")
Host = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Where to listen; else 127.0.0.1. Any other needs an API key."
    ),
]
Port = Annotated[int | None, typer.Option(metavar="N", help="Else 8321; 0: any free one.")]


def serve(
    context: typer.Context,
    kb: Kb = None,
    host: Host = None,
    port: Port = None,
    k: TopK = None,
    target: Target = None,
    drafter: Drafter = None,
    device: Device = None,
    dtype: Precision = None,
    lexical_only: LexicalOnly = False,
    as_json: Json = False,
) -> None:
    """Serve the documents: a page for people, and OpenAI's API for programs."""
    config = settings(
        context,
        kb,
        lexical_only=lexical_only,
        k=k,
        target=target,
        device=device,
        dtype=dtype,
        models__drafter=drafter,
        server__host=host,
        server__port=port,
    )
    _run(config, _json if as_json else _lines)


def _run(config: Config, started: Started) -> None:
    """Serve until a signal.

    Raises:
        ConfigError: The extra ``server`` is not installed.
    """
    try:
        from readahead.server.run import run
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        raise missing_extra(error.name, "server") from None
    run(config, tell=lambda text: note(one_line(text)), started=started)


def _lines(url: str, service: Service) -> None:
    note_words_only(service.tenant().engine.knowledge)
    note(f"readahead serves {one_line(str(service.config.kb))} at {url}; Ctrl-C ends.")
    if service.keys.are_needed():
        note("Every request needs an API key; a browser asks for it as the password.")


def _json(url: str, service: Service) -> None:
    say_json(
        {
            "url": url,
            "kb": str(service.config.kb),
            "target": service.loaded.target.name,
            "needs_key": service.keys.are_needed(),
        }
    )
