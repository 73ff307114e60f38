"""What the documents say about the code is true of the code."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import readahead

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
MODULES = {path.stem for path in (ROOT / "src").rglob("*.py")} - {"__init__"}


def test_every_module_has_its_place_in_the_architecture() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+)`", text))
    assert MODULES - named == set()
    assert len(text.splitlines()) <= 120


def test_every_reference_key_resolves() -> None:
    listed = set(
        re.findall(r"^\| (\w+\d\d) \|", (DOCS / "references.md").read_text(), re.MULTILINE)
    )
    used = {
        key
        for path in (ROOT / "src").rglob("*.py")
        for key in re.findall(r"\[([A-Z][a-z]+\d\d)[,\]]", path.read_text(encoding="utf-8"))
    }
    assert used
    assert used - listed == set()


def test_the_changelog_has_this_version() -> None:
    assert f"## [{readahead.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [*ROOT.glob("*.md"), *DOCS.glob("*.md")], ids=lambda p: p.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


def test_the_figures_of_the_readme_are_those_of_the_benchmarks() -> None:
    script = ROOT / "scripts" / "make_readme.py"
    subprocess.run([sys.executable, script, "--check"], check=True)
