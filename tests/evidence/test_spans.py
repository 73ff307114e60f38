"""Quotations are found however they were typeset, and every span leads back to its text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.evidence.spans import find_run, normalize

AWKWARD = st.text(
    st.sampled_from(
        "ab Z  \n\t\x10 ﬁ ﬀ ﬃ ½ Å e\u0301 \u200b\u00ad\u202f\ufeff "
        "–−- “ … ヿ ｶﾞ が 한 \u1112\u1161 ß中"
    )
    | st.characters(exclude_categories=["Cs"]),
    max_size=40,
)


def found(sought: str, text: str) -> tuple[str, str] | None:
    run = find_run(normalize(sought).squeezed(), normalize(text).squeezed(), text)
    return (run.kind, text[run.start : run.end]) if run else None


@pytest.mark.parametrize(
    ("sought", "text", "expected"),
    [
        ("scientific method", "the scientiﬁc   \nmethod is", "scientiﬁc   \nmethod"),
        ("a field of study", "It is a ﬁ eld of study.", "a ﬁ eld of study"),
        ("so-called “best” shop", 'a so–called "best" shop', 'so–called "best" shop'),
        ("zero width", "ze\u200bro\u00ad width", "ze\u200bro\u00ad width"),
        ("Straße", "in der STRASSE", "STRASSE"),
        ("コト", "このヿ。", "ヿ"),
        ("ガ", "ｶﾞ", "ｶﾞ"),
        ("wait...", "So, wait… no", "wait…"),
        ("10 000", "some 10\u202f000 men", "10\u202f000"),
        ("Paris", "Parisian or Paris", "Paris"),
        ("5", "1.5 and 5,000 and 5.5 and 5.", "5"),
        ("北京", "他在北京工作。", "北京"),
    ],
)
def test_a_whole_quotation(sought: str, text: str, expected: str) -> None:
    assert found(sought, text) == ("verbatim", expected)


@pytest.mark.parametrize("text", ["Parisian", "1.5", "15", "5,000", "", "p a r"])
def test_no_part_of_a_word_or_number_is_a_quotation(text: str) -> None:
    assert found("5", text) is None
    assert found("Paris", text) is None


def test_nearly_all_in_one_run() -> None:
    text = "Our shop opened its doors early in the spring of 1990."
    near = "The shop opened its doors early in the spring of 1990"
    assert found(near, text) == ("near", "shop opened its doors early in the spring of 1990")
    # The same words in two runs are no quotation.
    assert found("shop opened its doors in the spring of 1990", text) is None
    # Eleven characters are too few to be nearly anything.
    assert found("opened itsx", text) is None


def test_nothing_is_found_of_nothing() -> None:
    assert found("", "text") is None
    assert found("\u200b ", "text") is None
    assert found("text", "") is None


@given(AWKWARD, st.data())
def test_every_span_normalises_to_what_was_found(text: str, data: st.DataObject) -> None:
    normal = normalize(text)
    assert len(normal.text) == len(normal.starts) == len(normal.ends)
    assert "  " not in normal.text
    if not normal.text:
        return
    start = data.draw(st.integers(0, len(normal.text) - 1))
    end = data.draw(st.integers(start + 1, len(normal.text)))
    source_start, source_end = normal.source(start, end)
    assert 0 <= source_start < source_end <= len(text)
    part = normalize(text[source_start:source_end]).text
    wanted = normal.text[start:end]
    assert wanted.strip(" ") in part
    # Only a character that became several may bring more than was asked for.
    if (
        normal.starts.count(normal.starts[start])
        == normal.starts.count(normal.starts[end - 1])
        == 1
    ):
        assert part.strip(" ") == wanted.strip(" ")


@given(AWKWARD, AWKWARD, AWKWARD)
def test_what_is_there_is_found(before: str, sought: str, behind: str) -> None:
    text = f"{before} {sought} {behind}"
    if not normalize(sought).squeezed().text:
        return
    run = find_run(normalize(sought).squeezed(), normalize(text).squeezed(), text)
    assert run is not None or not sought.strip()
    if run is not None:
        got = normalize(text[run.start : run.end]).squeezed().text
        assert normalize(sought).squeezed().text in got or run.kind == "near"
