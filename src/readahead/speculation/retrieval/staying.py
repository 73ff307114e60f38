"""Say how likely each passage found for a half-typed question is shown once it is finished.

Knows no words: what is typed, and how much of it a passage holds, is given to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from readahead.logistic import Logistic
from readahead.types import Hit

PACKAGE = "readahead.speculation.retrieval"
MODEL = "staying"
OF_THE_WORDS = ("words", "rarest", "information")
_MAX_RUN = 6


class Staying:
    """Follows one question while it is typed; ``reset`` before the next.

    Args:
        model: Signals to a probability; by default the one that is shipped.
    """

    def __init__(self, model: Logistic | None = None) -> None:
        self._model = model or Logistic.load(PACKAGE, MODEL)
        self.reset()

    def reset(self) -> None:
        """Forget the question; the next one begins."""
        self._runs: dict[str, int] = {}

    def probabilities(self, signals: Sequence[Mapping[str, float]]) -> tuple[float, ...]:
        """Return for each hit that was measured the probability that it will be shown."""
        return tuple(self._model.probability(each) for each in signals)

    def measure(
        self, hits: Sequence[Hit], k: int, said: Mapping[str, float], told: Sequence[float]
    ) -> list[dict[str, float]]:
        """Return the signals of each hit, and remember the first ``k`` for the next result.

        Of the words, the same for all: those of ``OF_THE_WORDS``; and how much of them the passage
        has ``told``. Of the ranking: the ``rank``, a logarithm that is 0 for the last one shown;
        whether it ``is_first``; and for how many results it has been shown (``run``). Of the hit:
        ``score`` and ``similarity``; the ``lead`` of each over the best one that is not shown, or,
        for one that is not shown, over the worst one that is; and how far its similarity is
        ``behind`` the highest.

        Args:
            hits: Best first, those that may be shown.
            k: How many are shown.
            said: The gate's signals of the same result.
            told: For each hit, the summed rarities of the typed words that it holds.
        """
        self._runs = {hit.passage.id: self._runs.get(hit.passage.id, 0) + 1 for hit in hits[:k]}
        scores = [hit.score for hit in hits]
        similarities = [hit.similarity for hit in hits if hit.similarity is not None]
        measured = []
        for place, hit in enumerate(hits):
            signals = {name: said[name] for name in OF_THE_WORDS} | {
                "told": told[place],
                "rank": math.log((place + 1) / k),
                "is_first": float(place == 0),
                "run": float(min(_MAX_RUN, self._runs.get(hit.passage.id, 0))),
                "score": hit.score,
                "lead": _lead(scores, place, k) / scores[0] if scores[0] > 0 else 0.0,
            }
            if hit.similarity is not None and len(similarities) == len(hits):
                signals["similarity"] = hit.similarity
                signals["similarity_lead"] = _lead(similarities, place, k)
                signals["behind"] = max(similarities) - hit.similarity
            measured.append(signals)
        return measured


def _lead(values: Sequence[float], place: int, k: int) -> float:
    """Return how far a value is above the cut behind the first ``k``; negative below it."""
    cut = max(values[k:], default=0.0) if place < k else min(values[:k])
    return values[place] - cut
