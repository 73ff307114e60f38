"""The command that checks the promise: verify."""

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
    note_words_only,
    settings,
)
from readahead.cli.output import DONE_WITH_FAILURES, counting, note, one_line, say, say_json
from readahead.errors import InputError
from readahead.knowledge import KnowledgeBase

Questions = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="One question a line, or JSON Lines with a question each; else those asked last.",
    ),
]
DEFAULT_N = 5
SHOWN_CELLS = 80


def verify(
    context: typer.Context,
    kb: Kb = None,
    questions: Questions = None,
    n: Annotated[int, typer.Option("--n", metavar="N", help="How many.", min=1)] = DEFAULT_N,
    k: TopK = None,
    target: Target = None,
    device: Device = None,
    dtype: Precision = None,
    lexical_only: LexicalOnly = False,
    as_json: Json = False,
) -> None:
    """Type questions ahead, and compare each answer with a cold run over the same prompt."""
    config = settings(
        context, kb, lexical_only=lexical_only, k=k, target=target, device=device, dtype=dtype
    )
    with (
        KnowledgeBase.open(config, create=False) as knowledge,
        counting("Comparing", quiet=as_json) as count,
    ):
        note_words_only(knowledge)
        asked = (_read(questions) if questions else _asked_last(knowledge))[:n]
        from readahead.engine import Engine  # takes seconds: after what may be wrong
        from readahead.evaluation.lossless import verify as compare

        engine = Engine(knowledge).load()
        report = compare(engine, asked, progress=count)
        is_exact = str(engine.target.dtype) == "torch.float32"
    if as_json:
        say_json(report.to_json())
    else:
        say(f"{report.num_identical} of {report.num_questions} answers identical")
        say(f"{report.num_read_ahead} of them read ahead")
    for question in report.changed:
        note(f"  changed: {one_line(question, SHOWN_CELLS)}")
    for question, reason in report.failed.items():
        note(f"  failed: {one_line(question, SHOWN_CELLS)}: {one_line(reason)}")
    if report.changed and not is_exact:
        note("only float32 promises identical answers: rounding decides between near equals here")
    if report.num_identical < report.num_questions:
        raise typer.Exit(DONE_WITH_FAILURES)


def _asked_last(knowledge: KnowledgeBase) -> list[str]:
    """Return the questions of the last traces, each once.

    Raises:
        InputError: There are none.
    """
    traces = knowledge.store.traces()
    attributes = [trace["attributes"] for trace in traces]
    asked = [str(a["question"]) for a in attributes if isinstance(a, dict) and a.get("question")]
    if not asked:
        raise InputError(
            "No question was asked yet.", remedy="Ask some, or name a file with --questions."
        )
    return list(dict.fromkeys(asked))


def _read(file: Path) -> list[str]:
    """Return the questions of a file.

    Raises:
        InputError: It cannot be read, or holds none.
    """
    from readahead.evaluation.datasets import read_questions

    if file.suffix in {".json", ".jsonl"}:
        return [question.text for question in read_questions(file)]
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}.", remedy="Give a text file.") from None
    questions = [line.strip() for line in lines if line.strip()]
    if not questions:
        raise InputError(f"{file} holds no question.", remedy="Write one a line.")
    return questions
