import time
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from readahead.documents.blocks import TextBuilder, flow
from tests.documents.conftest import assert_sound, summary


def test_titles_nest_and_close() -> None:
    builder = TextBuilder()
    for text, level in (("A", 1), ("B", 3), ("C", 2), ("D", 1)):
        builder.title(text, level)
        builder.add("paragraph", f"under {text}")
    paragraphs = [block for block in builder.build("x").blocks if block.kind == "paragraph"]
    assert [block.heading for block in paragraphs] == [("A",), ("A", "B"), ("A", "C"), ("D",)]


def test_blocks_under_one_title_share_its_path() -> None:
    builder = TextBuilder()
    builder.title("A", 1)
    for text in ("one", "two"):
        builder.add("paragraph", text)
    first, second = builder.build("x").blocks[1:]
    assert first.heading is second.heading


def test_close_returns_to_a_depth() -> None:
    builder = TextBuilder()
    builder.title("Outer", 1)
    depth = builder.depth
    builder.title("Inner", builder.level + 1)
    builder.close(depth)
    builder.add("paragraph", "after")
    assert builder.build("x").blocks[-1].heading == ("Outer",)


def test_a_title_too_long_to_repeat_is_a_paragraph() -> None:
    builder = TextBuilder()
    builder.title("word " * 100, 1)
    assert [block.kind for block in builder.build("x").blocks] == ["paragraph"]


def test_fences_are_longer_than_those_inside() -> None:
    builder = TextBuilder()
    builder.code("a\n````\nb", "md")
    assert summary(builder.build("x")) == [("code", "`````md\na\n````\nb\n`````")]


def test_tables_have_a_header_and_equal_rows() -> None:
    builder = TextBuilder()
    builder.table([["Day", "Time"], ["", " "], ["Mon|Tue", "9\n10"], ["Wed"]])
    assert summary(builder.build("x")) == [
        ("table", "| Day | Time |\n|---|---|\n| Mon\\|Tue | 9 10 |\n| Wed |  |")
    ]


def test_a_line_break_between_chinese_characters_leaves_no_space() -> None:
    assert flow("天文\n 台。\n开放 now\nopen") == "天文台。开放 now open"


KINDS = st.sampled_from(["title", "paragraph", "list", "code", "table", "caption"])


@given(st.lists(st.tuples(KINDS, st.text(), st.integers(0, 9))))
def test_offsets_are_exact(pieces: Sequence[tuple[str, str, int]]) -> None:
    builder = TextBuilder()
    for kind, text, number in pieces:
        match kind:
            case "title":
                builder.title(text, number)
            case "code":
                builder.code(text, page=number)
            case "table":
                builder.table([[text] * number, [text]])
            case "list":
                builder.add("list", text)
            case "caption":
                builder.add("caption", text)
            case _:
                builder.add("paragraph", text)
    document = builder.build("x")
    assert_sound(document)


def test_flow_takes_no_longer_for_wide_spaces() -> None:
    start = time.process_time()
    assert flow("文" + "\u3000" * 500_000 + "文\n\u3000文") == "文 文文"
    assert time.process_time() - start < 10
