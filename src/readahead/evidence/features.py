"""What of a claim stands in the passages, as a few numbers from which a model tells support.

    window   = max_W Σ_i w_i c_iW / Σ_i w_i       W: up to six neighbouring sentences
    names    = log(1 + names that no passage holds)
    values   = the share of the claim's values, or of their parts, that no passage states
    trigrams = max_s |G(claim) ∩ G(s)| / |G(claim)|    runs of three words in one sentence

i: the words and values of the claim; w_i: rarity, more for names and values; c_iW: the best credit
of a sentence of W, in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from readahead.evidence.reading import Item, Reading, Sentence

NUM_IN_WINDOW = 6

FEATURES = ("window", "names", "values", "trigrams")


@dataclass(frozen=True, slots=True)
class Coverage:
    """What each sentence holds of a claim.

    Attributes:
        credits: For each sentence, the credit of each item.
        shares: For each sentence, the share of all weights that it holds.
        window: The sentences ``[start, end)`` that hold most together.
    """

    items: tuple[Item, ...]
    credits: tuple[tuple[float, ...], ...]
    shares: tuple[float, ...]
    window: tuple[int, int]
    features: dict[str, float]


def cover(claim: Sentence, items: Sequence[Item], reading: Reading) -> Coverage:
    """Return what of a claim stands where."""
    columns = [item.credits(reading.sentences) for item in items]
    credits = tuple(
        tuple(column[row] for column in columns) for row in range(len(reading.sentences))
    )
    total = math.fsum(item.weight for item in items) or 1.0
    shares = tuple(_weighed(items, row) / total for row in credits)
    window, held = _best_window(items, credits, reading.sentences)
    anywhere = [max(column) for column in zip(*credits, strict=True)] or [0.0] * len(items)
    claimed = [i for i, item in enumerate(items) if not item.is_asked]
    values = [i for i in claimed if items[i].value is not None]
    features = {
        "window": _weighed(items, held) / total,
        "names": math.log1p(sum(items[i].is_name and not anywhere[i] for i in claimed)),
        "values": math.fsum(1 - anywhere[i] for i in values) / max(1, len(values)),
        "trigrams": max((len(claim.grams & s.grams) for s in reading.sentences), default=0)
        / max(1, len(claim.grams)),
    }
    return Coverage(tuple(items), credits, shares, window, features)


def _weighed(items: Sequence[Item], credits: Sequence[float]) -> float:
    return math.fsum(item.weight * credit for item, credit in zip(items, credits, strict=True))


def _best_window(
    items: Sequence[Item], credits: Sequence[Sequence[float]], sentences: Sequence[Sentence]
) -> tuple[tuple[int, int], list[float]]:
    """Return the neighbouring sentences of one passage that hold most, and what they hold."""
    best, best_held, most = (0, 0), [0.0] * len(items), 0.0
    for start in range(len(sentences)):
        end = start + 1
        while (
            end < min(len(sentences), start + NUM_IN_WINDOW)
            and sentences[end].passage == sentences[start].passage
        ):
            end += 1
        held = [max(column) for column in zip(*credits[start:end], strict=True)]
        if (sum_held := _weighed(items, held)) > most:
            best, best_held, most = (start, end), held, sum_held
    return best, best_held
