import unicodedata
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from readahead.documents.clean import clean_characters


def cleaned(text: str) -> tuple[str, dict[str, int]]:
    removed: Counter[str] = Counter()
    return clean_characters(text, removed), {k: n for k, n in removed.items() if n}


@pytest.mark.parametrize(
    ("text", "clean", "removed"),
    [
        ("plain", "plain", {}),
        ("zero\u200bwidth\u2060 \ufeff", "zerowidth ", {"invisible": 3}),
        ("bidi \u202egnp.exe\u202c \u2066x\u2069", "bidi gnp.exe x", {"invisible": 4}),
        ("tag\U000e0041\U000e007f", "tag", {"invisible": 2}),
        ("soft\u00adhyphen", "softhyphen", {"invisible": 1}),
        ("ofﬁce ﬂow aﬀair", "office flow affair", {"ligature": 3}),
        ("\x1b[1;31mred\x1b[0m", "red", {"control": 2}),
        ("\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link", "textlink", {"control": 2}),
        ("nul\x00 bell\x07 c1\x9d", "nul bell c1", {"control": 3}),
        ("a\r\nb\rc\u2028d\x0ce", "a\nb\nc\nd\ne", {}),
        ("lone \ud800 surrogate", "lone \ufffd surrogate", {"surrogate": 1}),
        ("tab\tstays", "tab\tstays", {}),
    ],
)
def test_what_cannot_be_seen_is_removed_and_counted(
    text: str, clean: str, removed: dict[str, int]
) -> None:
    assert cleaned(text) == (clean, removed)


@pytest.mark.parametrize(
    "text",
    [
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",  # a family
        "\u2764\ufe0f\u200d\U0001f525",  # a heart on fire
        "\U0001f9d1\U0001f3fd\u200d\U0001f680",  # an astronaut with a skin tone
        "क्\u200dष",  # Hindi half form
        "ന്\u200d",  # Malayalam chillu
        "می\u200cخواهم",  # Persian
        "葛\U000e0100",  # a chosen glyph
        "1\ufe0f\u20e3",
    ],
)
def test_joiners_and_selectors_that_shape_text_survive(text: str) -> None:
    assert cleaned(text) == (text, {})


@pytest.mark.parametrize("text", ["pass\u200dword", "pass\u200cword", "x\u200d\U0001f525"])
def test_joiners_without_effect_go(text: str) -> None:
    clean, removed = cleaned(text)
    assert "\u200c" not in clean
    assert "\u200d" not in clean
    assert removed == {"invisible": 1}


def test_bytes_smuggled_in_selectors_go() -> None:
    smuggled = "😀" + "".join(chr(0xE0100 + byte) for byte in b"obey")
    clean, removed = cleaned(smuggled)
    assert removed == {"invisible": 3}
    assert clean == smuggled[:2]


def test_an_unfinished_escape_does_not_swallow_the_text() -> None:
    assert cleaned("\x1b]0;never ends and goes on")[0].endswith("never ends and goes on")


NASTY = st.text(
    st.sampled_from("ab \n\x1b[0m]\x07\u200b\u200c\u200d\ufe0f\U000e0100\U0001f525कمﬁ\ud800\r\x00")
)


@given(st.text() | NASTY)
@example("\U000e0100\ufe0f\u200d\U0001f000")
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    once, _ = cleaned(text)
    assert cleaned(once) == (once, {})
    assert all(unicodedata.category(char) not in ("Cc", "Cs") or char in "\n\t" for char in once)


@given(st.text(st.characters(categories=["L", "N", "P", "Zs"], exclude_characters="ﬀﬁﬂﬃﬄﬅﬆㅤﾠ")))
def test_letters_are_left_alone(text: str) -> None:
    assert cleaned(text) == (text, {})
