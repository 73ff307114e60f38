"""``readahead eval rapid``: ways to answer questions over long documents, compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from readahead.cli.options import (
    Device,
    Drafter,
    DraftTokens,
    Json,
    LexicalOnly,
    Precision,
    Target,
    settings,
)
from readahead.cli.output import counting, say, say_failed, say_json
from readahead.config import Config
from readahead.errors import InputError
from readahead.evaluation.longcases import LongCase, behind_history
from readahead.evaluation.longdocs import Task, read_long_cases
from readahead.evaluation.needles import NeedleKind, make_needles
from readahead.knowledge import load_embedder

if TYPE_CHECKING:
    from readahead.evaluation.rapid import Figures, RapidReport
    from readahead.evaluation.rapidrun import Runner
    from readahead.evaluation.rapidsettings import Setting

NUM_DIALOGUES = 10
HEAD = (
    "score", "±", "accepted", "length", "per pass", "TV to p", "same",
    "retrieve", "read", "own read", "draft", "refresh", "verify", "decode",
)  # fmt: skip
PARTS = ("prefill", "drafter_prefill", "draft", "refresh", "verify", "decode")
LEGEND = (
    "accepted: of the draft tokens; length: 1 + accepted / rounds with a draft; per pass: tokens\n"
    "a forward pass of the target; TV to p: how far the tokens' law is off the target's;\n"
    "same: answers that are those of plain\n"
    "seconds an answer: retrieve (index and search), read (the target's prompt), "
    "own read (the drafter's),\ndraft, refresh (retrieve and read again meanwhile), verify, and "
    "decode: all from the first token to the last"
)
Questions = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="LongBench v2, InfiniteBench or MT-Bench-101, whose last questions are asked behind "
        "all dialogues before them.",
    ),
]
TaskOption = Annotated[
    Task | None,
    typer.Option("--task", help="Of InfiniteBench; else what the name of the file says."),
]
Needles = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="In place of --questions: N documents are made up."),
]
Tokens = Annotated[int, typer.Option(metavar="L", min=1, help="Of a document that is made up.")]
KindOption = Annotated[NeedleKind, typer.Option("--kind", help="Of what is hidden.")]
Settings = Annotated[
    str | None,
    typer.Option(
        "--settings",
        metavar="LIST",
        help="Some of plain rag-only lookup rag hybrid augmented paper dynamic ensemble; else all. "
        "A number behind a colon is η, of ensemble the target's weight: augmented:5 ensemble:0.8",
    ),
]
MaxContext = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Tokens, the answer included; else as the models allow."),
]
Limit = Annotated[int | None, typer.Option("--n", metavar="N", help="Only the first N.", min=1)]
MaxNewTokens = Annotated[int | None, typer.Option(metavar="N", help="Of an answer, at most.")]
DrafterDevice = Annotated[str | None, typer.Option(metavar="DEVICE", help="Else the target's.")]
DrafterDtype = Annotated[str | None, typer.Option(metavar="DTYPE", help="Else the target's.")]
Temperature = Annotated[float | None, typer.Option(metavar="T", help="0 is greedy.")]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Of what is drawn and made up.")]
Unrelated = Annotated[
    bool,
    typer.Option("--unrelated", help="The drafter reads passages of another document: a test."),
]


def evaluate_rapid(
    context: typer.Context,
    questions: Questions = None,
    task: TaskOption = None,
    needles: Needles = None,
    tokens: Tokens = 2000,
    kind: KindOption = "single",
    named: Settings = None,
    n: Limit = None,
    target: Target = None,
    drafter: Drafter = None,
    device: Device = None,
    drafter_device: DrafterDevice = None,
    dtype: Precision = None,
    drafter_dtype: DrafterDtype = None,
    max_context: MaxContext = None,
    max_new_tokens: MaxNewTokens = None,
    draft_tokens: DraftTokens = None,
    temperature: Temperature = None,
    seed: Seed = None,
    unrelated: Unrelated = False,
    lexical_only: LexicalOnly = False,
    as_json: Json = False,
) -> None:
    """Compare ways to draft tokens over long documents: scores, acceptance and times."""
    config = settings(
        context,
        None,
        lexical_only=lexical_only,
        target=target,
        device=device,
        dtype=dtype,
        models__drafter=drafter,
        models__drafter_device=drafter_device,
        models__drafter_dtype=drafter_dtype,
        tokens__num_draft_tokens=draft_tokens,
        generation__max_new_tokens=max_new_tokens,
        generation__temperature=temperature,
        generation__seed=seed,
    )
    if (questions is None) == (needles is None):
        raise InputError("Give --questions FILE or --needles N, and not both.")
    cases = _read(questions, task, n) if questions else []
    runner, asked = _loaded(config, named)
    seeds = range(config.generation.seed, config.generation.seed + (needles or 0))
    cases += [make_needles(tokens, runner.target.tokenizer, one, kind=kind) for one in seeds]
    report = _compared(cases, runner, asked, max_context, unrelated=unrelated, quiet=as_json)
    if as_json:
        say_json(report.to_json())
    else:
        _say(report)
    say_failed(report.failed)


def _loaded(config: Config, named: str | None) -> tuple[Runner, list[Setting]]:
    """Return the models, and the settings that are compared."""
    from readahead.evaluation.rapidrun import Runner
    from readahead.evaluation.rapidsettings import DEFAULT_SETTINGS, read_settings

    named = DEFAULT_SETTINGS if named is None else named
    read_settings(named, eta=0.0)  # before models are loaded, which takes seconds
    runner, laws = Runner.load(config), config.tokens
    return runner, read_settings(named, eta=runner.eta, weight=laws.weight, tail=laws.tail)


def _compared(
    cases: Sequence[LongCase],
    runner: Runner,
    asked: Sequence[Setting],
    max_context: int | None,
    *,
    unrelated: bool,
    quiet: bool,
) -> RapidReport:
    from readahead.evaluation.rapid import evaluate_rapid as evaluate

    config = runner.config
    embedder = None if config.retrieval.mode == "lexical" else load_embedder(config.models)
    with counting("Answering", quiet=quiet) as count:
        return evaluate(
            cases,
            runner,
            asked,
            max_context_tokens=max_context,
            embedder=embedder,
            unrelated=unrelated,
            progress=count,
        )


def _read(path: Path, task: Task | None, n: int | None) -> list[LongCase]:
    """Return the first cases of a file; of dialogues the last, behind all those before."""
    cases = read_long_cases(path, task=task)
    if any(case.document for case in cases):
        return cases[:n]
    return behind_history(cases, n or min(NUM_DIALOGUES, len(cases) - 1))


def _say(report: RapidReport) -> None:
    """Print a line for each setting, what is accepted at each place, and what the words mean."""
    width = max(map(len, (*report.settings, "setting")))
    say(f"{'setting':<{width}}" + "".join(f"{title:>9}" for title in HEAD))
    for name, figures in report.settings.items():
        cells = ("" if value is None else f"{value:.3f}" for value in _cells(figures))
        say(f"{name:<{width}}" + "".join(f"{cell:>9}" for cell in cells))
    for name, figures in report.settings.items():
        if places := figures.acceptance_by_position:
            shown = " ".join(f"{share:.2f}" for share in places)
            say(f"accepted by position, {name}: {shown}")
    say(f"{len(report.rows)} questions, {len(report.failed)} cases failed")
    say(LEGEND)


def _cells(figures: Figures) -> tuple[float | None, ...]:
    """Return the figures of a line; of several metrics the first one's."""
    score = next(iter(figures.scores.values()))
    seconds = figures.seconds
    return (
        score.mean,
        score.stderr,
        figures.acceptance_rate,
        figures.mean_acceptance_length,
        figures.tokens_per_forward,
        figures.mean_gap,
        figures.identical_share,
        seconds["index_s"] + seconds["retrieval_s"],
        *(seconds[f"{part}_s"] for part in PARTS),
    )
