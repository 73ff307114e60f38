"""The commands that measure on labelled questions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from readahead.cli.options import (
    Device,
    Json,
    Kb,
    LexicalOnly,
    Precision,
    Target,
    TopK,
    settings,
)
from readahead.cli.output import DONE_WITH_FAILURES, counting, note, one_line, say, say_json
from readahead.knowledge import KnowledgeBase

app = typer.Typer(
    help="Measure retrieval and answers on labelled questions.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Questions = Annotated[
    Path,
    typer.Option(
        metavar="FILE",
        help="SQuAD, or JSON Lines of question, answers and passage: the metadata id of the "
        "document that is right (the id of a line, where JSON Lines were added).",
    ),
]
Claims = Annotated[
    Path,
    typer.Option(
        metavar="FILE",
        help="JSON Lines of claim, label (supported, partially_supported, not_supported) and "
        "evidence (a list of sentences), as in WiCE.",
    ),
]
Limit = Annotated[int | None, typer.Option("--n", metavar="N", help="Only the first N.", min=1)]
SHOWN_CELLS = 80
ANSWER_FIGURES = ("exact_match", "f1", "contains", "abstained", "cited", "ttft_p50_s", "e2e_p50_s")


@app.command("retrieval")
def evaluate_retrieval(
    context: typer.Context,
    questions: Questions,
    kb: Kb = None,
    n: Limit = None,
    lexical_only: LexicalOnly = False,
    as_json: Json = False,
) -> None:
    """Report recall at 1, 3 and 10 and the mean reciprocal rank."""
    from readahead.evaluation.datasets import read_questions
    from readahead.evaluation.retrieval import evaluate_retrieval as evaluate

    config = settings(context, kb, lexical_only=lexical_only)
    asked = read_questions(questions)[:n]
    with (
        KnowledgeBase.open(config, create=False) as knowledge,
        counting("Searching", quiet=as_json) as count,
    ):
        report = evaluate(asked, knowledge.retriever, progress=count)
    if not report.num_by_passage and any(question.passage for question in asked):
        note(
            "judged by the answers' text: the questions name passages, but the documents found "
            "have no metadata id"
        )
    if as_json:
        say_json(report.to_json())
        return
    for name, value in report.metrics.items():
        say(f"{name:<10} {value:.3f}")
    say(f"{report.num_questions} questions, {report.num_skipped} skipped")


@app.command("answers")
def evaluate_answers(
    context: typer.Context,
    questions: Questions,
    kb: Kb = None,
    n: Limit = None,
    k: TopK = None,
    target: Target = None,
    device: Device = None,
    dtype: Precision = None,
    lexical_only: LexicalOnly = False,
    as_json: Json = False,
) -> None:
    """Report exact match, F1 and how many hold a right answer."""
    from readahead.evaluation.answers import evaluate_answers as evaluate
    from readahead.evaluation.datasets import read_questions

    config = settings(
        context, kb, lexical_only=lexical_only, k=k, target=target, device=device, dtype=dtype
    )
    asked = read_questions(questions)[:n]
    with (
        KnowledgeBase.open(config, create=False) as knowledge,
        counting("Answering", quiet=as_json) as count,
    ):
        from readahead.engine import Engine  # takes seconds: after what may be wrong

        report = evaluate(asked, Engine(knowledge).load().ask, progress=count)
    if as_json:
        say_json(report.to_json())
    else:
        for name in ANSWER_FIGURES:
            say(f"{name:<12} {getattr(report, name):.3f}")
        say(
            f"{report.num_questions} questions, {report.num_unanswerable} of them without an "
            f"answer, {len(report.failed)} failed"
        )
    for failure in report.failed:
        note(f"  failed: {one_line(failure.question, SHOWN_CELLS)}: {one_line(failure.reason)}")
    if report.failed:
        raise typer.Exit(DONE_WITH_FAILURES)


@app.command("evidence")
def evaluate_evidence(claims: Claims, n: Limit = None, as_json: Json = False) -> None:
    """Report how often claims are told rightly as supported or not."""
    from readahead.evaluation.evidence import evaluate_evidence as evaluate
    from readahead.evaluation.evidence import read_claims

    labelled = read_claims(claims)[:n]
    with counting("Checking", quiet=as_json) as count:
        report = evaluate(labelled, progress=count)
    if as_json:
        say_json(report.to_json())
        return
    say(f"balanced_accuracy  {report.balanced_accuracy:.3f}")
    say(f"edits_caught       {report.edits_caught:.3f}")
    say(f"false_alarms       {report.false_alarms:.3f}")
    say(f"{'':<18} {'found supported':>15} {'found otherwise':>15}")
    say(f"{'supported':<18} {report.true_positives:>15} {report.false_negatives:>15}")
    say(f"{'otherwise':<18} {report.false_positives:>15} {report.true_negatives:>15}")
    say(
        f"{report.n} claims, {report.base_rate:.3f} of them supported; "
        f"{report.num_edits} sentences edited"
    )
