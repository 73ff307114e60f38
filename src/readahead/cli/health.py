"""The command that checks whether everything works here."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import typer

from readahead.cli.options import Device, Json, Kb, LexicalOnly, Precision, Target, settings
from readahead.cli.output import one_line, say, say_json
from readahead.config import Config
from readahead.errors import BackendError, ReadaheadError, StoreError
from readahead.knowledge import KnowledgeBase
from readahead.retrieval.store import FILE_NAME
from readahead.trace import Trace

LIBRARIES = ("readahead", "torch", "transformers", "apsw", "numpy")
OPTIONAL = ("faiss-cpu", "sentence-transformers", "pypdf", "pdfplumber", "python-docx", "gguf")
FAULT = 3
SAMPLE = b"# Tides\n\nThe tide turns about four times a day.\n"
QUESTION = "How often does the tide turn?"


def doctor(
    context: typer.Context,
    kb: Kb = None,
    target: Target = None,
    device: Device = None,
    dtype: Precision = None,
    lexical_only: LexicalOnly = False,
    as_json: Json = False,
) -> None:
    """Check versions, device, models and store; time a short run."""
    config = settings(
        context,
        kb,
        lexical_only=lexical_only,
        target=target,
        device=device,
        dtype=dtype,
        generation__max_new_tokens=8,
    )
    checks: dict[str, Callable[[Config], dict[str, object]]] = {
        "versions": _versions,
        "device": _device,
        "models": _models,
        "store": _store,
        "smoke": _smoke,
    }
    found = {}
    for name, check in checks.items():
        found[name] = _outcome(check, config)
        if not as_json:
            status = "ok  " if found[name]["ok"] else "FAIL"
            say(f"{status}  {name:<8}  {one_line(_details(found[name]))}")
    healthy = all(result["ok"] for result in found.values())
    if as_json:
        say_json({"ok": healthy, **found})
    if not healthy:
        raise typer.Exit(FAULT)


def _outcome(check: Callable[[Config], dict[str, object]], config: Config) -> dict[str, object]:
    """Return what a check found; whatever it raises is a finding."""
    try:
        return {"ok": True, **check(config)}
    except ReadaheadError as error:
        return {"ok": False, "problem": str(error)}
    except Exception as error:
        return {"ok": False, "problem": f"{type(error).__name__}: {error}"}


def _details(outcome: dict[str, object]) -> str:
    if "problem" in outcome:
        return str(outcome["problem"])
    return ", ".join(f"{name} {value}" for name, value in outcome.items() if name != "ok")


def _versions(config: Config) -> dict[str, object]:
    versions: dict[str, object] = {"python": platform.python_version()}
    for library in (*LIBRARIES, *OPTIONAL):
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            versions[library] = "not installed"
    return versions


def _device(config: Config) -> dict[str, object]:
    from readahead.lm.model import pick_device, pick_dtype

    device = pick_device(config.models.device)
    dtype = pick_dtype(config.models.dtype, device)
    return {"device": str(device), "dtype": str(dtype).split(".")[-1], "cores": os.cpu_count()}


def _models(config: Config) -> dict[str, object]:
    from readahead.lm.weights import resolve, verify

    names = [config.models.target]
    if config.retrieval.mode != "lexical":
        names.append(config.models.embedder)
    found: dict[str, object] = {}
    for name in names:
        model = resolve(name)
        if model.sha256:  # a folder used in place has none
            verify(model)
        found[model.name] = f"{model.num_bytes / 1e6:.0f} MB"
    return found


def _store(config: Config) -> dict[str, object]:
    if not (config.kb / FILE_NAME).exists():
        return {"folder": str(config.kb), "documents": 0, "passages": 0}
    with KnowledgeBase.open(config, create=False) as knowledge:
        if problems := knowledge.store.check():
            raise StoreError(" ".join(problems), remedy="Restore a copy, or add the files anew.")
        knowledge.search(QUESTION, 1)  # refused if it was embedded with another model
        return {
            "folder": str(config.kb),
            "documents": len(knowledge.store.documents()),
            "passages": len(knowledge.store.live_ids()),
        }


def _smoke(config: Config) -> dict[str, object]:
    """Add one document to a knowledge base of its own and ask about it."""
    from readahead.engine import Engine

    clock = Trace("doctor")
    with (
        tempfile.TemporaryDirectory() as folder,
        Engine.open(config.model_copy(update={"kb": Path(folder)})) as engine,
    ):
        with clock.span("add"):
            report = engine.knowledge.add(["-"], stdin=SAMPLE, stdin_name="tides.md")
        if report.failed:
            raise BackendError(f"The sample cannot be read: {report.failed[0].reason}.")
        with clock.span("load"):
            target = engine.target
        answer = engine.ask(QUESTION)
    return {
        "target": target.name,
        "add_s": round(clock.total_s("add"), 2),
        "load_s": round(clock.total_s("load"), 2),
        "ttft_s": round(answer.timing.ttft_s, 2),
        "tpot_s": round(answer.timing.tpot_s, 3),
    }
