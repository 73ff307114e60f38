"""No function is longer than a screen."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAX_LINES = 60
FOLDERS = ("src", "benchmarks", "scripts", "examples", "tests")


def too_long(source: str) -> list[str]:
    """Return the names of functions that have more lines than they may."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= MAX_LINES
    ]


def test_one_line_too_many_is_seen() -> None:
    assert too_long("def f():\n" + "    g()\n" * 59) == []
    assert too_long("def f():\n" + "    g()\n" * 60) == ["f"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_functions_are_short(folder: str) -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in (ROOT / folder).rglob("*.py")
        if (names := too_long(path.read_text(encoding="utf-8")))
    }
    assert found == {}
