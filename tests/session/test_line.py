import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.config import PrefetchConfig
from readahead.session.line import (
    Typed,
    can_finish,
    next_change_s,
    settles_after_s,
    stage_of,
    state_of,
    too_early_s,
)

CONFIG = PrefetchConfig(settle_s=0.12, rest_s=0.3)


def typed(text: str, *, seconds: float = 1.0, quiet_s: float = 0.0) -> Typed:
    """Return a line that took ``seconds`` to type, the last stroke ``quiet_s`` ago."""
    last_s = time.monotonic() - quiet_s
    return Typed(text, last_s - seconds, last_s)


@pytest.mark.parametrize(
    ("text", "seconds", "settles_s"),
    [
        ("w", 0.0, 0.12),  # the first stroke
        ("what is this", 11 * 0.05, 0.12),  # 50 ms between strokes
        ("what is this", 11 * 0.1, 0.15),
        ("what is this", 11 * 0.4, 0.3),  # a rest
        ("pasted in one go", 0.0, 0.12),
    ],
)
def test_a_word_settles_at_the_pace_of_the_typist(
    text: str, seconds: float, settles_s: float
) -> None:
    line = Typed(text, 5.0, 5.0 + seconds)
    assert settles_after_s(line, CONFIG) == pytest.approx(settles_s)


def test_the_last_word_of_a_moving_line_is_left_out() -> None:
    assert state_of(typed("how deep is Bai"), CONFIG) == ("how deep is", False)
    assert state_of(typed("how deep is Bai", quiet_s=1), CONFIG) == ("how deep is Bai", True)


def test_a_question_is_finished_once_it_stands_still() -> None:
    question = "How deep is Lake Baikal?"
    assert not can_finish(typed(question), CONFIG)
    assert can_finish(typed(question, quiet_s=0.2), CONFIG)
    assert stage_of(typed(question, quiet_s=0.2), CONFIG) == (question, False)
    assert stage_of(typed(question, quiet_s=0.4), CONFIG) == (question, True)


@given(
    st.text(max_size=30),
    st.floats(0, 20, allow_subnormal=False),
    st.floats(0, 2, allow_subnormal=False),
)
def test_who_waits_as_long_as_told_finds_a_change_ahead_or_none(
    text: str, seconds: float, quiet_s: float
) -> None:
    line = typed(text, seconds=seconds, quiet_s=quiet_s)
    left_s = next_change_s(line, CONFIG)
    if left_s is None:
        assert too_early_s(line, CONFIG) <= 0
        assert stage_of(line, CONFIG)[1] or line.quiet_s >= CONFIG.rest_s
    else:
        assert 0 < left_s <= max(CONFIG.rest_s, CONFIG.min_typing_s, CONFIG.debounce_s)
