import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.documents.blocks import TextBuilder
from readahead.documents.plain import add_paragraphs, read_plain
from tests.documents.conftest import summary


def test_blank_lines_separate_paragraphs_and_lines_stay() -> None:
    data = b"First line  \nsecond line\n \t\nNext one\n\n\n\n# not a title"
    assert summary(read_plain(data).build("x")) == [
        ("paragraph", "First line\nsecond line"),
        ("paragraph", "Next one"),
        ("paragraph", "# not a title"),
    ]


def test_a_line_of_invisible_characters_is_blank() -> None:
    assert len(summary(read_plain("a\n\u200b\nb".encode()).build("x"))) == 2


@pytest.mark.parametrize("space", [" ", "\t", "\u00a0", "\u3000", "\v", "\n", " \n", "\x1b["])
def test_a_long_run_of_white_space_takes_no_longer_than_text(space: str) -> None:
    start = time.process_time()
    assert read_plain(f"文{space * 500_000}文".encode()).build("x").blocks
    assert time.process_time() - start < 10  # a second at most; some hours if it were quadratic


@given(st.text())
def test_every_visible_word_is_kept_in_order(text: str) -> None:
    builder, again = TextBuilder(), TextBuilder()
    add_paragraphs(builder, text)
    once = builder.build("x")
    summary(once)
    add_paragraphs(again, once.text)
    assert again.build("x").text == once.text
