import string
import sys
from pathlib import Path

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from readahead.retrieval import lexical
from readahead.retrieval.lexical import MAX_QUERY_TERMS

TEXTS = {
    1: "解除劳动合同应当采用书面形式。",
    2: "回滚事务后不会留下悬空引用。",
    3: "A multi-agent system written in node.js, see foo/bar and ITGC-04.",
    4: "C++ templates; 50% of the policy's cost. Why? @nasa asked. The café reopened.",
    5: "The the the and of.",
    6: "马",
}
# Every one of these is an error, or finds nothing, when it is taken for FTS5's query syntax.
ORDINARY = [
    *("multi-agent", "C++", "why?", "50%", "policy's", '""', '"', " ", "AND", "OR NOT", "(", ")"),
    *(
        "*",
        "^café",
        "a:b",
        "foo/bar",
        "node.js",
        "@nasa",
        "-x",
        "NEAR(a b)",
        "\0",
        "\ud800",
        "a\0b",
    ),
]


@pytest.fixture(scope="module")
def table() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute(lexical.SCHEMA)
    for rowid, text in TEXTS.items():
        lexical.insert(connection, rowid, "", text)
    return connection


def search(table: apsw.Connection, query: str) -> list[int]:
    return [rowid for rowid, _ in lexical.search(table, query, 10, None)]


@pytest.mark.parametrize(
    ("query", "rowid"),
    [
        *(("解除", 1), ("合同", 1), ("劳动合同", 1), ("书面形式", 1), ("书", 1), ("式", 1)),
        *(("回滚", 2), ("悬空", 2), ("马", 6), ("itgc", 3), ("multi-agent", 3), ("foo/bar", 3)),
        *(("node.js", 3), ("Node.js?", 3), ("C++", 4), ("why?", 4), ("50%", 4), ("policy's", 4)),
        *(("@nasa", 4), ("cafe", 4), ("CAFE\u0301", 4), ("ｃａｆé", 4), ("templates", 4)),
        *(("template", 4), ("什么是书面形式？", 1), ("the of", 5)),
    ],
)
def test_literal_text_is_found(table: apsw.Connection, query: str, rowid: int) -> None:
    assert rowid in search(table, query)


def test_only_what_holds_a_word_is_found(table: apsw.Connection) -> None:
    assert search(table, "悬空") == [2]
    assert search(table, "除劳") == [1]
    assert search(table, "absent") == []


@pytest.mark.parametrize("query", ORDINARY)
def test_ordinary_strings_do_not_raise(table: apsw.Connection, query: str) -> None:
    lexical.search(table, query, 10, None)


@given(st.text(st.characters() | st.sampled_from(string.punctuation + "\0\ud800\udfff马")))
@example("\U0001e900\u0301")
@example("x" * 100_000)
@example(" ".join(map(str, range(10_000))))
def test_no_string_raises(table: apsw.Connection, query: str) -> None:
    lexical.search(table, query, 10, None)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_whatever_was_indexed_can_be_deleted(text: str) -> None:
    connection = apsw.Connection(":memory:")
    connection.execute(lexical.SCHEMA)
    lexical.insert(connection, 1, text, text)
    lexical.delete(connection, 1, text, text)
    connection.execute("INSERT INTO passages_fts (passages_fts) VALUES ('integrity-check')")
    assert connection.execute("SELECT count(*) FROM passages_fts_docsize").get == 0


@given(st.text("劳动合同ab 1。", min_size=1), st.data())
def test_any_part_of_a_text_is_found(text: str, data: st.DataObject) -> None:
    """Parts are cut at spaces and points, since half an English word is not a word."""
    connection = apsw.Connection(":memory:")
    connection.execute(lexical.SCHEMA)
    lexical.insert(connection, 1, "", text)
    parts = [part for part in text.replace("。", " ").split() if part]
    if parts:
        assert search(connection, data.draw(st.sampled_from(parts))) == [1]


def test_a_word_is_found_by_itself_whatever_its_letters_fold_to() -> None:
    changing = [char for char in map(chr, range(sys.maxunicode)) if char != char.casefold()]
    connection = apsw.Connection(":memory:")
    connection.execute(lexical.SCHEMA)
    for char in changing:
        lexical.insert(connection, ord(char), "", f"x{char}x")
    missed = [
        char
        for char in changing
        if ord(char) not in dict(lexical.search(connection, f"x{char}x", 1000, None))
    ]
    assert missed == []


def test_case_is_folded_in_full() -> None:
    connection = apsw.Connection(":memory:")
    connection.execute(lexical.SCHEMA)
    lexical.insert(connection, 1, "Weiß", "Die Straße ist lang.")
    for query in ("Straße", "STRASSE", "strasse", "weiß"):
        assert search(connection, query) == [1]


def test_terms_are_distinct_and_without_stop_words() -> None:
    assert lexical.terms("What is the Node.js node of 劳动合同 的?") == [
        *("node", "js", "劳动", "动合", "合同"),
    ]
    assert lexical.terms("The of the") == ["the", "of"]
    assert lexical.terms("?!") == []


def filled(*texts: str) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute(lexical.SCHEMA)
    for rowid, text in enumerate(texts, start=1):
        lexical.insert(connection, rowid, "", text)
    return connection


def test_of_a_long_query_the_rarest_terms_are_searched() -> None:
    common = " ".join(f"common{number}" for number in range(80))
    connection = filled(*[common] * 5, "The dome is open.", "望远镜的门票价格是三十欧元。")
    unknown = " ".join(f"unknown{number}" for number in range(200))
    for query in (f"dome {common}", f"{common} dome", f"{common} {unknown} dome"):
        assert search(connection, query)[0] == 6
        assert set(search(connection, query)) == {1, 2, 3, 4, 5, 6}
    preface = "我们公司成立于上海主要从事软件开发和咨询服务员工大约有两百人客户遍布全国各地" * 3
    assert search(connection, f"{common} {preface}，请问门票多少钱？")[0] == 7


def test_a_query_of_unknown_terms_alone_finds_nothing() -> None:
    assert search(filled("The dome."), " ".join(f"unknown{number}" for number in range(99))) == []


@given(st.lists(st.integers(0, 99), max_size=MAX_QUERY_TERMS), st.integers(1, 9))
def test_of_a_short_query_all_terms_are_searched_as_ever(numbers: list[int], n: int) -> None:
    connection = filled(*(" ".join(f"w{n}" for n in range(at % 13, 99, 7)) for at in range(20)))
    query = " ".join(f"w{number}" for number in numbers)
    words = lexical.terms(query)
    before = connection.execute(
        "SELECT rowid, -rank FROM passages_fts WHERE passages_fts MATCH ? "
        "ORDER BY rank, rowid LIMIT ?",
        (" OR ".join(f'"{word}"' for word in words) or '""', n),
    ).fetchall()
    assert lexical.search(connection, query, n, None) == before


def test_a_heading_word_counts_more_than_a_word_of_the_text() -> None:
    connection = apsw.Connection(":memory:")
    connection.execute(lexical.SCHEMA)
    lexical.insert(connection, 1, "Other", "tickets tell many things")
    lexical.insert(connection, 2, "Tickets", "other tell many things")
    assert search(connection, "tickets") == [2, 1]


def test_forgotten_terms_leave_the_file(tmp_path: Path) -> None:
    file = tmp_path / "fts.db"
    connection = apsw.Connection(str(file))
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute(lexical.SCHEMA)
    lexical.insert(connection, 1, "", "xylophonist")
    lexical.insert(connection, 2, "", "something else")
    lexical.delete(connection, 1, "", "xylophonist")
    assert b"xylophonist" in file.read_bytes()
    lexical.forget(connection)
    assert b"xylophonist" not in file.read_bytes()


@pytest.fixture(scope="module")
def hundred() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute(lexical.SCHEMA)
    for rowid in range(1, 101):
        tenth = "comets 彗星" if rowid % 10 == 0 else ""
        lexical.insert(connection, rowid, "", f"dome {tenth} number{rowid}")
    return connection


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *(("dome", 0.0), ("the", 0.0), ("", 0.0), ("?!", 0.0), ("的", 0.0)),
        *(("comets", 0.5), ("Comet", 0.5), ("彗星", 0.5), ("彗", 0.5)),
        *(
            ("number7", 1.0),
            ("absent", 1.0),
            ("dome-comet", 0.5),
            ("comet-dome", 0.5),
            ("the彗星", 0.5),
        ),
    ],
)
def test_the_fewer_passages_a_word_is_in_the_rarer_it_is(
    hundred: apsw.Connection, word: str, expected: float
) -> None:
    assert lexical.rarity(hundred, word) == pytest.approx(expected)


@given(st.text(st.characters() | st.sampled_from('"*()^:\0\ud800馆')))
@example("\ud800\0")
def test_every_string_has_a_rarity(word: str) -> None:
    connection = apsw.Connection(":memory:")
    connection.execute(lexical.SCHEMA)
    lexical.insert(connection, 1, "", "one passage")
    assert 0.0 <= lexical.rarity(connection, word) <= 1.0
