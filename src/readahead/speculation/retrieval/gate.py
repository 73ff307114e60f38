"""Decide whether the passages found for a half-typed question are worth reading ahead.

Knows no threads, no clocks and no model: times and hits are given to it. The decision is a guess;
what follows from a wrong one is time, never a different answer.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from readahead.config import PrefetchConfig
from readahead.evidence.terms import stem
from readahead.logistic import Logistic
from readahead.retrieval.lexical import terms
from readahead.speculation.retrieval.staying import Staying
from readahead.speculation.retrieval.typed import without_stop_phrases
from readahead.text import CHARS_PER_CJK_WORD, fold, is_cjk, num_words, words
from readahead.types import Hit, Passage

PACKAGE = "readahead.speculation.retrieval"
MODEL = "typing_gate"
MIN_RARITY = 0.2  # of a word that says what a question is about
DEPTH = 3  # hits of a result that are compared
_MAX_RUN = 6


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to read ahead, and why.

    Attributes:
        passed: Whether any passage is likely enough to be shown in the end.
        reason: Why it waits, "" when it passed.
        probability: That the best passage so far is the best for the finished question.
        stays: For each of the first hits, the probability that it is shown for that question.
        signals: What the probability was computed from, for the trace.
    """

    passed: bool
    reason: str
    probability: float
    stays: tuple[float, ...]
    signals: Mapping[str, float]


class TypingGate:
    """Judges one question while it is typed; ``reset`` before the next.

    Args:
        config: The limits and the threshold.
        rarity: How well a word tells passages apart, in [0, 1]; see ``Store.rarity``. A word of no
            passage is as rare as one can be, so it lets a retrieval happen, which costs little; but
            no passage covers it, so it speaks against reading ahead, which costs much.
        model: Signals to a probability; by default the one that is shipped.
        staying: Judges each passage; by default with the model that is shipped.
    """

    def __init__(
        self,
        config: PrefetchConfig,
        rarity: Callable[[str], float],
        model: Logistic | None = None,
        staying: Staying | None = None,
    ) -> None:
        self._config = config
        self._rarity = rarity
        self._model = model or Logistic.load(PACKAGE, MODEL)
        self._staying = staying or Staying()
        self.reset()

    def reset(self) -> None:
        """Forget the question; the next one begins."""
        self._text = ""
        self._ids: tuple[str, ...] = ()  # of the last result
        self._run = 0
        self._rarities: dict[str, float] = {}
        self._stems: dict[str, frozenset[str]] = {}  # of passages
        self._staying.reset()

    def wait(self, text: str, *, since_first_s: float, since_last_s: float) -> str:
        """Return why not to retrieve with ``text`` yet, "" to go on; costs next to nothing.

        Args:
            text: The complete part of what has been typed.
            since_first_s: Seconds since the first stroke.
            since_last_s: Seconds since the last one.
        """
        config = self._config
        if since_first_s < config.min_typing_s:
            return "typing has only begun"
        if since_last_s < config.debounce_s:
            return "keys are moving"
        if num_words(text) < config.min_tokens:
            return f"fewer than {config.min_tokens} words"
        if _bare(text) == _bare(self._text):
            return "no new word"
        if self._rarest(without_stop_phrases(text)) < MIN_RARITY:
            return "no word yet that says what it is about"
        return ""

    def decide(self, text: str, hits: Sequence[Hit], k: int = DEPTH) -> Decision:
        """Return whether to read passages of ``hits`` ahead; call it once per retrieval.

        Args:
            text: The complete part of what has been typed.
            hits: Best first.
            k: How many are shown in the end.
        """
        signals = self.measure(text, hits)
        stays = self._staying.probabilities(self.measure_each(text, hits, k, signals))
        if not hits:
            return Decision(False, "nothing was found", 0.0, stays, signals)
        passed = max(stays) >= self._config.threshold
        reason = "" if passed else "the passages may still change"
        return Decision(passed, reason, self._model.probability(signals), stays, signals)

    def measure(self, text: str, hits: Sequence[Hit]) -> dict[str, float]:
        """Return the signals of a result, and remember it for the next one.

        Of the words: how many (``words``, a logarithm), the ``rarest``, and the sum of their
        rarities (``information``); of it, how much the best passage holds (``told``), and how much
        more than the next ones (``told_margin``). Of the hits: ``score``, ``margin``,
        ``similarity``, ``similarity_margin``. Of what was found before: rank ``overlap``, and for
        how many results the best passage has been the same (``run``).
        """
        ids = tuple(hit.passage.id for hit in hits[:DEPTH])
        is_same = bool(ids) and ids[:1] == self._ids[:1]
        self._run = self._run + 1 if is_same else 1
        signals = {
            "words": math.log(max(1.0, num_words(text))),
            "rarest": self._rarest(text),
            "overlap": overlap(ids, self._ids),
            "run": float(min(_MAX_RUN, self._run)),
        }
        self._text, self._ids = text, ids
        if hits:
            signals |= self._told(text, hits[:DEPTH]) | _scores(hits[:DEPTH])
        return signals

    def measure_each(
        self, text: str, hits: Sequence[Hit], k: int, signals: Mapping[str, float]
    ) -> list[dict[str, float]]:
        """Return the signals of each of the first hits, and remember them for the next result.

        Args:
            text: The complete part of what has been typed.
            hits: Best first.
            k: How many are shown in the end; twice as many are measured.
            signals: Those of the same result.
        """
        considered = hits[: 2 * k]
        weights = self._weights(text)
        held = [self._held(weights, hit.passage) for hit in considered]
        return self._staying.measure(considered, k, signals, held)

    def _rarest(self, text: str) -> float:
        return max((self._rarity_of(term) for term in terms(text)), default=0.0)

    def _told(self, text: str, hits: Sequence[Hit]) -> dict[str, float]:
        """Return what the typed words say, and how much of it the passages hold."""
        weights = self._weights(text)
        held = [self._held(weights, hit.passage) for hit in hits]
        return {
            "information": sum(weights.values()),
            "told": held[0],
            "told_margin": held[0] - max(held[1:], default=0.0),
        }

    def _weights(self, text: str) -> dict[str, float]:
        """Return how much each stem of a text says."""
        weights: dict[str, float] = defaultdict(float)
        for term in terms(text):
            # Pairs of characters overlap: as many of them as characters, not as words.
            weights[stem(term)] += self._rarity_of(term) / (
                CHARS_PER_CJK_WORD if is_cjk(term[0]) else 1.0
            )
        return weights

    def _held(self, weights: Mapping[str, float], passage: Passage) -> float:
        """Return how much of what the stems say a passage holds."""
        if passage.id not in self._stems:
            self._stems[passage.id] = _stems(passage)
        return math.fsum(weights[t] for t in weights.keys() & self._stems[passage.id])

    def _rarity_of(self, term: str) -> float:
        if term not in self._rarities:
            self._rarities[term] = self._rarity(term)
        return self._rarities[term]


def overlap(ids: Sequence[str], before: Sequence[str]) -> float:
    """Return how much two rankings agree, their beginnings most; 1 if they are the same.

        overlap = 1/n · Σ_{d=1..n} |ids[:d] ∩ before[:d]| / d,   n: length of the longer one

    0 if both are empty.
    """
    n = max(len(ids), len(before))
    return sum(len({*ids[:d]} & {*before[:d]}) / d for d in range(1, n + 1)) / max(1, n)


def _scores(hits: Sequence[Hit]) -> dict[str, float]:
    """Return how good the best hit is and how far ahead; without vectors, by its score alone."""
    first = hits[0]
    signals = {"score": first.score}
    if len(hits) > 1 and first.score > 0:
        signals["margin"] = 1.0 - hits[1].score / first.score
    if first.similarity is not None:
        signals["similarity"] = first.similarity
        others = [hit.similarity for hit in hits[1:] if hit.similarity is not None]
        if others:
            # By how much the vectors contradict the ranking tells nothing more.
            signals["similarity_margin"] = max(0.0, first.similarity - max(others))
    return signals


def _stems(passage: Passage) -> frozenset[str]:
    heading = " ".join(passage.heading)
    return frozenset(stem(term) for term in terms(f"{heading}\n{passage.context}\n{passage.text}"))


def _bare(text: str) -> str:
    """Return the words of a text alone."""
    return " ".join(fold(text[start:end]) for start, end in words(text))
