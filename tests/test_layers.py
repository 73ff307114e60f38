"""Imports run one way: each package may import only what stands to its right in the design."""

import ast
from pathlib import Path

import pytest

import readahead

ROOT = Path(readahead.__file__).parent
BASE = {"types", "errors", "config", "trace", "text", "logistic"}
MIDDLE = {"evidence", "retrieval", "lm", "documents"}
ALLOWED: dict[str, set[str]] = {
    **{name: BASE for name in BASE | MIDDLE},
    "citing": BASE | {"evidence"},
    "speculation": BASE | MIDDLE,
    "knowledge": BASE | MIDDLE,
    "reply": BASE | MIDDLE | {"citing"},
    "turns": {"errors", "trace"},
    "loading": BASE | MIDDLE | {"turns", "knowledge"},
    "bare": BASE | MIDDLE | {"turns", "loading"},
    "plain": BASE | MIDDLE | {"reply", "turns", "knowledge", "speculation"},
    "drafted": BASE | MIDDLE | {"reply", "turns", "knowledge", "speculation"},
    "retrieved": BASE | MIDDLE | {"knowledge", "speculation"},
    "rapid": BASE | MIDDLE | {"reply", "turns", "plain", "retrieved", "knowledge", "speculation"},
    "engine": BASE
    | MIDDLE
    | {"reply", "turns", "loading", "plain", "drafted", "rapid", "knowledge", "speculation"},
    "session": BASE
    | MIDDLE
    | {"reply", "turns", "plain", "rapid", "knowledge", "speculation", "engine"},
    "evaluation": BASE
    | MIDDLE
    | {"plain", "drafted", "knowledge", "speculation", "engine", "session"},
    "server": BASE
    | MIDDLE
    | {"bare", "plain", "rapid", "reply", "turns", "loading"}
    | {"knowledge", "speculation", "engine", "session"},
    "cli": BASE | MIDDLE | {"knowledge", "engine", "session", "evaluation", "server"},
    "__main__": {"cli"},
    "__init__": BASE | MIDDLE | {"knowledge", "engine", "session"},
}
# Heavy libraries have one home each.
HOMES = {
    "transformers": "lm",
    "faiss": "retrieval",
    "sentence_transformers": "retrieval",
    "fastapi": "server",
    "uvicorn": "server",
    "prometheus_client": "server",
    "opentelemetry": "server",
}
MODULES = sorted(ROOT.rglob("*.py"))


def imported_names(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the layer"
            module = node.module or ""
            names |= {f"{module}.{alias.name}" for alias in node.names}
    return names


def layer(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def violations(home: str, names: set[str], kind: str | None = None) -> list[str]:
    found = []
    for name in sorted(names):
        top, _, rest = name.partition(".")
        if top == "readahead":
            part = rest.split(".")[0]
            is_package_attribute = part == "__version__"
            if not is_package_attribute and part != home and part not in ALLOWED[home]:
                found.append(name)
            other_kind = name.split(".")[2:3] if part == "speculation" else []
            if kind and other_kind and other_kind[0] != kind:
                found.append(name)
        elif HOMES.get(top, home) != home:
            found.append(name)
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_run_one_way(path: Path) -> None:
    parts = path.relative_to(ROOT).parts
    kind = parts[1] if parts[0] == "speculation" and len(parts) > 2 else None
    assert violations(layer(path), imported_names(path), kind) == []


def test_a_violation_is_seen() -> None:
    assert violations("documents", {"readahead.retrieval.store"}) == ["readahead.retrieval.store"]
    assert violations("engine", {"transformers.AutoModel"}) == ["transformers.AutoModel"]
    assert violations("speculation", {"readahead.speculation.tokens.rapid"}, "answers")
