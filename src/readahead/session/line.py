"""What stands in the input line, and what may be done for it by now; knows no threads."""

from __future__ import annotations

import time
from dataclasses import dataclass

from readahead.config import PrefetchConfig
from readahead.speculation.retrieval.typed import complete_part, looks_finished

STROKES_TO_SETTLE = 1.5


@dataclass(frozen=True, slots=True)
class Typed:
    """What stands in the input line.

    Attributes:
        first_s: When its first key was struck, on the clock of the process.
        last_s: When its last one was.
    """

    text: str
    first_s: float
    last_s: float

    @property
    def quiet_s(self) -> float:
        """Return for how long no key was struck."""
        return time.monotonic() - self.last_s


NOTHING = Typed("", 0.0, 0.0)


def settles_after_s(typed: Typed, config: PrefetchConfig) -> float:
    """Return after how many seconds without a stroke the last word counts as whole.

    A slow typist's strokes are further apart, within a word, too.
    """
    stroke_s = (typed.last_s - typed.first_s) / max(1, len(typed.text) - 1)
    return min(config.rest_s, max(config.settle_s, STROKES_TO_SETTLE * stroke_s))


def state_of(typed: Typed, config: PrefetchConfig) -> tuple[str, bool]:
    """Return how much of the line is certain, and whether its last word is, too."""
    is_settled = typed.quiet_s >= settles_after_s(typed, config)
    return typed.text.strip() if is_settled else complete_part(typed.text), is_settled


def can_finish(typed: Typed, config: PrefetchConfig) -> bool:
    """Return whether the line stands still and reads like a whole question."""
    return state_of(typed, config)[1] and looks_finished(typed.text)


def stage_of(typed: Typed, config: PrefetchConfig) -> tuple[str, bool]:
    """Return the line, and whether no key has moved for so long that Enter is likely."""
    return typed.text.strip(), typed.quiet_s >= config.rest_s


def too_early_s(typed: Typed, config: PrefetchConfig) -> float:
    """Return how long it is too early for a guess; it is not where that is 0 or less."""
    begun_s = typed.first_s + config.min_typing_s - time.monotonic()
    return max(begun_s, config.debounce_s - typed.quiet_s)


def next_change_s(typed: Typed, config: PrefetchConfig) -> float | None:
    """Return in how many seconds something may be due though no key is struck."""
    pauses_s = (settles_after_s(typed, config), config.rest_s)
    left_s = [too_early_s(typed, config), *(pause_s - typed.quiet_s for pause_s in pauses_s)]
    return min((left for left in left_s if left > 0), default=None)
