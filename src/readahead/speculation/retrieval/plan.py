"""Choose which passages to read ahead, and in which order, so that most of it is of use.

Knows no cache: how much of an order is known is asked of the caller. Passages can be used from the
first on, as long as all of them are shown in the end. So the best order is, of those tried,

    argmax_path  Σ_d  known_d · s_d + read_d · (s_d − PRICE),   s_d = Π_{j≤d} stays_j

stays_j: the probability that the j-th passage is shown; known_d: the tokens that are known of the
d-th; read_d: those that may be read of it before the text changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest

from readahead.config import PrefetchConfig
from readahead.speculation.retrieval.order import Known
from readahead.types import Hit, Passage

MAX_CANDIDATES = 8
PRICE = 0.1  # of reading a token, in tokens of use; what is known has been paid for
NUM_PATHS = 32  # followed further, at each length; with three passages nearly all


@dataclass(frozen=True, slots=True)
class Path:
    """An order of passages.

    Attributes:
        places: Of the passages in the ranking.
        stays: The probability that all of them are shown.
        worth: How many tokens are expected to be of use, less the price of reading.
        left: How many tokens may be read behind them before the text changes.
        is_known: Whether all of them are read.
        num_tokens: Of the prompt so far.
    """

    places: tuple[int, ...]
    stays: float
    worth: float
    left: int
    is_known: bool
    num_tokens: int


def plan_passages(
    hits: Sequence[Hit], stays: Sequence[float], k: int, config: PrefetchConfig, known: Known
) -> list[Passage]:
    """Return at most ``k`` passages of ``hits`` in the order in which to read them.

    None whose probability to be of use is below the threshold. *Approximate*: long orders are found
    by following the best of the shorter ones.

    Args:
        hits: Best first.
        stays: The probabilities of the first hits; the others are not considered.
        k: How many are shown in the end.
        config: Names the threshold, the policy, and what may be read before the text changes.
        known: Asked for orders that may be read.
    """
    return _Plan(hits, stays, k, config, known).passages()


class _Plan:
    """What the paths of one decision share."""

    def __init__(
        self,
        hits: Sequence[Hit],
        stays: Sequence[float],
        k: int,
        config: PrefetchConfig,
        known: Known,
    ) -> None:
        self._ranked = [hit.passage for hit in hits[: len(stays)]]
        self._stays = stays
        self._k = k
        self._config = config
        self._known = known
        by_probability = sorted(range(len(self._ranked)), key=lambda place: -stays[place])
        likely = [place for place in by_probability if stays[place] >= config.threshold]
        self._candidates = likely[:MAX_CANDIDATES]
        self._num_tokens: dict[int, int] = {}

    def passages(self) -> list[Passage]:
        """Return the passages of the best path."""
        if not self._candidates:
            return []
        _, before = self._known([])
        best = Path((), 1.0, 0.0, self._config.horizon_tokens, True, before)
        paths = [best]
        while paths:
            longer = [longer for path in paths if path.left > 0 for longer in self._longer(path)]
            paths = nlargest(NUM_PATHS, longer, key=lambda path: path.worth)
            best = max([best, *paths], key=lambda path: path.worth)
        return [self._ranked[place] for place in self._continued(best.places, best.stays)]

    def _longer(self, path: Path) -> Iterator[Path]:
        """Return the paths that lead one passage further, the most probable first."""
        for place in self._next(path.places, path.stays):
            num_known, num_tokens = self._tokens(path, place)
            num_read = min(path.left, num_tokens - num_known)
            stays = path.stays * self._stays[place]
            yield Path(
                (*path.places, place),
                stays,
                path.worth + stays * num_known + (stays - PRICE) * num_read,
                path.left - num_read,
                path.is_known and num_known == num_tokens,
                path.num_tokens + num_tokens,
            )

    def _next(self, places: Sequence[int], stays: float) -> Iterator[int]:
        """Return the places that may follow."""
        if len(places) >= self._k:
            return
        for place in self._candidates:
            may_follow = place not in places
            if self._config.policy == "exact-order":
                may_follow = place == len(places)
            if may_follow and stays * self._stays[place] >= self._config.threshold:
                yield place

    def _tokens(self, path: Path, place: int) -> tuple[int, int]:
        """Return how many tokens of a passage are known behind ``path``, and how many it has."""
        if place in self._num_tokens and not path.is_known:
            return 0, self._num_tokens[place]  # nothing is known behind what is not
        passages = [self._ranked[before] for before in (*path.places, place)]
        num_known, num_tokens = self._known(passages)
        self._num_tokens[place] = num_tokens - path.num_tokens
        return max(0, num_known - path.num_tokens), self._num_tokens[place]

    def _continued(self, places: tuple[int, ...], stays: float) -> tuple[int, ...]:
        """Return the places, and behind them the most probable others, should there be time."""
        while (place := next(self._next(places, stays), None)) is not None:
            places, stays = (*places, place), stays * self._stays[place]
        return places
