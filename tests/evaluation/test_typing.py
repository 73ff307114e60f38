import time

import pytest

from readahead.evaluation.typing import strokes, type_out


def test_each_stroke_adds_a_character_and_words_take_the_same_time() -> None:
    struck = list(strokes("who is it", words_per_s=2.0))
    assert [typed for _, typed in struck] == ["who is it"[:n] for n in range(1, 10)]
    at = dict((typed, at_s) for at_s, typed in struck)
    assert (at["who"], at["who is"], at["who is it"]) == pytest.approx((0.5, 1.0, 1.5))


def test_scripts_without_spaces_are_typed_in_pairs() -> None:
    struck = list(strokes("天文台几点", words_per_s=1.0))
    at_s, typed = struck[-1]
    assert typed == "天文台几点"
    assert at_s == pytest.approx(3.0)


def test_typing_takes_its_time_and_ends_with_the_pause() -> None:
    seen: list[str] = []
    began_s = time.monotonic()
    type_out("ab cd", seen.append, words_per_s=20.0, pause_s=0.05)
    assert 0.15 <= time.monotonic() - began_s < 5.0
    assert seen[-1] == "ab cd"


def test_nothing_to_type_is_only_a_pause() -> None:
    type_out("", pytest.fail, pause_s=0.0)
