import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


def run(script: Path, cwd: Path, *arguments: str) -> str:
    """Run an example as a user would, with the small target."""
    done = subprocess.run(
        [sys.executable, script, *arguments],
        cwd=cwd,
        env={**os.environ, "READAHEAD_MODELS__TARGET": "smollm2-135m"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.name)
def test_an_example_fits_on_a_screen(script: Path) -> None:
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 60


@pytest.mark.real
def test_the_demo_answers_three_questions(tmp_path: Path) -> None:
    out = run(EXAMPLES / "demo.py", tmp_path)
    assert "6 files added" in out
    assert out.count("first token") == 4  # once above the table
    assert "  And who did the work?\n" in out
    assert "readahead --kb .demo serve\n" in out
    assert out.endswith("http://127.0.0.1:8321\n")


@pytest.mark.real
def test_ask_cites_the_documents(tmp_path: Path) -> None:
    out = run(
        EXAMPLES / "ask.py", tmp_path, str(EXAMPLES / "documents"), "Who founded the observatory?"
    )
    assert out.strip()
    assert (tmp_path / "my-knowledge" / "knowledge.db").is_file()


@pytest.mark.real
def test_what_is_typed_ahead_is_there_when_enter_is_struck(tmp_path: Path) -> None:
    question = "How much did the refurbishment of the dome cost?"
    out = run(EXAMPLES / "typed_ahead.py", tmp_path, str(EXAMPLES / "documents"), question)
    read_ahead = re.search(r"read ahead: (\d+) tokens", out)
    assert read_ahead is not None
    assert int(read_ahead[1]) > 0
    assert "plainly after" in out


@pytest.mark.real
def test_drafts_show_what_was_drafted_and_where_it_stands(tmp_path: Path) -> None:
    out = run(EXAMPLES / "drafted.py", tmp_path)
    assert out.startswith("? When was the lamp of Skerry first lit?\n")
    assert out.count("  draft from ") == 4
    assert re.search(r"^  0\.\d\d  .*1846.*\(.+\)$", out, re.MULTILINE)
    assert "register.txt: “The register says that the lamp of Skerry was first lit in 1846.”" in out


@pytest.mark.real
def test_rapid_decodes_several_tokens_a_step(tmp_path: Path) -> None:
    out = run(EXAMPLES / "rapid.py", tmp_path)
    assert out.startswith("? How is the Marlowe refractor started up?\n")
    assert re.search(r"^  [1-9]\.\d\d tokens a step$", out, re.MULTILINE)
    assert "  the same tokens: True\n" in out


@pytest.mark.real
def test_the_server_is_asked_by_the_official_client(tmp_path: Path) -> None:
    question = "How much did the refurbishment of the dome cost?"
    out = run(EXAMPLES / "server.py", tmp_path, str(EXAMPLES / "documents"), question)
    assert out.count("  first token after ") == 2  # plainly, and typed ahead
    assert re.search(r"^  \[1\] .+: “.+”$", out, re.MULTILINE)
