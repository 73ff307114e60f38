"""Edits change one value, and nothing else."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from readahead.evaluation.edits import edited
from readahead.evidence.spans import normalize
from readahead.evidence.values import read_values


@pytest.mark.parametrize(
    ("sentence", "kinds"),
    [
        ("It opened in 1990.", {"date"}),
        ("It opened on March 3.", {"date"}),
        ("Sales rose by 85 %.", {"percentage"}),
        ("It costs 1,200 dollars.", {"money", "unit"}),
        ("It takes five days.", {"quantity", "unit"}),
        ("Some 46 people came.", {"number"}),
        ("It runs on 3.10.2 and later.", {"number"}),
        ("退款需要三十天。", {"quantity", "unit"}),
    ],
)
def test_one_value_is_changed(sentence: str, kinds: set[str]) -> None:
    seen = set()
    for seed in range(20):
        edit = edited(sentence, random.Random(seed))
        assert edit is not None
        seen.add(edit.kind)
        assert edit.text != sentence
        assert edit.after in edit.text
        before = read_values(normalize(sentence))
        assert not any(
            value.states(new) for new in read_values(normalize(edit.text)) for value in before
        )
    assert seen == kinds


def test_the_same_seed_makes_the_same_edit() -> None:
    text = "In 1990 it had 46 rooms, 12 of them empty."
    assert edited(text, random.Random(3)) == edited(text, random.Random(3))


@pytest.mark.parametrize("sentence", ["", "No value at all.", "The one and only."])
def test_without_a_value_there_is_no_edit(sentence: str) -> None:
    assert edited(sentence, random.Random(0)) is None


@example("0.0.0", 0)
@given(st.text(st.sampled_from("0123456789 ,.%$年月天kmdays "), max_size=30), st.integers(0, 9))
def test_any_text_can_be_edited(text: str, seed: int) -> None:
    edit = edited(text, random.Random(seed))
    assert edit is None or edit.text != text
