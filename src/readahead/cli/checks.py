"""The commands that check: doctor, and the evaluations on labelled questions."""

from __future__ import annotations

import platform
from collections.abc import Callable
from importlib import metadata
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
from readahead.cli.output import counting, say, say_json
from readahead.errors import ReadaheadError
from readahead.knowledge import KnowledgeBase
from readahead.trace import Trace

LIBRARIES = ("torch", "transformers", "apsw", "faiss-cpu", "sentence-transformers", "numpy")
FAULT = 3

evaluations = typer.Typer(
    help="Measure retrieval and answers on your own labelled questions.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Questions = Annotated[
    Path, typer.Option(help="JSON Lines of question, answers and passage, or SQuAD's JSON.")
]
Limit = Annotated[int | None, typer.Option("--n", help="Only the first n questions.", min=1)]


def doctor(
    context: typer.Context,
    kb: Kb = None,
    target: Target = None,
    device: Device = None,
    dtype: Precision = None,
    as_json: Json = False,
) -> None:
    """Check versions, models, the device and the knowledge base, and time a short run."""
    config = settings(
        context,
        kb,
        models__target=target,
        models__device=device,
        models__dtype=dtype,
        generation__max_new_tokens=8,
    )
    checks: dict[str, Callable[[], dict[str, object]]] = {
        "versions": _versions,
        "models": _models,
        "store": lambda: _store(KnowledgeBase.open(config, create=False)),
        "smoke": lambda: _smoke(KnowledgeBase.open(config, create=False)),
    }
    found: dict[str, dict[str, object]] = {}
    for name, check in checks.items():
        try:
            found[name] = {"ok": True, **check()}
        except ReadaheadError as error:
            found[name] = {"ok": False, "problem": str(error)}
        if not as_json:
            status = "ok  " if found[name]["ok"] else "FAIL"
            details = ", ".join(f"{k} {v}" for k, v in found[name].items() if k != "ok")
            say(f"{status} {name}: {details}")
    healthy = all(result["ok"] for result in found.values())
    if as_json:
        say_json({"ok": healthy, **found})
    if not healthy:
        raise typer.Exit(FAULT)


def _versions() -> dict[str, object]:
    versions: dict[str, object] = {"python": platform.python_version()}
    for library in ("readahead", *LIBRARIES):
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            versions[library] = "not installed"
    return versions


def _models() -> dict[str, object]:
    from readahead.lm.weights import list_local

    return {model.name: f"{model.num_bytes / 1e6:.0f} MB" for model in list_local()}


def _store(knowledge: KnowledgeBase) -> dict[str, object]:
    with knowledge:
        problems = knowledge.store.check()
        if problems:
            raise _Unsound(" ".join(problems), remedy="Restore a copy, or add the files anew.")
        return {
            "documents": len(knowledge.store.documents()),
            "passages": len(knowledge.store.live_ids()),
        }


class _Unsound(ReadaheadError):
    """The store holds what it should not."""


def _smoke(knowledge: KnowledgeBase) -> dict[str, object]:
    from readahead.engine import Engine

    with knowledge:
        clock = Trace("doctor")
        engine = Engine(knowledge)
        with clock.span("load"):
            target = engine.target
        answer = engine.ask("What is this about?")
    return {
        "target": target.name,
        "device": str(target.device),
        "dtype": str(target.dtype).removeprefix("torch."),
        "load_s": round(clock.total_s("load"), 2),
        "ttft_s": round(answer.timing.ttft_s, 2),
        "tpot_s": round(answer.timing.tpot_s, 3),
    }


@evaluations.command("retrieval")
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

    asked = read_questions(questions)[:n]
    config = settings(context, kb, lexical_only=lexical_only)
    with (
        KnowledgeBase.open(config, create=False) as knowledge,
        counting("Searching", quiet=as_json) as count,
    ):
        report = evaluate(asked, knowledge.retriever, progress=count)
    if as_json:
        say_json(report.to_json())
        return
    for name, value in report.metrics.items():
        say(f"{name:<10} {value:.3f}")
    say(f"{report.num_questions} questions, {report.num_skipped} skipped")


@evaluations.command("answers")
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
    """Report exact match, F1 and how many answers contain the right one."""
    from readahead.engine import Engine
    from readahead.evaluation.answers import evaluate_answers as evaluate
    from readahead.evaluation.datasets import read_questions

    asked = read_questions(questions)[:n]
    config = settings(
        context,
        kb,
        lexical_only=lexical_only,
        retrieval__k=k,
        models__target=target,
        models__device=device,
        models__dtype=dtype,
    )
    with (
        KnowledgeBase.open(config, create=False) as knowledge,
        counting("Answering", quiet=as_json) as count,
    ):
        report = evaluate(asked, Engine(knowledge).ask, progress=count)
    if as_json:
        say_json(report.to_json())
        return
    for name in ("exact_match", "f1", "contains", "abstained", "cited", "ttft_p50_s", "e2e_p50_s"):
        say(f"{name:<12} {getattr(report, name):.3f}")
    say(f"{report.num_questions} questions")
