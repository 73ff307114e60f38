"""Passages follow the structure, keep their limits, and lose no character."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.config import PassagesConfig
from readahead.retrieval.chunk import chunk
from readahead.text import num_words
from readahead.types import Block, BlockKind, Document, Passage

SMALL = PassagesConfig(max_words=12, max_words_deep=6)
Part = tuple[BlockKind, str, int]


def build(*parts: Part) -> Document:
    """Join (kind, text, level) parts as a reader would; level counts for titles only."""
    text = ""
    blocks: list[Block] = []
    path: list[tuple[int, str]] = []
    for kind, body, level in parts:
        if kind == "title":
            path = [(depth, title) for depth, title in path if depth < level] + [(level, body)]
        heading = tuple(title for _, title in path)
        start = len(text)
        text += body + "\n\n"
        page = len(blocks) // 3 + 1
        own_level = level if kind == "title" else None
        blocks.append(Block(kind, start, start + len(body), heading, page, own_level))
    return Document("doc.md", text.rstrip(), tuple(blocks), metadata={"id": 7})


def texts(passages: list[Passage]) -> list[str]:
    return [passage.text for passage in passages]


TOKEN = st.sampled_from(
    ["a", "two", "node.js", "x" * 70, "word.", "Yes!", "他走了。", "中文", "，", "3.5", "(see", "—"]
)
PROSE = st.lists(TOKEN, min_size=1, max_size=40).map(" ".join)
LINES = st.lists(st.lists(TOKEN, min_size=1, max_size=8).map(" ".join), min_size=1, max_size=10)
LEVELS = st.integers(1, 5)
PARTS: st.SearchStrategy[Part] = st.one_of(
    st.tuples(st.just("title"), st.lists(TOKEN, min_size=1, max_size=3).map(" ".join), LEVELS),
    st.tuples(st.sampled_from(["paragraph", "list", "caption"]), PROSE, st.just(0)),
    st.tuples(
        st.just("code"),
        LINES.map(lambda lines: "\n    ".join(["```python", *lines]) + "\n```"),
        st.just(0),
    ),
    st.tuples(
        st.just("table"),
        LINES.map(lambda rows: "\n".join(f"| {row} |" for row in ["h", "---", *rows])),
        st.just(0),
    ),
)
DOCUMENTS = st.lists(PARTS, max_size=8).map(lambda parts: build(*parts))


@given(DOCUMENTS, st.integers(1, 30), st.integers(1, 30))
def test_passages_cover_the_document_in_order_within_the_limit(
    document: Document, max_words: int, max_words_deep: int
) -> None:
    config = PassagesConfig(max_words=max_words, max_words_deep=max_words_deep)
    end = 0
    for passage in chunk(document, config):
        assert end <= passage.start < passage.end
        assert not document.text[end : passage.start].strip()
        assert passage.text == document.text[passage.start : passage.end]
        levels = [
            block.level
            for block in document.blocks
            if block.level and block.start < passage.end and block.heading == passage.heading
        ]
        limit = max_words if not levels or levels[-1] <= 2 else max_words_deep
        if passage.kind == "title":  # over-long titles are cut by the limit of what follows them
            limit = max(max_words, max_words_deep)
        assert num_words(passage.text) <= limit + 1e-6
        end = passage.end
    assert not document.text[end:].strip()


@given(DOCUMENTS)
def test_code_and_tables_that_fit_stay_whole(document: Document) -> None:
    config = PassagesConfig(max_words=40, max_words_deep=40)
    passages = chunk(document, config)
    for block in document.blocks:
        body = document.text[block.start : block.end]
        fits = num_words(body) <= 40 and len(body) <= 40 * 16
        if block.kind in ("code", "table") and fits:
            assert any(p.start <= block.start and block.end <= p.end for p in passages)


@given(DOCUMENTS)
def test_titles_are_alone_only_at_the_end(document: Document) -> None:
    config = PassagesConfig(max_words=500, max_words_deep=500)
    for passage in chunk(document, config)[:-1]:
        assert passage.kind != "title"


@given(st.text(max_size=300))
def test_any_text_without_blocks_is_covered(text: str) -> None:
    passages = chunk(Document("-", text), SMALL)
    kept = "".join("".join(passage.text.split()) for passage in passages)
    assert kept == "".join(text.split())
    assert all(num_words(passage.text) <= 12 + 1e-6 for passage in passages)


def test_a_title_goes_with_the_text_below_it() -> None:
    document = build(
        ("title", "Guide", 1),
        ("title", "Refunds", 2),
        ("paragraph", "Within 30 days.", 0),
        ("title", "Shipping", 2),
        ("paragraph", "Three days.", 0),
        ("title", "Index", 2),
    )
    passages = chunk(document, PassagesConfig())
    assert texts(passages) == [
        "Guide\n\nRefunds\n\nWithin 30 days.",
        "Shipping\n\nThree days.",
        "Index",
    ]
    assert [passage.kind for passage in passages] == ["paragraph", "paragraph", "title"]
    assert passages[1].heading == ("Guide", "Shipping")
    assert passages[1].page == 2
    assert (passages[1].document, passages[1].metadata) == ("doc.md", {"id": 7})


def test_a_title_makes_room_for_itself() -> None:
    sentences = "One two three four. Five six seven eight. Nine ten eleven twelve."
    passages = chunk(build(("title", "Top", 1), ("paragraph", sentences, 0)), SMALL)
    assert texts(passages) == [
        "Top\n\nOne two three four. Five six seven eight.",
        "Nine ten eleven twelve.",
    ]


def test_short_neighbours_are_merged_and_the_largest_gives_the_kind() -> None:
    document = build(
        ("paragraph", "Install it:", 0),
        ("code", "pip install readahead --upgrade now", 0),
        ("paragraph", "Done.", 0),
    )
    (passage,) = chunk(document, SMALL)
    assert passage.kind == "code"
    assert passage.text == document.text


def test_deep_sections_have_smaller_passages() -> None:
    body = "One two three. Four five six. Seven eight nine."
    deep = chunk(build(("title", "Deep", 3), ("paragraph", body, 0)), SMALL)
    flat = chunk(build(("title", "Flat", 2), ("paragraph", body, 0)), SMALL)
    assert len(flat) == 1
    assert texts(deep)[0] == "Deep\n\nOne two three."


def test_portions_are_even() -> None:
    body = "One two three. " * 6
    passages = chunk(build(("paragraph", body.strip(), 0)), PassagesConfig(max_words=15))
    assert [num_words(passage.text) for passage in passages] == [9, 9]


def test_the_later_pieces_of_a_code_block_know_its_fence() -> None:
    lines = [f"    value_{i} = {i}" for i in range(12)]
    document = build(("code", "\n".join(["```python", *lines, "```"]), 0))
    passages = chunk(document, SMALL)
    assert len(passages) > 2
    assert [passage.context for passage in passages[:2]] == ["", "```python"]
    assert passages[1].text.startswith("    value_")
    assert passages[-1].text.splitlines()[0] != "```"


def test_the_later_pieces_of_a_table_know_its_header() -> None:
    rows = [f"| item {i} | {i} |" for i in range(9)]
    table = "\n".join(["| Name | Price |", "|------|-------|", *rows])
    passages = chunk(build(("table", table, 0), ("paragraph", "After it.", 0)), SMALL)
    assert passages[0].context == ""
    assert passages[1].context == "| Name | Price |\n|------|-------|"
    whole = {*table.splitlines(), "", "After it."}
    assert all(line in whole for passage in passages for line in passage.text.splitlines())


def test_a_huge_header_is_not_repeated() -> None:
    table = "\n".join(["| " + "name " * 20 + "|", "|---|", *["| a b c |"] * 8])
    assert all(passage.context == "" for passage in chunk(build(("table", table, 0)), SMALL))


def test_chinese_is_cut_at_its_sentences() -> None:
    body = "第一句话说明退款的期限。第二句话说明运费由谁承担。第三句话说明如何联系客服。"
    assert texts(chunk(build(("paragraph", body, 0)), SMALL)) == [
        "第一句话说明退款的期限。",
        "第二句话说明运费由谁承担。",
        "第三句话说明如何联系客服。",
    ]


def test_an_over_long_sentence_is_cut_between_words() -> None:
    body = " ".join(f"word{i}," for i in range(30))
    passages = chunk(build(("paragraph", body, 0)), SMALL)
    assert all(passage.text.endswith(",") for passage in passages)
    assert " ".join(texts(passages)) == body


def test_a_blank_document_has_no_passages() -> None:
    assert chunk(Document("empty", " \n "), SMALL) == []


@pytest.mark.parametrize(
    "text",
    ["Some words in a sentence. " * 40_000, "x" * 1_000_000, "他走了很远的路。" * 40_000],
    ids=["english", "token", "chinese"],
)
def test_time_is_linear(text: str) -> None:
    started = time.process_time()
    chunk(Document("big", text), PassagesConfig())
    assert time.process_time() - started < 6.0
