import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.retrieval.succession import continued


def records(lines: str) -> dict[str, str]:
    """Return digests by place: each letter is a record, a hyphen a blank line."""
    return {f"f#{at}": letter for at, letter in enumerate(lines, 1) if letter != "-"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("abc", "abc", {1: 1, 2: 2, 3: 3}),
        ("abc", "bc", {1: 2, 2: 3}),  # removed
        ("abc", "-bc", {2: 2, 3: 3}),
        ("abc", "xabc", {2: 1, 3: 2, 4: 3}),  # inserted
        ("abc", "cab", {1: 3, 2: 1, 3: 2}),  # moved
        ("abc", "axc", {1: 1, 2: 2, 3: 3}),  # changed in its place
        ("abc", "xbcd", {1: 1, 2: 2, 3: 3}),
        ("abc", "xc", {2: 3}),  # removed, and the next one changed
        ("abc", "ax", {1: 1}),
        ("aab", "ab", {1: 1, 2: 3}),  # the same twice
        ("ab", "aab", {1: 1, 2: None, 3: 2}),
    ],
)
def test_records_without_names(before: str, after: str, expected: dict[int, int | None]) -> None:
    found = continued(records(before), records(after))
    assert found == {f"f#{name}": f"f#{was}" for name, was in expected.items() if was}


def test_a_lasting_name_makes_versions_whatever_else_happens() -> None:
    old = {"f#id=1": "a", "f#id=2": "b", "f#id=3": "c"}
    assert continued(old, {"f#id=3": "x", "f#id=2": "b"}) == {
        "f#id=3": "f#id=3",
        "f#id=2": "f#id=2",
    }
    assert continued({"a.md": "a"}, {"a.md": "b"}) == {"a.md": "a.md"}


def test_records_that_were_named_by_place_get_their_names() -> None:
    assert continued(records("ab"), {"f#id=b": "b", "f#id=1": "x"}) == {"f#id=b": "f#2"}


LINES = st.text("abcd-", max_size=6)


@given(LINES, LINES)
def test_what_is_the_same_goes_on_and_nothing_goes_on_twice(before: str, after: str) -> None:
    old, new = records(before), records(after)
    found = continued(old, new)
    assert len(set(found.values())) == len(found)
    for letter in "abcd":
        same = [name for name, was in found.items() if new[name] == old[was] == letter]
        assert len(same) == min(before.count(letter), after.count(letter))
    for name, was in found.items():
        assert name == was or new[name] == old[was]
