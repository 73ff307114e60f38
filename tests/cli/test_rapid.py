from pathlib import Path

import pytest

from tests.cli.conftest import Cli

SHORT = ("--context", "700", "--max-new-tokens", "4")


def test_advice_is_printed(cli: Cli, target: Path) -> None:
    outcome = cli("rapid", "advise", "--target", target, "--drafter", target, *SHORT)
    assert outcome.status == 0
    lines = outcome.out.splitlines()
    assert lines[0].startswith(f"target {target}")
    assert any(line.split()[:1] == ["hybrid"] for line in lines)
    assert "the drafter is " in outcome.out
    assert "copying decodes" in outcome.out
    assert max(map(len, lines[1:])) <= 100


def test_who_has_no_terminal_is_told_what_is_being_done(cli: Cli, target: Path) -> None:
    told = cli("rapid", "advise", "--target", target, *SHORT).err.splitlines()
    assert told[0].startswith("Reading ")
    assert told[1] == f"Timing steps (2 of {len(told)})"
    assert told[-1].endswith(f"({len(told)} of {len(told)})")


def test_warnings_are_printed_and_in_the_json(
    cli: Cli, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("readahead.evaluation.advice.warn", lambda measured: ["It is noise."])
    asked = ("rapid", "advise", "--target", target, *SHORT)
    assert cli(*asked).out.endswith("\nWarning: It is noise.\n")
    assert cli(*asked, "--json").json["warnings"] == ["It is noise."]


def test_advice_is_one_json_object(cli: Cli, target: Path) -> None:
    outcome = cli("rapid", "advise", "--target", target, *SHORT, "--json")
    assert outcome.err == ""
    advice = outcome.json
    (length,) = advice["lengths"]
    assert [trial["way"] for trial in length["trials"]] == ["lookup", "rag", "hybrid"]
    assert advice["sentences"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--context", "99999"), "A context of 99999 tokens makes a prompt of "),
        (("--context", "20"), "20 tokens do not hold the needles"),
        (("--draft-dtype", "float12"), "'models.drafter_dtype' is not usable"),
        (("--drafter", "gpt9"), "No model is called 'gpt9'"),
    ],
)
def test_a_bad_option_of_advise_is_named(
    cli: Cli, target: Path, options: tuple[str, ...], message: str
) -> None:
    outcome = cli("rapid", "advise", "--target", target, *options)
    assert outcome.status == 2
    assert message in outcome.error
