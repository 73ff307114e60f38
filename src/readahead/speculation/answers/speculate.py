"""Answer one question by drafts: subsets, drafts, evidence, verifier, choice; knows no index.

Guess: short answers by a small model, each from some of the passages. Check: each is looked up in
all passages. By the preset ``accurate`` the target drafts, too, and judges what both drafted: where
the two agree says more than either. Nothing that is not selected reaches the answer. *Approximate*:
it is another answer than the plain one, and its probability says how far to trust it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from readahead.config import DraftsConfig
from readahead.evidence import Judge
from readahead.lm.base import Cancelled, TextModel, never
from readahead.retrieval.base import Vectors
from readahead.speculation.answers.bars import Bars
from readahead.speculation.answers.calibration import Calibration
from readahead.speculation.answers.choose import Choice, choose, rate
from readahead.speculation.answers.drafts import Drafter
from readahead.speculation.answers.outcome import Outcome, Tell, tell_nobody
from readahead.speculation.answers.pool import Candidate, pool
from readahead.speculation.answers.refine import feedback, find_faults
from readahead.speculation.answers.subsets import STRATEGIES, Subset, choose_subsets
from readahead.speculation.answers.verify import Judged, Statement, Verifier
from readahead.trace import Trace
from readahead.types import Draft, Hit, Passage

FIRST_DRAFTS = 2  # by which ``adaptive`` may be satisfied
MIN_FIRST_HELD = 2  # passages that must hold what they agree on
MIN_FIRST_HELD_ACCURATE = 3  # where fewer did, stopping cost right answers (docs/log.md)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question with all that its rounds have in common.

    Attributes:
        before: What came of the rounds before this one.
    """

    question: str
    hits: tuple[Hit, ...]
    subsets: tuple[Subset, ...]
    cancelled: Cancelled
    trace: Trace
    tell: Tell
    before: Outcome

    @property
    def passages(self) -> list[Passage]:
        return [hit.passage for hit in self.hits]

    def written(self, drafts: Sequence[Draft]) -> None:
        """Tell what was drafted so far: nothing of it is lost if what follows fails."""
        self.tell(replace(self.before, drafts=(*self.before.drafts, *drafts)))


class Speculator:
    """Drafts and chooses; used by one thread at a time.

    Args:
        drafter: Small; drafts.
        target: Drafts, too, and judges by the preset ``accurate``; may be the drafter, then it
            drafts once.
        config: Which preset, how many drafts, from which probability on to answer.
        calibration: From the probability of the shipped model to that on the user's own questions.
        judge: Of claims, beside the evidence checker; None: there is none.
    """

    def __init__(
        self,
        drafter: TextModel,
        target: TextModel,
        config: DraftsConfig,
        *,
        calibration: Calibration | None = None,
        judge: Judge | None = None,
    ) -> None:
        self._config = config
        limits = (config.with_rationale, config.max_new_tokens)
        self._target = Drafter(target, *limits, "target")
        small = Drafter(drafter, *limits)
        if config.preset == "fast":
            self._drafters = [small]
        else:
            self._drafters = [self._target] if drafter is target else [small, self._target]
        self._verifier = Verifier(target)
        self._bars = Bars(config, calibration)
        self._judge = judge

    def answer(
        self,
        question: str,
        hits: Sequence[Hit],
        *,
        vectors: Vectors | None = None,
        question_vector: Vectors | None = None,
        lacking: float = 0.0,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
        tell: Tell = tell_nobody,
    ) -> Outcome:
        """Return what is to be answered, and why.

        Args:
            question: As the user asked it.
            hits: What was retrieved, best first.
            vectors: Of their passages, (n, dim), unit rows; None where there are none.
            question_vector: The question's, (1, dim).
            lacking: The probability that the passages do not hold the answer, as far as the
                retrieval tells; where they clearly do not, ``lenient`` is as strict as ``strict``.
            cancelled: Asked before each model step.
            trace: Gets ``draft``, ``verify`` and ``refine`` spans and the counters of tokens.
            tell: Called with what was drafted so far, each time that there is more.

        Raises:
            ContextOverflow: The question does not fit.
        """
        if not hits:
            return Outcome(is_cancelled=cancelled())
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
        before = Outcome(hits=tuple(hits), lacking=lacking)
        before = replace(before, threshold=self._bars.threshold(before.is_lacking))
        tell(before)
        asked = _Asked(question, before.hits, tuple(subsets), cancelled, trace, tell, before)
        return self._refined(asked, self._chosen(asked, self._drafts(asked)))

    def _refined(self, asked: _Asked, best: Outcome) -> Outcome:
        """Return the best of the round so far and of those that are told what was wrong with it."""
        for _ in range(self._config.max_refinements):
            # What the passages lack would only be made up.
            if best.answers or best.is_cancelled or best.is_lacking:
                break
            faults = find_faults(best.choice.rated, best.drafts, asked.hits)
            if not (line := feedback(asked.question, faults)):
                break
            with asked.trace.span("refine", feedback=line) as span:
                once_more = replace(asked, before=best)
                again = self._chosen(once_more, self._drafts(once_more, line), line)
            span.attributes["kept"] = is_kept = again.confidence > best.confidence
            if not (is_kept or again.is_cancelled):
                break
            best = again
        return best

    def combine(
        self,
        question: str,
        known: str,
        hits: Sequence[Hit],
        *,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
        tell: Tell = tell_nobody,
    ) -> Outcome:
        """Return the target's answer to a question whose parts are answered, rated like a draft.

        Args:
            question: The whole one.
            known: One line with the parts and their answers.
            hits: The passages that hold them.
            cancelled: Asked before each model step.
            trace: Gets ``draft`` and ``verify`` spans and the counters of tokens.
            tell: Called with what was drafted so far, each time that there is more.

        Raises:
            ContextOverflow: The question does not fit.
        """
        before = Outcome(hits=tuple(hits), feedback=known, threshold=self._bars.threshold())
        trace = trace or Trace("combine")
        asked = _Asked(question, before.hits, (), cancelled, trace, tell, before)
        return self._chosen(asked, self._of_all(asked, known), known)

    def _drafts(self, asked: _Asked, feedback: str = "") -> list[Draft]:
        """Return the drafts of the first subsets, if these are enough, or of all."""
        drafts: list[Draft] = []
        for drafter, subsets in self._batches(asked, drafts):
            if drafts and asked.cancelled():
                break
            if subsets:
                drafts += drafter.draft(
                    asked.question,
                    asked.passages,
                    subsets,
                    feedback=feedback,
                    cancelled=asked.cancelled,
                    trace=asked.trace,
                )
                asked.written(drafts)
        return drafts

    def _batches(
        self, asked: _Asked, drafts: Sequence[Draft]
    ) -> Iterator[tuple[Drafter, Sequence[Subset]]]:
        """Yield who drafts from which subsets next, until the ``drafts`` so far are enough.

        The target begins with a few only where the drafter's agree: two batches take longer than
        one, and for most questions all are needed.
        """
        first = FIRST_DRAFTS if self._config.adaptive else 0
        begun = []
        for drafter in self._drafters if first else ():
            yield drafter, asked.subsets[:first]
            begun.append(drafter)
            if asked.cancelled() or not self._is_enough(asked, drafts):
                break
        else:
            if first:
                return
        for drafter in self._drafters:
            yield drafter, asked.subsets[first if drafter in begun else 0 :]

    def _is_enough(self, asked: _Asked, drafts: Sequence[Draft]) -> bool:
        is_fast = self._config.preset == "fast"
        min_held = MIN_FIRST_HELD if is_fast else MIN_FIRST_HELD_ACCURATE
        return is_enough(asked.question, drafts, asked.hits, min_held)

    def _of_all(self, asked: _Asked, known: str) -> list[Draft]:
        """Return the target's draft from all passages, told the answers of the parts."""
        drafts = self._target.draft(
            asked.question,
            asked.passages,
            [tuple(range(len(asked.hits)))],
            feedback=known,
            cancelled=asked.cancelled,
            trace=asked.trace,
        )
        asked.written(drafts)
        return drafts

    def _chosen(self, asked: _Asked, written: Sequence[Draft], feedback: str = "") -> Outcome:
        """Return what comes of a round of drafts."""
        num_most = len(asked.subsets) * len(self._drafters)
        drafts, num_saved = tuple(written), max(0, num_most - len(written))
        outcome = replace(asked.before, drafts=drafts, choice=Choice(), feedback=feedback)
        candidates = pool(asked.question, drafts, asked.passages)
        judged = None if asked.cancelled() else self._judged(asked, candidates, drafts)
        if asked.cancelled():
            return replace(outcome, is_cancelled=True)
        rated = self._bars.calibrated(
            rate(
                asked.question,
                candidates,
                drafts,
                asked.hits,
                judged,
                judge=self._judge,
                cancelled=asked.cancelled,
            )
        )
        if asked.cancelled():
            return replace(outcome, is_cancelled=True)
        bars = self._bars
        choice = choose(rated, threshold=outcome.threshold, also=bars.also, harm=bars.harm)
        return replace(outcome, choice=choice, num_saved=num_saved)

    def _judged(
        self, asked: _Asked, candidates: Sequence[Candidate], drafts: Sequence[Draft]
    ) -> list[Judged] | None:
        if self._config.preset == "fast":
            return None
        statements = [self._statement(candidate, drafts) for candidate in candidates]
        passages = asked.passages if self._config.with_passages else ()
        return self._verifier.judge(
            asked.question, statements, passages, cancelled=asked.cancelled, trace=asked.trace
        )

    def _statement(self, candidate: Candidate, drafts: Sequence[Draft]) -> Statement:
        """Return an answer, with the rationale of its first draft if one was asked for."""
        is_reasoned = self._config.with_rationale
        return Statement(
            candidate.answer, drafts[candidate.drafts[0]].rationale if is_reasoned else ""
        )


def is_enough(
    question: str, drafts: Sequence[Draft], hits: Sequence[Hit], min_held: int = MIN_FIRST_HELD
) -> bool:
    """Return whether the first drafts agree, and ``min_held`` passages hold what they say.

    Copies of a passage count as one.
    """
    candidates = pool(question, drafts, [hit.passage for hit in hits])
    if len(candidates) != 1 or len(candidates[0].drafts) != len(drafts):
        return False
    return len({hits[held.place].passage.text for held in candidates[0].held}) >= min_held
