import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import readahead
from readahead.cli import app as program
from readahead.errors import ConfigError
from tests.cli.conftest import TIDES, Cli

HEAVY = ("torch", "transformers", "faiss", "sentence_transformers")


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run the program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "readahead", *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        timeout=120,
        check=False,
    )


def test_version_and_help(cli: Cli) -> None:
    assert cli("--version").out == f"readahead {readahead.__version__}\n"
    for name in ("-h", "--help"):
        assert cli(name).out == cli().err  # without a command, help is all there is to say
    assert cli().status == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("serch", "tide"),
        ("search",),
        ("search", "tide", "--fast"),
        ("search", "tide", "-k", "many"),
        ("search", "tide", "-k"),
        ("add",),
        ("rm",),
        ("ls", "--kb"),
        ("eval", "--questions", "a.jsonl"),
    ],
)
def test_bad_usage_prints_nothing_on_stdout(cli: Cli, arguments: tuple[str, ...]) -> None:
    outcome = cli(*arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("ls",),
        ("show", "1"),
        ("rm", "1"),
        ("reembed",),
        ("search", "tide"),
        ("ask", "tide?"),
        ("chat",),
        ("trace",),
        ("trace", "1"),
    ],
)
def test_without_a_knowledge_base_every_command_says_so(
    cli: Cli, place: Path, arguments: tuple[str, ...]
) -> None:
    outcome = cli(*arguments)
    assert outcome.status == 2
    assert outcome.error == (
        "There is no knowledge base in .readahead. Make one: readahead add PATH…"
    )
    assert list(place.iterdir()) == []


def test_the_knowledge_base_is_named_in_front_behind_or_in_the_environment(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "tides.md").write_text(TIDES, encoding="utf-8")
    for name in ("front", "behind", "environment", "file"):
        (place / "tides.md").write_text(f"# {name}\n", encoding="utf-8")
        assert cli("add", "tides.md", "--kb", name, "--lexical-only").status == 0

    def shown(*arguments: str) -> str:
        outcome = cli(*arguments)
        assert outcome.status == 0, outcome
        return outcome.out.strip()

    (place / "readahead.toml").write_text("kb = 'file'\n", encoding="utf-8")
    assert shown("show", "1") == "file"
    monkeypatch.setenv("READAHEAD_KB", "environment")
    assert shown("show", "1") == "environment"
    assert shown("--kb", "front", "show", "1") == "front"
    assert shown("show", "1", "--kb", "behind") == "behind"
    assert shown("--kb", "front", "show", "1", "--kb", "behind") == "behind"


def test_errors_are_json_where_that_is_asked_for(cli: Cli, kb: Path) -> None:
    outcome = cli("show", "nothing.md", "--json")
    assert outcome.status == 2
    assert outcome.json == {
        "error": {
            "type": "NotFound",
            "message": "There is no document 'nothing.md'.",
            "remedy": "List them: readahead ls",
        }
    }
    assert outcome.err == "error: There is no document 'nothing.md'. List them: readahead ls\n"
    for arguments in (
        ("search", "--json"),
        ("search", "--json", "--bogus", "x"),
        ("eval", "--json"),
    ):
        outcome = cli(*arguments)
        assert outcome.status == 2
        assert outcome.json["error"]["type"] == "InputError"
        assert outcome.json["error"]["message"] in outcome.err
    assert cli("search", " ", "--", "--json").out == ""  # here it is an argument too many
    assert cli("show", "--", "--json").out == ""  # here it is a document's name


def test_an_error_is_one_line_that_drives_no_terminal(cli: Cli, kb: Path) -> None:
    outcome = cli("show", "a\nb\x1b[2J\u202e.md")
    assert outcome.error.startswith("There is no document 'a\\nb\\x1b[2J\\u202e.md'.")
    outcome = cli("ls", "--kb", "new\nline\x1b[2J")
    assert outcome.error.startswith("There is no knowledge base in new line\ufffd[2J.")


@pytest.mark.parametrize("command", [("ls",), ("add", "a.md"), ("search", "x", "--json")])
def test_a_knowledge_base_that_is_a_file_is_refused(
    cli: Cli, place: Path, command: tuple[str, ...]
) -> None:
    (place / "kb").write_text("not a folder", encoding="utf-8")
    outcome = cli(*command, "--kb", "kb")
    assert outcome.status == 2
    assert "The knowledge base kb is a file. Choose a folder with --kb." in outcome.err
    assert cli("add", "a.md", "--kb", "kb/below").status == 3


def test_a_knowledge_base_without_a_name_is_refused(cli: Cli, place: Path) -> None:
    for outcome in (cli("add", "a.md", "--kb", ""), cli("--kb", "", "ls")):
        assert outcome.status == 2
        assert "'kb' is not usable" in outcome.error
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("command", [("ls",), ("search", "moon"), ("trace",), ("rm", "1")])
def test_a_damaged_knowledge_base_is_a_fault(cli: Cli, kb: Path, command: tuple[str, ...]) -> None:
    (kb / "knowledge.db").write_bytes(b"not a database" * 1000)
    outcome = cli(*command)
    assert outcome.status == 3
    assert "is damaged" in outcome.error
    assert "Restore the folder from a backup" in outcome.error


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only_is_a_fault(cli: Cli, kb: Path) -> None:
    kb.chmod(0o500)
    outcome = cli("add", "docs", "--lexical-only")
    kb.chmod(0o700)
    assert outcome.status == 3
    assert "cannot be opened or written" in outcome.error


def test_a_path_that_the_system_refuses_is_named(cli: Cli) -> None:
    outcome = cli("ls", "--kb", "x" * 300)
    assert outcome.status == 3
    assert "File name too long" in outcome.error
    assert "Check the path" in outcome.error


def test_bad_settings_are_named(
    cli: Cli, kb: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = place / "readahead.toml"
    for content, message in {
        "[retrieval\n": "readahead.toml cannot be read",
        "[retrieval]\nkk = 3\n": "'retrieval.kk'",
        "[retrieval]\nk = 0\n": "'retrieval.k' is not usable: Input should be greater than 0",
        "colour = 'red'\n": "'colour'",
    }.items():
        file.write_text(content, encoding="utf-8")
        outcome = cli("ls")
        assert outcome.status == 2
        assert message in outcome.error
    file.unlink()
    for name, value in {
        "READAHEAD_RETRIEVAL__K": "-4",
        "READAHEAD_RETRIEVAL__NUM_CANDIDATES": str(10**30),
        "READAHEAD_EVIDENCE__THRESHOLD": "2",
        "READAHEAD_MODELS__DTYPE": "float12",
    }.items():
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            outcome = cli("search", "moon")
        assert outcome.status == 2
        section, _, field = name.removeprefix("READAHEAD_").lower().partition("__")
        assert f"'{section}.{field}' is not usable" in outcome.error
        assert value in outcome.error


def test_what_nobody_foresaw_is_one_line_unless_debugging(
    cli: Cli, kb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("one\ntwo\x1b[2J")

    monkeypatch.setattr(program, "app", fail)
    outcome = cli("ls", "--json")
    assert outcome.status == 3
    assert outcome.json["error"]["type"] == "ReadaheadError"
    assert outcome.err.startswith("error: A fault of readahead itself: ZeroDivisionError: one two")
    monkeypatch.setenv("READAHEAD_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        program.main()


def test_a_remedy_may_lack(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ConfigError("Too red.")

    monkeypatch.setattr(program, "app", fail)
    assert cli("ls").error == "Too red."


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("ls",), ("show", "1"), ("search", "moon"), ("trace",), ("rm", "1")],
)
def test_light_commands_import_nothing_heavy(kb: Path, arguments: tuple[str, ...]) -> None:
    code = (
        "import sys, readahead.cli\n"
        "try: readahead.cli.main()\n"
        f"finally: print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, check=True)
    assert done.stderr.splitlines()[-1] == b"[]"


def test_the_program_starts_in_a_moment(kb: Path) -> None:
    before = os.times()
    assert run("ls").returncode == 0
    after = os.times()
    spent_s = sum(after[2:4]) - sum(before[2:4])  # of children; other processes do not count
    assert spent_s < 1.5


def test_any_encoding_can_be_printed(kb: Path, place: Path) -> None:
    (place / "潮汐.md").write_text("# 潮汐\n\n月亮吸引海水。\n", encoding="utf-8")
    for variables in ({"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}):
        run("add", "潮汐.md", "--lexical-only", **variables)
        done = run("show", "潮汐.md", **variables)
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"\\u6f6e\\u6c50" in done.stdout
        assert run("show", "没有.md", **variables).returncode == 2


def test_a_narrow_terminal_without_colours_is_enough(kb: Path) -> None:
    for arguments in (("--help",), ("ls",), ("search", "moon"), ("trace",)):
        done = run(*arguments, COLUMNS="1", NO_COLOR="1", TERM="dumb")
        assert done.returncode == 0
        assert b"\x1b" not in done.stdout + done.stderr


def test_a_reader_that_leaves_is_no_fault(kb: Path, place: Path) -> None:
    (place / "long.txt").write_text("The tide turns. " * 100_000, encoding="utf-8")
    run("add", "long.txt", "--lexical-only")
    with subprocess.Popen(
        [sys.executable, "-m", "readahead", "show", "long.txt"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout and process.stderr
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) in (0, 1)  # what the pipe held was written


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("ls >/dev/full", 3, "error: The system refused: [Errno 28] No space left on device."),
        ("ls --json >/dev/full", 3, "error: The system refused: [Errno 28] No space left"),
        ("--help >/dev/full", 3, "error: The system refused: [Errno 28] No space left"),
        ("ls --kb nokb --json >/dev/full", 2, "error: There is no knowledge base in nokb."),
        ("ls --kb nokb --json >&-", 2, "error: There is no knowledge base in nokb."),
        ("ls >&-", 0, ""),
        ("ls --kb nokb 2>&-", 2, ""),
        ("ls --kb nokb 2>/dev/full", 2, ""),
        ("search - <&-", 2, "error: The question is blank."),
        ("ls <&- >&- 2>&-", 0, ""),
    ],
)
def test_streams_that_are_closed_or_full_are_no_fault_of_readahead(
    kb: Path, command: str, status: int, message: str
) -> None:
    done = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m readahead {command}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == status
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == (1 if message else 0)


def test_an_interrupt_ends_quietly(kb: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "readahead", "add", "-", "--lexical-only"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A job in the background ignores interrupts, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdin and process.stderr
        process.stdin.write(b"tide " * 100_000)  # more than a pipe holds: the program reads
        process.stdin.flush()
        while process.returncode is None:
            # Again, should the first come between two reads: Python looks for signals after them.
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
        assert process.returncode == 130
        assert process.stderr.read() == b""
