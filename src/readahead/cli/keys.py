"""The commands for API keys: keys add, keys ls, keys rm."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from readahead.cli.options import Json, Kb, settings
from readahead.cli.output import note, say, say_json
from readahead.server.guard.keys import Key, Keys

app = typer.Typer(
    help="Make, list and remove the API keys of the server.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_ROW = "{:<24}  {:<16}  {:>12}  {:>10}  {}"
Name = Annotated[str, typer.Argument(metavar="NAME", help="What to call the key.")]


def _keys(context: typer.Context, kb: str | None) -> Keys:
    return Keys(settings(context, kb).kb)


@app.command()
def add(
    context: typer.Context,
    name: Name,
    kb: Kb = None,
    tenant: Annotated[
        str, typer.Option(metavar="TENANT", help="Whose documents it opens; else the server's own.")
    ] = "",
    tokens_per_day: Annotated[
        int | None, typer.Option(metavar="N", help="Read and written, until midnight UTC.")
    ] = None,
    requests_per_minute: Annotated[
        int | None, typer.Option(metavar="N", help="Beyond: refused with the time to wait.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a key and print it; only its hash is kept."""
    secret = _keys(context, kb).add(
        name,
        tenant=tenant,
        tokens_per_day=tokens_per_day,
        requests_per_minute=requests_per_minute,
    )
    if as_json:
        say_json({"name": name, "tenant": tenant, "key": secret})
    else:
        say(secret)
    note("Keep it: it cannot be shown again.")


@app.command()
def ls(context: typer.Context, kb: Kb = None, as_json: Json = False) -> None:
    """List the keys by name."""
    keys = _keys(context, kb).all()
    if as_json:
        say_json({"keys": [_shown(key) for key in keys]})
    elif not keys:
        note(
            "There is no key, so only this machine is served; a server that runs goes on needing "
            "one, if it did, until it is started again. Make one: readahead keys add NAME"
        )
    else:
        say(_ROW.format("name", "tenant", "tokens/day", "requests/min", "made"))
        for key in keys:
            limits = [str(n or "-") for n in (key.tokens_per_day, key.requests_per_minute)]
            say(_ROW.format(key.name, key.tenant or "-", *limits, key.created_at))


def _shown(key: Key) -> dict[str, object]:
    return {name: value for name, value in asdict(key).items() if name != "sha256"}


@app.command()
def rm(context: typer.Context, name: Name, kb: Kb = None, as_json: Json = False) -> None:
    """Remove a key; a running server refuses it at once."""
    _keys(context, kb).remove(name)
    if as_json:
        say_json({"removed": [name]})
    else:
        say(f"removed {name}")
