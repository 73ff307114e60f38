"""The command that brings models."""

from __future__ import annotations

from typing import Annotated

import typer

from readahead.cli.options import Json, settings
from readahead.cli.output import DownloadBar, note, say, say_json
from readahead.lm.local import LocalModel


def pull(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(help="A built-in name, FILE.gguf, a model's folder, or a hub id."),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Show what is here; bring nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Bring models to this machine; without a name, the target and embedder of the settings."""
    from readahead.lm.weights import list_local
    from readahead.lm.weights import pull as bring

    if list_:
        _show(list_local(), as_json=as_json)
        return
    config = settings(context, None)
    with DownloadBar() as bar:
        found = [
            bring(n, progress=bar) for n in names or (config.models.target, config.models.embedder)
        ]
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
        say(
            f"{model.name:<24} {model.num_bytes / 1e6:>8.0f} MB  {model.kind:<9} "
            f"{model.licence:<12} {model.origin}"
        )
