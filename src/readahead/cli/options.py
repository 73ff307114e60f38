"""The options that several commands share, and what they come to: settings, text to ask."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, get_args

import typer

from readahead.cli.output import note
from readahead.config import Config, DraftsConfig, Dtype, TokensConfig, load_config
from readahead.errors import InputError
from readahead.knowledge import STDIN, KnowledgeBase

NAMED_THRESHOLDS = ("strict", "lenient")
Kb = Annotated[
    str | None,
    typer.Option(
        "--kb",
        metavar="DIR",
        help="The knowledge base's folder; else READAHEAD_KB, else .readahead.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object on stdout.")]
LexicalOnly = Annotated[
    bool, typer.Option("--lexical-only", help="Match words only; needs no embedding model.")
]
Target = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="What answers: a model's name, folder or .gguf file."),
]
Device = Annotated[str | None, typer.Option(metavar="DEVICE", help="auto, cpu, cuda, …")]
Precision = Annotated[
    str | None,
    typer.Option("--dtype", metavar="DTYPE", help=f"One of {', '.join(get_args(Dtype))}."),
]
Drafter = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="What writes drafts, or draft tokens; else the target."),
]


def preset_of(text: str | None) -> str | None:
    """Return a preset of drafts; None if it was not given.

    Raises:
        InputError: There is no such preset.
    """
    return one_of("--preset", text, DraftsConfig, "preset")


Preset = Annotated[
    str | None,
    typer.Option(
        metavar="PRESET",
        callback=preset_of,
        help="Of drafts: fast (the drafter drafts) or accurate (the target does, too, and scores).",
    ),
]
Drafting = Annotated[
    str | None,
    typer.Option(
        metavar="KIND",
        help="Of rapid: lookup copies tokens; rag: a model that reads the best part of the "
        "document drafts them; hybrid: both.",
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(
        metavar="MODE",
        help="Of rapid: exact, the target's own law; or augmented, paper, ensemble, which are "
        "approximate.",
    ),
]
Eta = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Of augmented and paper: how strongly the drafter is heeded, or self-weak, self, "
        "self-strong, upward, upward-strong.",
    ),
]
DraftTokens = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Of rapid: for each forward pass; 0: as many as measured costs make worth it.",
    ),
]
Question = Annotated[str, typer.Argument(metavar="QUESTION", help="Any text; - reads stdin.")]
Method = Annotated[
    str,
    typer.Option(
        metavar="METHOD",
        help="plain: retrieve, then answer; drafts: draft several answers small, and choose by "
        "evidence; rapid: read a whole document, that of --document or of the best passage, "
        "and draft tokens from its best part.",
    ),
]
MaxNewTokens = Annotated[
    int | None, typer.Option(metavar="N", help="The answer's length limit, in tokens.")
]
Temperature = Annotated[
    float | None, typer.Option(metavar="T", help="0 takes the most likely token.")
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Seeds the sampling.")]
Inject = Annotated[
    bool | None,
    typer.Option(
        "--inject",
        help="Retrieve again while the answer is written, if its passages seem to lack it.",
    ),
]
Threshold = Annotated[
    str | None,
    typer.Option(
        metavar="P",
        help="Of drafts: strict, lenient, or the probability of being right from which on to "
        "answer.",
    ),
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Show all drafts, why one was chosen, and its evidence; of rapid, what draft tokens "
        "came to.",
    ),
]
TopK = Annotated[int | None, typer.Option("-k", metavar="N", help="How many passages.")]


def settings(
    context: typer.Context,
    kb: str | None,
    *,
    lexical_only: bool = False,
    k: int | None = None,
    target: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    **flags: object,
) -> Config:
    """Return the settings; a flag that was not given is None. ``__`` stands for the dot.

    Raises:
        ConfigError: A setting is not usable.
        InputError: The knowledge base is not a folder.
    """
    set_to = {name.replace("__", "."): value for name, value in flags.items()}
    set_to |= {
        "retrieval.k": k,
        "models.target": target,
        "models.device": device,
        "models.dtype": dtype,
    }
    set_to["kb"] = context.obj if kb is None else kb  # behind the command, else in front of it
    if lexical_only:
        set_to["retrieval.mode"] = "lexical"
    config = load_config(set_to)
    if config.kb.is_file():
        raise InputError(
            f"The knowledge base {config.kb} is a file.", remedy="Choose a folder with --kb."
        )
    return config


def given(context: typer.Context, names: Iterable[str]) -> dict[str, object]:
    """Return what some options of a command were given; None or False if they were not."""
    return {name: context.params[name] for name in names}


def threshold_of(text: str | None) -> str | float | None:
    """Return a threshold of drafts: ``strict``, ``lenient`` or a probability.

    Raises:
        InputError: It is none of them.
    """
    if text in (None, *NAMED_THRESHOLDS):
        return text
    with suppress(ValueError):
        if 0 <= (probability := float(text)) <= 1:
            return probability
    raise InputError(
        f"{text!r} is no threshold.", remedy="Give strict, lenient or a probability in [0, 1]."
    )


def one_of(
    option: str, value: str | None, section: type[DraftsConfig | TokensConfig], setting: str
) -> str | None:
    """Return the value of an option of a setting of ``section``, None if it was not given.

    Raises:
        InputError: It is not one of those that the setting may have.
    """
    choices = get_args(section.model_fields[setting].annotation)
    if value is None or value in choices:
        return value
    raise InputError(f"{option} is {value!r}.", remedy=f"Use: {', '.join(choices)}.")


def of_tokens(
    drafting: str | None, mode: str | None, eta: str | None, draft_tokens: int | None
) -> dict[str, object]:
    """Return the options of rapid as flags of ``settings``.

    Raises:
        InputError: There is no such kind of drafting, or no such mode.
    """
    return {
        "tokens__drafter": one_of("--drafting", drafting, TokensConfig, "drafter"),
        "tokens__mode": one_of("--mode", mode, TokensConfig, "mode"),
        "tokens__eta": eta,
        "tokens__num_draft_tokens": draft_tokens,
    }


def note_words_only(knowledge: KnowledgeBase) -> None:
    """Say so if the settings ask for a search by meaning, and the knowledge base cannot do it."""
    if knowledge.config.retrieval.mode != "lexical" and knowledge.is_lexical:
        note("words only: this knowledge base has no vectors; give it some with: readahead reembed")


def text_of(argument: str) -> str:
    """Return the text that is asked: the argument, or stdin's text for ``-``.

    Raises:
        InputError: There is no text.
    """
    text = decoded(sys.stdin.buffer.read()) if argument == STDIN else argument
    if not text.strip():
        raise InputError("The question is blank.", remedy="Give some text, or - to read stdin.")
    return text.strip()


def decoded(data: bytes) -> str:
    """Return what came from stdin as text.

    Raises:
        InputError: It is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"Standard input is not UTF-8: byte {error.start} cannot be decoded.",
            remedy="Give text; files are added with readahead add.",
        ) from None
