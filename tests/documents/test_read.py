import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from readahead.config import DocumentsConfig
from readahead.documents.read import Reader
from readahead.errors import DocumentError
from tests.documents.conftest import SAMPLES, SLOW_PAGE, print_pages, summary

MIB = 2**20
LONG_PAGE = b"The *fee* is [30](x) euros.\n\n" * 4_000  # some tenths of a second


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    with Reader() as shared:
        yield shared


@pytest.mark.parametrize("path", sorted(SAMPLES.iterdir()), ids=lambda path: path.name)
def test_the_samples_are_read(reader: Reader, path: Path) -> None:
    documents = reader.read(path)
    assert {kind for document in documents for kind, _ in summary(document)} >= {
        "title",
        "paragraph",
    }
    assert all(document.name.startswith(str(path)) for document in documents)


def test_bytes_are_read_under_a_name(reader: Reader) -> None:
    (document,) = reader.read_bytes("\ufeff文字".encode(), "-")
    assert (document.name, document.text, document.removed) == ("-", "文字", {"bom": 1})


def test_a_reason_comes_back_with_its_remedy(reader: Reader, tmp_path: Path) -> None:
    (tmp_path / "scan.pdf").write_bytes(b"%PDF-1.4 junk")
    with pytest.raises(DocumentError, match="not readable as pdf"):
        reader.read(tmp_path / "scan.pdf")
    with pytest.raises(DocumentError, match="no such file"):
        reader.read(tmp_path / "none")


def test_files_over_the_limit_are_not_sent() -> None:
    too_large = pytest.raises(DocumentError, match="larger than 1 MiB")
    with Reader(DocumentsConfig(max_file_bytes=MIB)) as reader, too_large:
        reader.read_bytes(b"x" * (MIB + 1), "x.txt")


def test_text_over_the_limit_is_refused() -> None:
    too_long = pytest.raises(DocumentError, match="more than 1,000 characters of text")
    with Reader(DocumentsConfig(max_text_chars=1000)) as reader, too_long:
        reader.read_bytes(b"x" * 1001, "x.txt")


def test_pages_over_the_limit_are_refused() -> None:
    pages = print_pages([["One."], ["Two."], ["Three."]])
    with Reader(DocumentsConfig(max_pages=3)) as reader:
        assert reader.read_bytes(pages, "x.pdf")[0].blocks[-1].page == 3
    too_long = pytest.raises(DocumentError, match="3 pages, more than 2")
    with Reader(DocumentsConfig(max_pages=2)) as reader, too_long:
        reader.read_bytes(pages, "no-ending")


def test_an_interrupt_from_another_thread_ends_the_reading(reader: Reader) -> None:
    reader.interrupt()  # nothing to end yet
    timer = threading.Timer(0.3, reader.interrupt)
    timer.start()
    with pytest.raises(DocumentError, match="SIGKILL"):
        reader.read_bytes(SLOW_PAGE, "x.html")
    timer.join()
    assert reader.read_bytes(b"next", "x.txt")[0].text == "next"


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_ends_the_child_is_not_the_files_fault(reader: Reader, told: int) -> None:
    """systemd sends one to every process of a service, before the server has ended its jobs."""
    reader.read_bytes(b"start", "x.txt")
    assert reader._child
    timer = threading.Timer(0.1, os.kill, [reader._child._process.pid, told])
    timer.start()
    assert reader.read_bytes(LONG_PAGE, "x.md")[0].text.startswith("The fee is 30")
    timer.join()


def test_what_goes_to_the_process_group_does_not_reach_the_child(reader: Reader) -> None:
    reader.read_bytes(b"start", "x.txt")
    assert reader._child
    assert os.getpgid(reader._child._process.pid) != os.getpgid(0)


def test_an_interrupt_of_the_program_ends_the_child_at_once() -> None:
    with Reader() as reader:
        reader.read_bytes(b"start", "x.txt")
        assert reader._child
        process = reader._child._process
        timer = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            reader.read_bytes(SLOW_PAGE, "x.html")
        timer.join()
        assert process.returncode == -signal.SIGKILL


def test_a_parser_that_takes_too_long_is_stopped_and_replaced() -> None:
    with Reader(DocumentsConfig(timeout_s=0.5)) as reader:
        with pytest.raises(DocumentError, match=r"took longer than 0\.5 s"):
            reader.read_bytes(SLOW_PAGE, "x.html")
        assert reader.read_bytes(b"next", "x.txt")[0].text == "next"


def test_the_highest_limits_that_settings_allow_can_be_set() -> None:
    limits = DocumentsConfig(timeout_s=86_400, memory_bytes=2**40, max_file_bytes=2**32)
    with Reader(limits) as reader:
        assert reader.read_bytes(b"text", "x.txt")[0].text == "text"


def test_the_time_of_one_file_does_not_count_for_the_next() -> None:
    with Reader(DocumentsConfig(timeout_s=0.5)) as reader:
        reader.read_bytes(b"first", "x.txt")
        time.sleep(0.7)
        assert reader.read_bytes(b"next", "x.txt")[0].text == "next"


def test_a_file_that_found_too_little_memory_is_tried_again_in_a_fresh_child() -> None:
    class Counting(Reader):
        num_asked = 0

        def _ask(self, data: bytes, name: str) -> dict[str, object]:
            self.num_asked += 1
            return super()._ask(data, name)

    with Counting(DocumentsConfig(memory_bytes=160 * MIB)) as reader:
        reader.read_bytes(b"first", "x.txt")
        with pytest.raises(DocumentError, match="needed more than"):
            reader.read_bytes(b"word " * (16 * MIB), "x.txt")
        assert reader.num_asked == 3


def test_a_parser_that_needs_too_much_memory_is_stopped_and_replaced() -> None:
    large = b"word " * (16 * MIB)
    with Reader(DocumentsConfig(memory_bytes=160 * MIB)) as reader:
        for _ in range(2):
            with pytest.raises(DocumentError, match=r"needed more than 0\.2 GiB"):
                reader.read_bytes(large, "x.txt")
            assert reader.read_bytes(b"next", "x.txt")[0].text == "next"


def test_a_parser_that_crashes_is_replaced() -> None:
    with Reader() as reader:
        reader.read_bytes(b"start", "x.txt")
        assert reader._child
        reader._child._process.kill()
        with pytest.raises(DocumentError, match=r"the parser crashed \(SIGKILL\)"):
            reader.read_bytes(b"x" * MIB, "x.txt")
        assert reader.read_bytes(b"next", "x.txt")[0].text == "next"


def test_a_child_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nonexistent")
    with Reader() as reader, pytest.raises(DocumentError, match="the parser (stopped|crashed)"):
        reader.read_bytes(b"x", "x.txt")


def test_modules_in_the_current_folder_are_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "docx", "selectolax", "readahead"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('hijacked')")
    monkeypatch.chdir(tmp_path)
    with Reader() as reader:
        assert reader.read_bytes(b"<p>safe", "x.html")[0].text == "safe"


def test_threads_take_turns(reader: Reader) -> None:
    texts: dict[int, str] = {}

    def read(number: int) -> None:
        texts[number] = reader.read_bytes(f"text {number}".encode(), "x.txt")[0].text

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == {number: f"text {number}" for number in range(8)}


def test_the_child_is_told_no_secret_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("READAHEAD_API_KEY", "HF_TOKEN", "OTEL_EXPORTER_OTLP_HEADERS", "PYTHON_TOKEN"):
        monkeypatch.setenv(name, "a-key-that-is-secret")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    with Reader() as reader:  # a child that starts now
        reader.read_bytes(b"text", "a.txt")
        assert reader._child is not None
        file = Path(f"/proc/{reader._child._process.pid}/environ")
        if not file.exists():
            pytest.skip("no /proc")
        environment = file.read_bytes()
    assert b"a-key-that-is-secret" not in environment
    assert {b"PATH", b"LC_ALL"} <= {entry.partition(b"=")[0] for entry in environment.split(b"\0")}
