import json
from pathlib import Path

from readahead.server.guard.keys import FILE_NAME, Keys
from tests.cli.conftest import Cli


def test_a_key_is_shown_once(cli: Cli, place: Path) -> None:
    outcome = cli("keys", "add", "ann", "--tenant", "blue", "--tokens-per-day", 9)
    assert outcome.status == 0
    secret = outcome.out.strip()
    assert outcome.err == "Keep it: it cannot be shown again.\n"
    found = Keys(place / ".readahead").find(secret)
    assert found is not None and (found.name, found.tenant) == ("ann", "blue")
    listed = cli("keys", "ls")
    assert "ann" in listed.out and "blue" in listed.out and "9" in listed.out
    assert secret not in listed.out and found.sha256 not in cli("keys", "ls", "--json").out


def test_keys_as_json(cli: Cli, place: Path) -> None:
    made = cli("keys", "add", "ann", "--requests-per-minute", 5, "--kb", "kb", "--json").json
    assert set(made) == {"name", "tenant", "key"}
    assert Keys(place / "kb").find(made["key"])
    (key,) = cli("--kb", "kb", "keys", "ls", "--json").json["keys"]
    assert (key["name"], key["tenant"], key["requests_per_minute"]) == ("ann", "", 5)
    assert cli("keys", "rm", "ann", "--kb", "kb", "--json").json == {"removed": ["ann"]}
    assert cli("keys", "ls", "--kb", "kb", "--json").json == {"keys": []}
    assert json.loads((place / "kb" / FILE_NAME).read_text()) == []


def test_what_cannot_be_is_said_in_a_line(cli: Cli, place: Path) -> None:
    assert "There is no key" in cli("keys", "ls").err
    assert list(place.iterdir()) == []
    assert cli("keys", "add", "ann").status == 0
    for arguments, message in {
        ("add", "ann"): "There is a key 'ann' already.",
        ("add", "a b"): "A key cannot be called 'a b'.",
        ("add", "bob", "--tenant", "../up"): "A tenant cannot be called '../up'.",
        ("add", "bob", "--tokens-per-day", "0"): "0 is no limit.",
        ("rm", "bob"): "There is no key 'bob'.",
    }.items():
        outcome = cli("keys", *arguments)
        assert outcome.status == 2
        assert outcome.error.startswith(message)
    (place / ".readahead" / FILE_NAME).write_text("{")
    assert cli("keys", "ls").status == 3
    assert "keys.json is damaged" in cli("keys", "add", "bob").error


def test_a_key_of_the_environment_is_not_in_the_file(cli: Cli, place: Path) -> None:
    assert cli("keys", "add", "environment").status == 2
