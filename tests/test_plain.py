from readahead.lm.dialogue import Exchange
from readahead.plain import query_behind

BEFORE = [Exchange("When does the dome open?", ())]


def test_a_follow_up_is_searched_for_before_what_it_follows() -> None:
    """An embedder does not read the end of a long text."""
    asked = "And how much is it?"
    assert query_behind(asked, BEFORE) == "And how much is it? When does the dome open?"


def test_a_question_that_stands_for_itself_is_searched_for_alone() -> None:
    asked = "Where can visitors park a bus near the observatory?"
    assert query_behind(asked, BEFORE) == asked
    assert query_behind("And how much is it?", []) == "And how much is it?"
