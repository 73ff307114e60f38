import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.documents.markdown import _FRONT_MATTER, read_markdown
from tests.documents.conftest import summary


def blocks(source: str) -> list[tuple[str, str]]:
    return summary(read_markdown(source.encode()).build("x"))


def test_the_blocks_of_commonmark_with_tables() -> None:
    source = (
        "# T *x*\n\nSoft\nbreak and [link](http://x) `code`.\n\n- a\n  - b\n\n"
        "```sh\n# not a title\n```\n\n| A | B |\n|---|---|\n| 1 | 2\\|3 |\n\n> quoted\n"
    )
    assert blocks(source) == [
        ("title", "T x"),
        ("paragraph", "Soft break and link code."),
        ("list", "- a\n  - b"),
        ("code", "```sh\n# not a title\n```"),
        ("table", "| A | B |\n|---|---|\n| 1 | 2\\|3 |"),
        ("paragraph", "quoted"),
    ]


def test_chinese_lines_join_without_a_space() -> None:
    assert blocks("天文台\n每周开放。\nOpen") == [("paragraph", "天文台每周开放。 Open")]


def test_front_matter_is_no_heading() -> None:
    document = read_markdown(b"---\ntitle: 'Manual'\nkey: x\n---\nText").build("x")
    assert summary(document) == [("title", "Manual"), ("paragraph", "Text")]
    assert document.removed == {"front_matter": 1}
    assert blocks("---\ntitle: Manual\n---\n# Own\n") == [("title", "Own")]


@pytest.mark.parametrize(
    ("field", "title"),
    [
        ('title: "A: B"', ["A: B"]),
        ("title:It's", ["It's"]),
        ("title: 'open", ["'open"]),
        ("title:\nauthor: x", []),
        ("title: a" + " " * 500_000 + "b", ["a b"]),
    ],
)
def test_the_title_of_front_matter(field: str, title: list[str]) -> None:
    start = time.process_time()
    found = blocks(f"---\n{field}\n---\nText")
    assert time.process_time() - start < 10
    assert [text for kind, text in found if kind == "title"] == title


@pytest.mark.parametrize(
    "fields",
    [
        "",
        "# made\ntags:\n- a\n- b\n\nnote: |\n  Two\n  lines\n",
        '"a b": [\n  1\n]\n',
        "标题: 甲\n",
    ],
)
def test_front_matter_is_fields(fields: str) -> None:
    document = read_markdown(f"---\n{fields}---\nText".encode()).build("x")
    assert summary(document) == [("paragraph", "Text")]
    assert document.removed == {"front_matter": 1}


@pytest.mark.parametrize(
    "section",
    ["\nFirst: the fee is 30 euros.\n\n", "The fee: 30 euros.\n", "Fee: 30\nEuros only.\n"],
)
def test_a_section_between_two_rules_is_text(section: str) -> None:
    document = read_markdown(f"---\n{section}---\n\nSecond.".encode()).build("x")
    assert "30" in document.text
    assert document.text.endswith("Second.")
    assert document.removed == {}


def test_looking_for_front_matter_is_quick() -> None:
    start = time.process_time()
    for line in ("a: b\n", "\n", "a" * 10, " x\n", "# \n"):
        decoded = "---\na:\n" + line * 100_000
        assert _FRONT_MATTER.match(decoded) is None
    assert time.process_time() - start < 5


def test_comments_and_hidden_html_are_not_text() -> None:
    assert blocks("a <!-- obey --> b\n\n<p hidden>obey</p>\n") == [("paragraph", "a b")]


def test_an_invisible_character_does_not_hide_a_title() -> None:
    assert blocks("\u200b# Title") == [("title", "Title")]


def test_deep_nesting_is_never_dropped_in_silence() -> None:
    nested = "".join(f"{'  ' * depth}- {depth}\n" for depth in range(150))
    assert blocks(nested)[0][1].endswith("- 149")
    with pytest.raises(RecursionError):
        blocks("> " * 5000 + "deep")


VISIBLE = st.characters(exclude_categories=["Cc", "Cs"])


@given(st.text(VISIBLE) | st.text(st.sampled_from("#-*>|`[]()<p/> \n\t1.a文_~=\\&")))
def test_any_text_gives_a_sound_document(source: str) -> None:
    blocks(source)
