import time
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.cli.conftest import Cli


@pytest.fixture
def asked(cli: Cli, kb: Path, target: Path) -> list[str]:
    """Return the ids of two requests, the last first."""
    options = ("--json", "--target", target, "--max-new-tokens", "4")
    questions = ("What burns\noil? " + "x" * 200, "What pulls the water?")
    return [cli("ask", q, *options).json["trace_id"] for q in questions][::-1]


def test_the_last_requests_are_listed(cli: Cli, asked: list[str]) -> None:
    outcome = cli("trace")
    rows = outcome.out.splitlines()
    assert (outcome.status, outcome.err, len(rows)) == (0, "", 2)
    assert [row.split()[:2] for row in rows] == [[id, "ask"] for id in asked]
    assert time.strftime("%Y-%m-%d") in rows[0]
    assert " s  What pulls the water?" in rows[0]
    assert rows[1].endswith("…")
    assert max(map(cell_len, rows)) <= 100
    assert [trace["id"] for trace in cli("trace", "--json").json["traces"]] == asked


def test_a_timeline_shows_where_the_time_went(cli: Cli, asked: list[str]) -> None:
    lines = cli("trace", asked[0]).out.splitlines()
    spans = [line.split()[0] for line in lines if line.endswith("│")]
    shown = [name for name in spans if name != "wait"]  # a busy machine has one
    assert shown == ["search", "prompt", "prefill", "cite", "decode"]
    assert any(line.startswith("  counts: completion_tokens ") for line in lines)
    whole = cli("trace", asked[0], "--json").json
    assert whole["id"] == asked[0]
    named = [span["name"] for span in whole["spans"]]
    assert "wait" in named
    assert [name for name in named if name != "wait"] == shown


def test_an_unknown_trace_is_named(cli: Cli, kb: Path) -> None:
    outcome = cli("trace", "nope\x1b")
    assert outcome.status == 2
    assert outcome.error.startswith("There is no trace 'nope\\x1b'.")


def test_without_a_request_there_is_a_hint(cli: Cli, kb: Path) -> None:
    outcome = cli("trace")
    assert (outcome.status, outcome.out) == (0, "")
    assert "readahead ask" in outcome.err
