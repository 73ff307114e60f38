"""Runs the program as a user does, in this process, in a folder with nothing else."""

import io
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from readahead.cli import main
from readahead.config import load_config
from readahead.knowledge import KnowledgeBase
from tests.conftest import make_llama, make_tokenizer

TIDES = "# Tides\n\nThe tide turns twice a day.\n\n## Moon\n\nThe moon pulls the water.\n"
LAMPS = "A lamp burns oil.\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the program left: its exit status, stdout and stderr."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return the one JSON object on stdout."""
        lines = self.out.splitlines()
        assert len(lines) == 1, self
        value = json.loads(lines[0])
        assert isinstance(value, dict)
        return value

    @property
    def error(self) -> str:
        """Return the one line on stderr, of a run that printed nothing else."""
        assert (self.out, self.err.count("\n")) == ("", 1), self
        return self.err.removeprefix("error: ").strip()


Cli = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in an empty folder, without settings and models of the machine."""
    for name in os.environ:
        if name.startswith("READAHEAD_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("READAHEAD_HOME", str(tmp_path / "home"))
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Return what runs ``readahead ARGUMENTS…`` through ``main``."""

    def run(*arguments: object, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["readahead", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        status = caught.value.code
        assert isinstance(status, int)
        return Outcome(status, out, err)

    return run


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with docs/tides.md and docs/lamps.txt, and a knowledge base of them."""
    folder = tmp_path_factory.mktemp("filled")
    (folder / "docs").mkdir()
    (folder / "docs" / "tides.md").write_text(TIDES, encoding="utf-8")
    (folder / "docs" / "lamps.txt").write_text(LAMPS, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        config = load_config({"kb": ".readahead", "retrieval.mode": "lexical"})
        with KnowledgeBase.open(config) as knowledge:
            assert knowledge.add(["docs"]).added == 2
    return folder


@pytest.fixture
def kb(filled: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the default knowledge base, a copy of the one in ``filled``; words are all it has."""
    monkeypatch.setenv("READAHEAD_RETRIEVAL__MODE", "lexical")
    shutil.copytree(filled, place, dirs_exist_ok=True)
    return place / ".readahead"


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the tiny Llama with its byte tokenizer."""
    folder = tmp_path_factory.mktemp("tiny")
    make_llama().save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder
