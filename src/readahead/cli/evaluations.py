"""The commands that measure on labelled questions."""

from __future__ import annotations

from pathlib import Path
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
    settings,
)
from readahead.cli.output import (
    counting,
    note,
    say,
    say_failed,
    say_json,
    working,
)
from readahead.cli.rapidevaluation import evaluate_rapid
from readahead.knowledge import KnowledgeBase

if TYPE_CHECKING:
    from readahead.evaluation.drafts import DraftsReport

app = typer.Typer(
    help="Measure retrieval, answers and evidence on labelled questions.",
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
Cases = Annotated[
    Path,
    typer.Option(
        "--questions",
        metavar="FILE",
        help="JSON Lines of question, documents, gold_answers and wrong_answers, as in RAMDocs; or "
        "questions as for eval answers, whose passages are retrieved.",
    ),
]
Passages = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Retrieve from this file, not from the knowledge base: it is added "
        "to a temporary one.",
    ),
]
Limit = Annotated[int | None, typer.Option("--n", metavar="N", help="Only the first N.", min=1)]
DRAFTS_FIGURES = (
    "strict",
    "clean",
    "contains_gold",
    "names_wrong",
    "abstained",
    "seconds_mean",
    "seconds_p95",
)
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
    say_failed(report.failed)


@app.command("evidence")
def evaluate_evidence(claims: Claims, n: Limit = None, as_json: Json = False) -> None:
    """Report how often claims are told rightly as supported or not."""
    from readahead.config import load_config
    from readahead.evaluation.evidence import evaluate_evidence as evaluate
    from readahead.evaluation.evidence import read_claims

    labelled = read_claims(claims)[:n]
    config = load_config()
    judge = None
    if name := config.evidence.judge:
        from readahead.lm.entail import Entailment  # takes seconds

        judge = Entailment.load(name, device=config.models.device)
    with counting("Checking", quiet=as_json) as count:
        report = evaluate(labelled, judge=judge, progress=count)
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
    if report.num_edits:
        say(
            "edits_caught: of sentences of the evidence with one number, date or unit changed, "
            "those found out\nfalse_alarms: of the same sentences unchanged, those blamed all the "
            "same"
        )


app.command("rapid")(evaluate_rapid)


@app.command("drafts")
def evaluate_drafts(
    context: typer.Context,
    questions: Cases,
    passages: Passages = None,
    kb: Kb = None,
    n: Limit = None,
    target: Target = None,
    drafter: Drafter = None,
    device: Device = None,
    dtype: Precision = None,
    lexical_only: LexicalOnly = False,
    as_json: Json = False,
) -> None:
    """Compare answers chosen among drafts with plain ones, over the same passages."""
    from readahead.evaluation.ramdocs import find_passages, read_cases

    config = settings(
        context,
        kb,
        lexical_only=lexical_only,
        target=target,
        device=device,
        dtype=dtype,
        models__drafter=drafter,
    )
    cases = read_cases(questions)[:n]
    with working("Retrieving"):
        cases = find_passages(cases, config, passages)
    from readahead.evaluation.contest import PLAIN, PRESETS, Contest
    from readahead.evaluation.drafts import evaluate_drafts as evaluate

    contest = Contest.load(config, calibrated=True)
    with counting("Answering", quiet=as_json) as count:
        report = evaluate(cases, contest, (*PRESETS, PLAIN), progress=count)
    if as_json:
        say_json(report.to_json())
    else:
        _say_drafts(report)
    say_failed(report.failed)


def _say_drafts(report: DraftsReport) -> None:
    """Print one line for each figure, one column for each system."""
    say(f"{'':<14}" + "".join(f"{name:>16}" for name in report.systems))
    for name in DRAFTS_FIGURES:
        values = (getattr(figures, name) for figures in report.systems.values())
        say(f"{name:<14}" + "".join(f"{value:>16.3f}" for value in values))
    ratios = [f"{name} takes {ratio:.2f} of plain" for name, ratio in report.time_ratio.items()]
    say("; ".join([f"{report.num_questions} questions, {len(report.failed)} failed", *ratios]))
