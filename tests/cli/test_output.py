import io
import json
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from readahead.cli.output import (
    DownloadBar,
    counting,
    figures_line,
    one_line,
    place_line,
    printable,
    say_json,
    waiting,
)
from readahead.types import Answer

OBEYED = {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), *"\u202e\u2066\u200f\u2028"} - {
    "\t",
    "\n",
}


@given(st.text(st.sampled_from([*sorted(OBEYED), *"a\n\t中\ud800\U000e0041"])))
def test_nothing_printed_drives_a_terminal(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert not OBEYED & set(shown)
    shown.encode()  # no lone surrogates


def test_who_waits_for_long_is_told_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with waiting("Drafting"):
        pass
    assert capsys.readouterr().err == ""
    told = threading.Event()
    monkeypatch.setattr("readahead.cli.output.LONG_S", 0.01)

    def note(text: str) -> None:
        print(text, file=sys.stderr)
        told.set()

    monkeypatch.setattr("readahead.cli.output.note", note)
    with waiting("Drafting"):
        assert told.wait(10)
    assert capsys.readouterr().err == "Drafting …\n"


def test_text_that_is_harmless_is_kept() -> None:
    text = "Tab\there,\nline 潮汐 e\u0301 👩\u200d🔬 שלום"
    assert printable(text) == text


@given(st.text(), st.integers(2, 40))
def test_one_line_is_one_line_of_the_width(text: str, max_cells: int) -> None:
    line = one_line(text, max_cells)
    assert len(line.split("\n")) == 1
    assert cell_len(line) <= max_cells
    if cell_len(one_line(text)) <= max_cells:
        assert line == one_line(text)


def test_a_line_that_is_cut_says_so() -> None:
    assert one_line("a\tb\r\nc") == "a\ufffdb\ufffd\ufffdc"
    assert one_line("潮汐每天", 6) == "潮汐…"


def test_a_place_has_what_is_known() -> None:
    assert place_line("a.pdf", ("Moon", "Tides"), 3) == "a.pdf · page 3 · Moon > Tides"
    assert place_line("a.txt", (), None) == "a.txt"


def test_the_figures_say_how_much_of_an_answer_is_supported() -> None:
    figures = figures_line(Answer("One. Two. Three.", False, 2 / 3, "plain"))
    assert figures.startswith("67% of sentences supported · first token 0.00 s")
    assert "supported" not in figures_line(Answer("They do not say.", True, 0.0, "plain"))


@given(st.dictionaries(st.text(), st.lists(st.text())))
def test_json_is_one_line_of_ascii(value: dict[str, list[str]]) -> None:
    written = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", written)
        say_json(value)
    line = written.getvalue()
    assert line.isascii()
    assert line.count("\n") == 1
    assert json.loads(line) == value


def test_progress_off_a_terminal_is_one_line_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    with DownloadBar() as bar:
        bar.notice("licence: Apache-2.0\x1b[2J")
        bar.start("Downloading tiny", 100)
        bar.advance(40)
        bar.done()
    with counting("Adding") as count:
        count(1, None, "files")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "licence: Apache-2.0\ufffd[2J\nDownloading tiny …\n"
