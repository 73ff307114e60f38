"""Markers are read and taken out; code is left alone."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.evidence import Markers


@pytest.mark.parametrize(
    ("text", "stripped", "indices"),
    [
        ("Within 30 days [1].", "Within 30 days.", (1,)),
        ("Within 30 days [1][2].", "Within 30 days.", (1, 2)),
        ("Both [1, 2] and [2,3] say so.", "Both and say so.", (1, 2, 3)),
        ("五天【1】，见【2，3】。", "五天，见。", (1, 2, 3)),
        ("五天[1]。", "五天。", (1,)),
        ("[passage 2] Yes.", "Yes.", (2,)),
        ("Yes (Passage 2).", "Yes.", (2,)),
        ("Yes [Source 1; 3].", "Yes.", (1, 3)),
        ("All of them [1-3].", "All of them.", (1, 2, 3)),
        ("All of them [^1].", "All of them.", (1,)),
        ("Item `a[1]` is first [2].", "Item `a[1]` is first.", (2,)),
        ("```\nx [1]\n```", "```\nx [1]\n```", ()),
        ("Run ``x ` [1]`` and ` [2].", "Run ``x ` [1]`` and `.", (2,)),
        ("Use a[1] or m[1][2] or x[0].", "Use a[1] or m[1][2] or x[0].", ()),
        ("It lies in [0, 1].", "It lies in [0, 1].", ()),
        ("It was then [2019].", "It was then [2019].", ()),
        ("A (1) and (2).", "A (1) and (2).", ()),
        ("[1]", "", (1,)),
        ("", "", ()),
    ],
)
def test_read(text: str, stripped: str, indices: tuple[int, ...]) -> None:
    assert Markers.read(text) == Markers(stripped, indices)


@given(st.text(st.sampled_from("a1[]【】`, 。()\n"), max_size=40))
def test_only_markers_and_spaces_go(text: str) -> None:
    markers = Markers.read(text)
    assert all(1 <= index <= 99 for index in markers.indices)
    if not markers.indices:
        assert markers.text == text
    rest = iter(text)
    assert all(char in rest for char in markers.text)


@pytest.mark.parametrize(
    "text",
    ["".join("`" * length + "a" for length in range(1, 700)), "`a` [1] " * 30_000],
    ids=["runs of all lengths", "code and markers in turn"],
)
def test_a_text_made_to_be_slow_is_read_at_once(text: str) -> None:
    began_s = time.process_time()
    Markers.read(text)
    assert time.process_time() - began_s < 10.0  # minutes, with all other threads held up, before
