"""The command that fits the probability of drafts to a user's own questions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from readahead.cli.options import (
    Device,
    Drafter,
    Json,
    Kb,
    LexicalOnly,
    Precision,
    Preset,
    Target,
    note_words_only,
    settings,
)
from readahead.cli.output import (
    counting,
    one_line,
    say,
    say_failed,
    say_json,
)
from readahead.errors import InputError
from readahead.knowledge import KnowledgeBase

if TYPE_CHECKING:
    from readahead.evaluation.calibrate import CalibrationReport

Questions = Annotated[
    Path,
    typer.Option(
        metavar="FILE", help="SQuAD, or JSON Lines of question and answers, as for eval answers."
    ),
]
Limit = Annotated[int | None, typer.Option("--n", metavar="N", help="Only the first N.", min=1)]
Kind = Annotated[
    Literal["platt", "isotonic"] | None,
    typer.Option(help="Of the map; by default platt, and isotonic from 200 questions on."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Where the map goes; by default into the knowledge base, which uses it then.",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(metavar="FILE.svg", help="Draw the curve; needs matplotlib."),
]


def calibrate(
    context: typer.Context,
    questions: Questions,
    kb: Kb = None,
    n: Limit = None,
    kind: Kind = None,
    out: Out = None,
    plot: Plot = None,
    preset: Preset = None,
    target: Target = None,
    drafter: Drafter = None,
    device: Device = None,
    dtype: Precision = None,
    lexical_only: LexicalOnly = False,
    as_json: Json = False,
) -> None:
    """Fit how probable a drafted answer is to be right, on your own labelled questions."""
    config = settings(
        context,
        kb,
        lexical_only=lexical_only,
        target=target,
        device=device,
        dtype=dtype,
        models__drafter=drafter,
        drafts__preset=preset,
    )
    for path in (out, plot):
        _check_folder(path)
    from readahead.evaluation.datasets import read_questions

    asked = read_questions(questions)[:n]
    with KnowledgeBase.open(config, create=False) as knowledge:
        note_words_only(knowledge)
        from readahead.engine import Engine  # takes seconds: after what may be wrong
        from readahead.evaluation import calibrate as evaluation
        from readahead.evaluation.curve import check_plotting
        from readahead.evaluation.curve import plot as draw

        evaluation.check_enough(len(asked), "questions were given")
        if plot is not None:
            check_plotting()
        with counting("Answering", quiet=as_json) as count:
            report = evaluation.calibrate(
                asked,
                evaluation.drafts_alone(Engine(knowledge).load("drafts")),
                kind=kind,
                seed=config.drafts.seed,
                progress=count,
            )
        path = out or evaluation.path_in(config)
        record = {**report.calibration.to_json(), "preset": config.drafts.preset}
        evaluation.write_json(path, record)
        if plot is not None:
            draw(report.curve, plot)
    if as_json:
        say_json({**report.to_json(), "path": str(path)})
    else:
        _say_report(report, path)
    say_failed(report.failed)


def _check_folder(path: Path | None) -> None:
    """Raise InputError if a file cannot be written for want of its folder; hours may be lost."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise InputError(
            f"{path} cannot be written.", remedy="Name a file in a folder that exists."
        )


def _say_report(report: CalibrationReport, path: Path) -> None:
    from readahead.evaluation.curve import rows

    say("coverage  threshold  accuracy")
    for point in rows(report.curve):
        say(f"{point.coverage:>8.2f}  {point.threshold:>9.2f}  {point.accuracy:>8.3f}")
    say()
    say(f"{'':<18} {'before':>7} {'after':>7}")
    for name in ("calibration_error", "brier"):
        before, after = getattr(report.before, name), getattr(report.after, name)
        say(f"{name:<18} {before:>7.3f} {after:>7.3f}")
    say(f"area under the risk {report.area:.3f}")
    say(
        f"{report.num_questions} questions, {len(report.labelled)} got an answer, "
        f"{report.accuracy:.3f} of these are right; {report.kind}, cross-validated"
    )
    say(one_line(f"written to {path}"))
