"""The commands of speculation on tokens: rapid advise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from readahead.cli.options import Device, Json, Precision, Target, settings
from readahead.cli.output import counting, is_terminal, note, say, say_json, wrapped

if TYPE_CHECKING:
    from readahead.evaluation.verdict import Advice, Measured, Trial

app = typer.Typer(
    help="Speculate on tokens: ask with --method rapid; see here whether it pays.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
DEFAULT_LENGTHS = (500, 2000)
TokenDrafter = Annotated[
    str | None,
    typer.Option(
        "--drafter",
        metavar="MODEL",
        help="What drafts tokens, of the target's family; else the target, from less context.",
    ),
]
DraftPrecision = Annotated[
    str | None,
    typer.Option("--draft-dtype", metavar="DTYPE", help="Of the drafter; else that of the target."),
]
Lengths = Annotated[
    list[int] | None,
    typer.Option(
        "--context",
        metavar="N",
        min=1,
        help=f"Tokens of the document; repeatable. By default "
        f"{' and '.join(map(str, DEFAULT_LENGTHS))}.",
    ),
]
NewTokens = Annotated[
    int, typer.Option(metavar="N", min=2, help="Of the answer that is decoded each time.")
]


@app.command()
def advise(
    context: typer.Context,
    target: Target = None,
    drafter: TokenDrafter = None,
    lengths: Lengths = None,
    device: Device = None,
    dtype: Precision = None,
    draft_dtype: DraftPrecision = None,
    max_new_tokens: NewTokens = 64,
    as_json: Json = False,
) -> None:
    """Predict whether drafting tokens pays for two models, and decode to see if that holds."""
    config = settings(
        context,
        None,
        target=target,
        device=device,
        dtype=dtype,
        models__drafter=drafter,
        models__drafter_dtype=draft_dtype,
    )
    with counting("Loading the models", quiet=as_json) as count:
        from readahead.evaluation.advice import advise_on  # takes seconds

        advice = advise_on(
            config,
            lengths=lengths or DEFAULT_LENGTHS,
            max_new_tokens=max_new_tokens,
            progress=count if is_terminal() or as_json else _told,
        )
    if as_json:
        say_json(advice.to_json())
    else:
        _say(advice)


def _told(done: int, total: int, label: str) -> None:
    """Tell who has no terminal, and so no bar, what is being done."""
    note(f"{label} ({done + 1} of {total})")


def _say(advice: Advice) -> None:
    say(f"target {advice.target}, drafter {advice.drafter}")
    for one in advice.lengths:
        say()
        _say_costs(one)
        _say_trials(one.trials)
    say()
    for sentence in (*advice.sentences, *(f"Warning: {one}" for one in advice.warnings)):
        for line in wrapped(sentence, ""):
            say(line)


def _say_costs(one: Measured) -> None:
    steps = " · ".join(f"{k}: {1000 * seconds:.1f}" for k, seconds in one.verify_s.items())
    say(f"{one.num_context_tokens} tokens of context, {one.num_drafter_tokens} for the drafter")
    say(f"  target, ms for a step of … tokens   {steps}")
    say(f"  drafter, ms for one token           {1000 * one.draft_s:.1f} (c = {one.costs.c:.2f})")
    written = f"({one.trials[0].num_new_tokens} tokens written each time)"
    say(f"  plain decoding, ms a token          {1000 * one.token_s:.1f} {written}")


def _say_trials(trials: tuple[Trial, ...]) -> None:
    head = f"  {'':<8} {'accepted':>8} {'drafting':>8} {'tokens/forward':>16} {'speed-up':>16}"
    say(f"{head} {'best γ':>6} {'gives':>6} {'pays from':>9} {'same':>5}")
    say(f"  {'':<8} {'β':>8} {'rounds':>8} {'told / found':>16} {'told / found':>16}")
    for trial in trials:
        forward = f"{trial.predicted_tokens_per_forward:.2f} / {trial.tokens_per_forward:.2f}"
        speed_up = f"{trial.predicted_speed_up:.2f} / {trial.speed_up:.2f}"
        needed = "never" if trial.break_even is None else f"{trial.break_even:.2f}"
        say(
            f"  {trial.way:<8} {trial.acceptance:>8.2f} {trial.share:>8.2f} {forward:>16} "
            f"{speed_up:>16} {trial.best_gamma:>6} {trial.best_speed_up:>6.2f} {needed:>9} "
            f"{'yes' if trial.is_identical else 'no':>5}"
        )
