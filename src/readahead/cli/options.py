"""The options that several commands share, and how they become settings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from readahead.config import Config, Dtype, load_config
from readahead.errors import InputError
from readahead.retrieval.base import Filter
from readahead.types import PassageKind


@dataclass(frozen=True, slots=True)
class Context:
    """What was given in front of the command."""

    kb: Path | None = None


Kb = Annotated[Path | None, typer.Option("--kb", help="The folder of the knowledge base.")]
Json = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object on stdout.")]
LexicalOnly = Annotated[
    bool, typer.Option("--lexical-only", help="Match words only; needs no embedding model.")
]
Documents = Annotated[
    list[str] | None, typer.Option("--document", help="Only this document; may be repeated.")
]
Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", help="Only passages of this kind, such as table; may be repeated."),
]
Metadata = Annotated[
    list[str] | None,
    typer.Option("--where", help="Only documents whose metadata has KEY=VALUE; may be repeated."),
]
Target = Annotated[str | None, typer.Option(help="The model that answers.")]
Device = Annotated[str | None, typer.Option(help="auto, cpu, cuda, …")]
Precision = Annotated[
    str | None, typer.Option("--dtype", help=f"One of {', '.join(get_args(Dtype))}.")
]
TopK = Annotated[int | None, typer.Option("-k", help="How many passages.")]


def settings(
    context: typer.Context,
    kb: Path | None,
    *,
    lexical_only: bool = False,
    **flags: object,
) -> Config:
    """Return the settings; a flag that was not given is None. ``__`` stands for the dot."""
    common = context.obj
    given = {name.replace("__", "."): value for name, value in flags.items()}
    given["kb"] = kb or (common.kb if isinstance(common, Context) else None)
    if lexical_only:
        given["retrieval.mode"] = "lexical"
    return load_config(given)


def search_filter(
    documents: Sequence[str] | None, kinds: Sequence[str] | None, metadata: Sequence[str] | None
) -> Filter | None:
    """Return the filter that the options describe, None where there are none.

    Raises:
        InputError: A kind does not exist, or a metadata condition is not KEY=VALUE.
    """
    if not (documents or kinds or metadata):
        return None
    for kind in kinds or ():
        if kind not in get_args(PassageKind):
            raise InputError(
                f"There is no kind {kind!r}.", remedy=f"Use: {', '.join(get_args(PassageKind))}."
            )
    return Filter(
        documents=tuple(documents or ()),
        kinds=cast("tuple[PassageKind, ...]", tuple(kinds or ())),
        metadata=dict(_condition(text) for text in metadata or ()),
    )


def _condition(text: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise InputError(f"{text!r} is not KEY=VALUE.", remedy="For instance: --where year=2024")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
