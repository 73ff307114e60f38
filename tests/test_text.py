"""Words and sentences with offsets, in English and Chinese."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.text import fold, is_cjk, num_words, sentences, words

ANY_TEXT = st.text(
    st.sampled_from("aB1 .!?…。！？；，,\n\t|-*\"”)）中文カガ한é\u0301_#'") | st.characters(),
    max_size=80,
)


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t ", []),
        ("No point at the end", ["No point at the end"]),
        ("One. Two! Three? Four.", ["One.", "Two!", "Three?", "Four."]),
        ("It costs 3.5 dollars. Really?!", ["It costs 3.5 dollars.", "Really?!"]),
        (
            "Dr. Smith met J. K. Rowling. They spoke.",
            ["Dr. Smith met J. K. Rowling.", "They spoke."],
        ),
        (
            "See No. 5 and Fig. 3. I said no. We left.",
            ["See No. 5 and Fig. 3.", "I said no.", "We left."],
        ),
        (
            "Apple Inc. The firm grew. Apple Inc. Stock rose.",
            ["Apple Inc.", "The firm grew.", "Apple Inc. Stock rose."],
        ),
        ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
        (
            "Opened in 1990.[1] It closed. [2][3] Why? [4]",
            ["Opened in 1990.[1]", "It closed. [2][3]", "Why? [4]"],
        ),
        ("他来了。[1]她走了。", ["他来了。[1]", "她走了。"]),
        ("Wait… what? Fine… Good.", ["Wait… what?", "Fine…", "Good."]),
        ("Use e.g. Python or i.e. C.", ["Use e.g. Python or i.e. C."]),
        ("1. First item\n2. Second item", ["1. First item", "2. Second item"]),
        ("- one\n- two", ["- one", "- two"]),
        ("| a | b |\n| 1 | 2 |", ["| a | b |", "| 1 | 2 |"]),
        ("A line that\nwraps.\n\nA paragraph", ["A line that\nwraps.", "A paragraph"]),
        ("你好。我是谁？走！", ["你好。", "我是谁？", "走！"]),
        ("他说：“你好。”然后走了。", ["他说：“你好。”", "然后走了。"]),
        ("真的？……不会吧！！", ["真的？……", "不会吧！！"]),
        ("你好!我是小明.你呢?", ["你好!", "我是小明.", "你呢?"]),
        ("价格是3.5元.使用Node.js运行。", ["价格是3.5元.", "使用Node.js运行。"]),
        ("1.苹果；2.梨。", ["1.苹果；", "2.梨。"]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert split(text) == expected


@given(ANY_TEXT)
def test_sentences_cover_everything_but_white_space(text: str) -> None:
    end = 0
    for start, stop in sentences(text):
        assert end <= start < stop
        assert not text[end:start].strip()
        assert text[start:stop] == text[start:stop].strip()
        end = stop
    assert not text[end:].strip()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node.js, multi-agent and 1,024.5!", ["node.js", "multi-agent", "and", "1,024.5"]),
        ("don't max_words", ["don't", "max", "words"]),
        ("cafe\u0301s", ["cafe\u0301s"]),
        ("第5章 HTTP请求", ["第", "5", "章", "HTTP", "请", "求"]),
        ("!!! --- ___", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in words(text)] == expected


def test_num_words_counts_cjk_characters_as_parts_of_words() -> None:
    assert num_words("two words") == 2
    assert num_words("八个汉字等于五词") == pytest.approx(5)
    assert num_words("HTTP 请求很多") == pytest.approx(1 + 4 / 1.6)


@given(ANY_TEXT, ANY_TEXT)
def test_num_words_adds_up(left: str, right: str) -> None:
    assert num_words(f"{left}\n{right}") == pytest.approx(num_words(left) + num_words(right))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Röntgen", "rontgen"),
        ("ＡＢＣ１２", "abc12"),
        ("ﬁeld", "field"),
        ("STRASSE", "straße"),
        ("e\u0301", "é"),
        ("ℌ", "h"),
        ("한국", "한국"),
    ],
)
def test_fold_makes_equal(left: str, right: str) -> None:
    assert fold(left) == fold(right)


def test_fold_keeps_what_tells_words_apart() -> None:
    assert fold("ガ") != fold("カ")
    assert is_cjk(fold("한")[0])


@given(st.text(max_size=40))
def test_fold_twice_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@pytest.mark.parametrize(
    "text",
    [
        "." * 200_000 + "x",
        "\n" + " " * 200_000 + "x",
        "Well. " * 60_000,
        "a" * 300_000,
        "他走了。" * 60_000,
        '"".' * 100_000,
    ],
    ids=["dots", "spaces", "sentences", "token", "chinese", "quotes"],
)
def test_time_is_linear(text: str) -> None:
    started = time.process_time()
    sentences(text)
    num_words(text)
    assert time.process_time() - started < 2.0
