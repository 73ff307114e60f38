import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyte
import pytest

from readahead.cli.chat import MAX_STATUS_CELLS, next_suggestion, status_line
from readahead.reply import Event
from readahead.session import DocumentChat, Session, Status
from tests.cli.conftest import Cli

QUESTION = "How often does the tide turn?"
ABOUT_TIDES = ("--method", "rapid", "--document", "docs/tides.md")


def test_chat_answers_every_line(cli: Cli, kb: Path, target: Path) -> None:
    # The third is too long for the tiny model: said, and the chat goes on.
    lines = f"\n{QUESTION}\n\n{'moon ' * 2000}\nWhat pulls the water?".encode()
    outcome = cli("chat", "--target", target, stdin=lines)
    assert outcome.status == 1
    assert outcome.err.startswith("Ask about 2 documents")
    assert outcome.err.count("first token") == 2
    assert outcome.err.count("error: ") == 1
    assert len(cli("trace", "--json").json["traces"]) == 3


def test_a_line_that_is_not_utf8_is_a_failure_too(cli: Cli, kb: Path, target: Path) -> None:
    outcome = cli("chat", "--target", target, stdin=b"\xff\xfe?\n" + QUESTION.encode())
    assert (outcome.status, outcome.err.count("error: ")) == (1, 1)
    assert outcome.err.count("first token") == 1
    assert cli("chat", "--target", target, stdin=QUESTION.encode()).status == 0


def test_chat_retrieves_again_if_it_is_asked_to(cli: Cli, kb: Path, target: Path) -> None:
    for flags, asks in (([], False), (["--inject"], True)):
        outcome = cli("chat", "--target", target, *flags, stdin=QUESTION.encode())
        assert outcome.status == 0
        last = cli("trace", "--json").json["traces"][0]
        assert ("inject" in last["attributes"]) == asks


def test_chat_talks_about_one_document(cli: Cli, kb: Path, target: Path) -> None:
    lines = f"{QUESTION}\n\n{'moon ' * 2000}\nAnd what pulls it?".encode()
    flags = ["--method", "rapid", "--document", "docs/tides.md", "--target", target]
    outcome = cli("chat", *flags, stdin=lines)
    assert outcome.status == 1
    assert outcome.err.startswith("Ask about docs/tides.md; Ctrl-C")
    assert outcome.err.count("first token") == 2
    assert outcome.err.count("error: ") == 1
    assert "of them read before" in outcome.err
    last, _, first = cli("trace", "--json").json["traces"]
    assert (first["attributes"]["turn"], last["attributes"]["turn"]) == (1, 2)
    assert last["attributes"]["method"] == "rapid"
    assert last["attributes"]["document"] == "docs/tides.md"


def test_chat_drafts_as_it_is_asked_to(cli: Cli, kb: Path, target: Path) -> None:
    options = ["--drafting", "rag", "--mode", "augmented", "--eta", "5", "--draft-tokens", "2"]
    outcome = cli("chat", *ABOUT_TIDES, *options, "--target", target, stdin=QUESTION.encode())
    assert outcome.status == 0
    told = cli("trace", "--json").json["traces"][0]["attributes"]["speculation"]
    assert (told["mode"], list(told["drafted"])) == ("augmented", ["model"])
    assert max(num for _, num, _, _ in told["rounds"]) == 2


def test_chat_may_be_about_some_documents(cli: Cli, kb: Path, target: Path) -> None:
    outcome = cli("chat", "--document", "docs/lamps.txt", "--target", target, stdin=b"What burns?")
    assert outcome.status == 0
    assert outcome.err.startswith("Ask about 1 documents")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--method", "plain"], "There is no method 'plain' to chat by."),
        (["--method", "rapid"], "none is named. Add: --document NAME"),
        (["--method", "rapid", "--document", "docs"], "2 documents are named; "),
        (["--method", "rapid", "--document", "no.md"], "There is no document 'no.md'."),
        (["--document", "no.md"], "There is no document 'no.md'."),
        (["--method", "rapid", "--inject"], "--inject is of the method prefetch"),
        (["--drafter", "smollm2-135m"], "--drafter is of the method rapid"),
        (["--draft-tokens", "0"], "--draft-tokens is of the method rapid, not of 'prefetch'"),
        ([*ABOUT_TIDES, "--mode", "paper"], "--mode paper needs a model's distributions"),
        ([*ABOUT_TIDES, "--eta", "5"], "--eta is of the modes augmented and paper, not of 'exact'"),
        ([*ABOUT_TIDES, "--drafting", "guess"], "--drafting is 'guess'. Use: "),
    ],
)
def test_what_does_not_go_together_is_one_line(
    cli: Cli, kb: Path, target: Path, flags: list[str], expected: str
) -> None:
    outcome = cli("chat", "--target", target, *flags, stdin=QUESTION.encode())
    assert outcome.status == 2
    assert expected in outcome.error


@pytest.mark.parametrize("about_one", [False, True])
def test_an_interrupt_stops_one_answer_of_a_chat(
    cli: Cli, kb: Path, target: Path, monkeypatch: pytest.MonkeyPatch, about_one: bool
) -> None:
    kind = DocumentChat if about_one else Session
    flags = ["--method", "rapid", "--document", "docs/tides.md"] if about_one else []
    whole: Callable[[Any, str], Iterator[Event]] = kind.submit

    def interrupted(self: object, question: str) -> Iterator[Event]:
        events = whole(self, question)
        yield next(events)
        if question == QUESTION:
            raise KeyboardInterrupt
        yield from events

    monkeypatch.setattr(kind, "submit", interrupted)
    outcome = cli("chat", "--target", target, *flags, stdin=f"{QUESTION}\nWhat burns oil?".encode())
    assert outcome.status == 0
    assert "\nStopped. " in outcome.err
    last, first = cli("trace", "--json").json["traces"]
    assert first["attributes"]["finish_reason"] == "cancelled"
    assert last["attributes"]["finish_reason"] in ("stop", "length")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status(), "nothing read ahead yet"),
        (Status(reason="fewer than 3 words"), "waiting: fewer than 3 words"),
        (Status(("Tides", "Moon"), 120), "120 tokens read ahead: Tides · Moon"),
        (Status(("Tides",), 120, 16), "120 tokens read, 16 of the answer written ahead: Tides"),
        (Status((), 120, 16), "120 tokens read, 16 of the answer written ahead"),
        (Status(("\x1b[2J",), 1), "1 tokens read ahead: \ufffd[2J"),
    ],
)
def test_the_status_line_says_what_is_ready(status: Status, expected: str) -> None:
    assert status_line(status) == expected


def test_an_empty_line_offers_the_likeliest_next_question() -> None:
    assert status_line(Status(), ("Who keeps it?", "Why?")) == "Tab: Who keeps it?"
    assert status_line(Status(reason="typing has only begun"), ("Why?",)).startswith("waiting")


@pytest.mark.parametrize(
    ("text", "expected"), [("", "A?"), ("A?", "B?"), ("B?", "A?"), ("mine", "mine")]
)
def test_tab_goes_through_the_suggestions(text: str, expected: str) -> None:
    assert next_suggestion(text, ["A?", "B?"]) == expected
    assert next_suggestion(text, []) == text


def test_the_status_line_fits_on_a_line() -> None:
    assert len(status_line(Status(("x" * 500,), 1))) <= MAX_STATUS_CELLS


class Screen:
    """A terminal of 24 lines: what a program drew on it is read as a person would."""

    def __init__(self, keyboard: int) -> None:
        self._keyboard = keyboard
        self._screen = pyte.HistoryScreen(120, 24)
        self._stream = pyte.ByteStream(self._screen)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        os.close(self._keyboard)

    def type(self, keys: str) -> None:
        os.write(self._keyboard, keys.encode())

    @property
    def text(self) -> str:
        return "\n".join(self._screen.display)

    def wait_for(self, text: str, timeout_s: float = 60.0) -> None:
        end_s = time.monotonic() + timeout_s
        while text not in self.text:
            assert time.monotonic() < end_s, self.text
            self.read()

    def read(self) -> bool:
        """Take in what was drawn; return False once nothing more can come."""
        if not select.select([self._keyboard], [], [], 0.1)[0]:
            return True
        try:
            data = os.read(self._keyboard, 65536)
        except OSError:  # the other side is closed
            return False
        self._stream.feed(data)
        if b"\x1b[6n" in data:  # a terminal says where its cursor is
            self.type(f"\x1b[{self._screen.cursor.y + 1};{self._screen.cursor.x + 1}R")
        return bool(data)


@contextmanager
def killed(process: subprocess.Popen[bytes]) -> Iterator[None]:
    with process:
        try:
            yield
        finally:
            process.kill()


def chat_on_a_terminal(flags: list[str]) -> tuple[Screen, subprocess.Popen[bytes]]:
    """Start a chat; the screen owns the keyboard."""
    keyboard, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "readahead", "chat", *flags],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={
            **os.environ,
            "TERM": "xterm",
            "READAHEAD_GENERATION__MAX_NEW_TOKENS": "4",
            "READAHEAD_PREFETCH__DECODE_AHEAD_TOKENS": "2",
        },
    )
    os.close(terminal)
    return Screen(keyboard), process


def leave(screen: Screen, process: subprocess.Popen[bytes]) -> int:
    """End the chat; the key is struck again, as one struck while no line is read is lost."""
    end_s = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end_s:
        screen.type("\x04")
        for _ in range(10):
            if not screen.read():
                return process.wait(timeout=60)
    return process.wait(timeout=60)


def test_a_terminal_shows_what_is_ready_while_one_types(kb: Path, target: Path) -> None:
    screen, process = chat_on_a_terminal(["--target", str(target)])
    with killed(process), screen:
        screen.wait_for("> ")
        screen.type(QUESTION)
        screen.wait_for("2 of the answer written ahead")
        screen.type("\r")
        screen.wait_for("read before")  # in the figures of the answer
        screen.wait_for("nothing read ahead yet")
        assert leave(screen, process) == 0


def test_a_terminal_takes_questions_about_one_document(kb: Path, target: Path) -> None:
    flags = ["--target", str(target), "--method", "rapid", "--document", "docs/tides.md"]
    screen, process = chat_on_a_terminal(flags)
    with killed(process), screen:
        screen.wait_for("> ")
        screen.type(f"{QUESTION}\r")
        screen.wait_for("first token")
        screen.type("not this")
        screen.wait_for("> not this")
        screen.type("\x03And why?\r")  # Ctrl-C clears the line
        screen.wait_for("read before")
        assert leave(screen, process) == 0
    assert "nothing read ahead" not in screen.text
