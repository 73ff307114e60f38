"""Answer one question by drafts: subsets, drafts, evidence, verifier, choice; knows no index.

Guess: short answers by a small model, each from some of the passages. Check: each is looked up in
all passages and, by the preset ``accurate``, judged by the target, whose own answer from all
passages is a candidate, too. Nothing that is not selected reaches the answer. *Approximate*: it is
another answer than the plain one, and its probability says how far to trust it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from readahead.config import DraftsConfig
from readahead.errors import InputError
from readahead.lm.base import Cancelled, TextModel, never
from readahead.retrieval.base import Vectors
from readahead.speculation.answers.calibration import Calibration
from readahead.speculation.answers.choose import PACKAGE, Choice, Rated, choose, rate
from readahead.speculation.answers.drafts import Drafter
from readahead.speculation.answers.pool import Candidate, pool
from readahead.speculation.answers.subsets import STRATEGIES, Subset, choose_subsets
from readahead.speculation.answers.verify import Claim, Judged, Verifier
from readahead.trace import Trace
from readahead.types import Draft, Hit

CALIBRATION_FILE = "calibration.json"
FIRST_DRAFTS = 2  # by which ``adaptive`` may be satisfied
MIN_FIRST_HELD = 2  # passages that must hold what they agree on


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of drafting.

    Attributes:
        drafts: All of them, in the order in which they were written.
        choice: Among the different answers.
        num_saved: Drafts that were not written because the first ones agreed.
        is_cancelled: Whether it was ended before there was an outcome.
    """

    drafts: tuple[Draft, ...] = ()
    choice: Choice = Choice()
    num_saved: int = 0
    is_cancelled: bool = False

    @property
    def answers(self) -> tuple[str, ...]:
        """Return the answers selected, the most probable first; none is an abstention."""
        return tuple(one.candidate.answer for one in self.choice.selected)

    @property
    def confidence(self) -> float:
        """Return the probability that the best answer is right."""
        return max((one.probability for one in self.choice.rated), default=0.0)


class Speculator:
    """Drafts and chooses; used by one thread at a time.

    Args:
        drafter: Small.
        target: The verifier; may be the drafter.
        config: Which preset, how many drafts, from which probability on to answer.
        calibration: From the probability of the shipped model to that on the user's own questions.
    """

    def __init__(
        self,
        drafter: TextModel,
        target: TextModel,
        config: DraftsConfig,
        *,
        calibration: Calibration | None = None,
    ) -> None:
        self._config = config
        self._drafter = Drafter(drafter, config.with_rationale, config.max_new_tokens)
        self._whole = Drafter(target, config.with_rationale, config.max_new_tokens)
        self._verifier = Verifier(target)
        self._calibration = calibration

    def answer(
        self,
        question: str,
        hits: Sequence[Hit],
        *,
        vectors: Vectors | None = None,
        question_vector: Vectors | None = None,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> Outcome:
        """Return what is to be answered, and why.

        Args:
            question: As the user asked it.
            hits: What was retrieved, best first.
            vectors: Of their passages, (n, dim), unit rows; None where there are none.
            question_vector: The question's, (1, dim).
            cancelled: Asked before each model step.
            trace: Gets ``draft`` and ``verify`` spans and the counters of tokens.

        Raises:
            ContextOverflow: The question does not fit.
        """
        trace = trace or Trace("drafts")
        config = self._config
        subsets = choose_subsets(
            STRATEGIES[config.strategy],
            hits,
            vectors,
            question_vector,
            m=config.num_drafts,
            k=config.passages_per_draft,
            seed=config.seed,
        )
        drafts = self._drafts(question, hits, subsets, cancelled, trace)
        num_saved = len(subsets) - len(drafts)
        if config.preset == "accurate" and not cancelled():
            drafts += self._of_target(question, hits, cancelled, trace)
        if cancelled() or not drafts:
            return Outcome(tuple(drafts), is_cancelled=cancelled())
        candidates = pool(question, drafts, [hit.passage for hit in hits])
        judged = self._judged(question, hits, candidates, trace)
        rated = rate(question, candidates, drafts, hits, judged)
        choice = choose(self._calibrated(rated), threshold=self.threshold, also=config.also)
        return Outcome(tuple(drafts), choice, num_saved)

    @property
    def threshold(self) -> float:
        """Return the probability from which on to answer."""
        threshold = self._config.threshold
        return thresholds(self.model)[threshold] if isinstance(threshold, str) else threshold

    @property
    def model(self) -> str:
        """Return which of the shipped models tells probabilities."""
        return "verified" if self._config.preset == "accurate" else "evidence"

    def _drafts(
        self,
        question: str,
        hits: Sequence[Hit],
        subsets: Sequence[Subset],
        cancelled: Cancelled,
        trace: Trace,
    ) -> list[Draft]:
        """Return the drafts of the first subsets, if these are enough, or of all."""
        passages = [hit.passage for hit in hits]
        num_first = FIRST_DRAFTS if self._config.adaptive else len(subsets)
        drafts: list[Draft] = []
        for some in (subsets[:num_first], subsets[num_first:]):
            if some and not (drafts and is_enough(question, drafts, hits)):
                drafts += self._drafter.draft(
                    question, passages, some, cancelled=cancelled, trace=trace
                )
        return drafts

    def _of_target(
        self, question: str, hits: Sequence[Hit], cancelled: Cancelled, trace: Trace
    ) -> list[Draft]:
        """Return the target's own draft, from all passages."""
        everything = [tuple(range(len(hits)))]
        passages = [hit.passage for hit in hits]
        return self._whole.draft(question, passages, everything, cancelled=cancelled, trace=trace)

    def _judged(
        self,
        question: str,
        hits: Sequence[Hit],
        candidates: Sequence[Candidate],
        trace: Trace,
    ) -> list[Judged] | None:
        if self._config.preset == "fast":
            return None
        claims = [Claim(candidate.answer) for candidate in candidates]
        passages = [hit.passage for hit in hits]
        return self._verifier.judge(question, claims, passages, trace=trace)

    def _calibrated(self, rated: Sequence[Rated]) -> list[Rated]:
        if self._calibration is None:
            return list(rated)
        told = self._calibration.probability
        return [replace(one, probability=told(one.probability)) for one in rated]


def is_enough(question: str, drafts: Sequence[Draft], hits: Sequence[Hit]) -> bool:
    """Return whether the first drafts agree, and passages hold what they say."""
    candidates = pool(question, drafts, [hit.passage for hit in hits])
    return (
        len(candidates) == 1
        and len(candidates[0].drafts) == len(drafts)
        and len(candidates[0].held) >= MIN_FIRST_HELD
    )


@cache
def thresholds(model: str) -> Mapping[str, float]:
    """Return the probabilities that ``strict`` and ``lenient`` mean, by name."""
    text = files(PACKAGE).joinpath("thresholds.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, float]] = json.loads(text)
    return found[model]


def read_calibration(folder: Path) -> Calibration | None:
    """Return the calibration that was fitted on a knowledge base, None if there is none.

    Raises:
        InputError: The file is not a calibration.
    """
    try:
        text = (folder / CALIBRATION_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        return Calibration.from_json(json.loads(text))
    except ValueError:
        raise InputError(
            f"{folder / CALIBRATION_FILE} is not a calibration.",
            remedy="Fit it again: readahead calibrate",
        ) from None
