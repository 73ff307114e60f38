"""The command that brings models."""

from __future__ import annotations

from typing import Annotated

import typer

from readahead.cli.options import Json, settings
from readahead.cli.output import DownloadBar, note, one_line, say, say_json
from readahead.lm.local import LocalModel


def pull(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME|FILE.gguf|PATH|HUB_ID",
            help="Built-in names, .gguf files, models' folders, hub ids.",
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show what is here.")] = False,
    as_json: Json = False,
) -> None:
    """Bring models; without a name, those of the settings."""
    from readahead.lm import weights

    if list_:
        _show(weights.list_local(), as_json=as_json)
        return
    if not names:
        config = settings(context, None)
        names = [config.models.target, config.models.embedder]
    with DownloadBar() as bar:
        found = [weights.pull(name, progress=bar) for name in names]
    _show(found, as_json=as_json)


def _show(models: list[LocalModel], *, as_json: bool) -> None:
    if as_json:
        rows = [
            {
                "name": model.name,
                "kind": model.kind,
                "folder": str(model.folder),
                "num_bytes": model.num_bytes,
                "licence": model.licence,
                "origin": model.origin,
                "sha256": model.sha256,
            }
            for model in models
        ]
        say_json({"models": rows})
        return
    if not models:
        note("No model is here yet. Bring the default ones: readahead pull")
    for model in models:
        row = f"{model.name:<24} {model.num_bytes / 1e6:>8.0f} MB on disk  {model.kind:<9}"
        say(one_line(f"{row} {model.licence:<12} {model.origin}"))
