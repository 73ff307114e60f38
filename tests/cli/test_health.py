from pathlib import Path

import apsw

from tests.cli.conftest import Cli

CHECKS = ["versions", "device", "models", "store", "smoke"]


def test_all_is_well(cli: Cli, kb: Path, target: Path) -> None:
    outcome = cli("doctor", "--target", target, "--lexical-only", "--json")
    assert outcome.status == 0
    report = outcome.json
    assert list(report) == ["ok", *CHECKS]
    assert all(report[check]["ok"] for check in CHECKS)
    assert report["store"] == {"ok": True, "folder": ".readahead", "documents": 2, "passages": 3}
    assert report["device"]["dtype"] == "float32"
    assert report["smoke"]["ttft_s"] >= 0


def test_a_fresh_machine_is_told_what_to_bring(cli: Cli) -> None:
    outcome = cli("doctor")
    assert outcome.status == 3
    lines = outcome.out.splitlines()
    assert [line.split()[1] for line in lines] == CHECKS
    assert [line.split()[0] for line in lines] == ["ok", "ok", "FAIL", "ok", "FAIL"]
    assert "readahead pull qwen2.5-coder-0.5b" in lines[2]


def test_a_damaged_store_fails_alone(cli: Cli, kb: Path, target: Path) -> None:
    (kb / "knowledge.db").write_bytes(b"not a database" * 1000)
    outcome = cli("doctor", "--target", target, "--lexical-only", "--json")
    assert outcome.status == 3
    report = outcome.json
    assert [check for check in CHECKS if not report[check]["ok"]] == ["store"]
    assert "is damaged" in report["store"]["problem"]


def test_a_store_that_contradicts_itself_fails(cli: Cli, kb: Path, target: Path) -> None:
    connection = apsw.Connection(str(kb / "knowledge.db"))
    connection.execute("PRAGMA foreign_keys = OFF; DELETE FROM passages")
    connection.close()
    outcome = cli("doctor", "--target", target, "--lexical-only")
    assert outcome.status == 3
    assert "FAIL  store     The full-text index holds 3 passages that are gone." in (outcome.out)


def test_bad_settings_are_an_error_before_any_check(cli: Cli) -> None:
    outcome = cli("doctor", "--dtype", "float12")
    assert outcome.status == 2
    assert "models.dtype" in outcome.error
