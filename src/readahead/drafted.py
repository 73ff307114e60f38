"""One answer by drafts, from question to trace; plain RAG steps in where drafting fails."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TypedDict

from readahead.errors import InputError, outline
from readahead.knowledge import KnowledgeBase
from readahead.lm.base import Cancelled
from readahead.lm.prompt import CHINESE, wording
from readahead.reply import Event, Reply
from readahead.retrieval.base import Filter, Vectors
from readahead.speculation.answers.audit import audit
from readahead.speculation.answers.breaker import Breaker
from readahead.speculation.answers.hops import Hop, ask_in_hops
from readahead.speculation.answers.outcome import Outcome
from readahead.speculation.answers.speculate import Speculator
from readahead.speculation.answers.split import Splitter
from readahead.speculation.retrieval.sufficiency import Sufficiency, retrieval_signals
from readahead.trace import Trace
from readahead.turns import Turns
from readahead.types import Hit

METHOD = "drafts"
_log = logging.getLogger("readahead.drafts")
UNCERTAIN = "No answer is certain enough."
UNCERTAIN_CHINESE = "没有足够确定的答案。"


class _More(TypedDict):
    """What every step takes."""

    cancelled: Cancelled
    trace: Trace


class Failed(Exception):
    """Drafting gave nothing to go on with; its text is the reason, for the notes."""


class DraftedRun:
    """Retrieves, drafts, chooses, cites, and traces it all.

    Attributes:
        audit: Of what was drafted, as far as it went; empty before that.

    Args:
        knowledge: Where passages come from.
        speculator: Drafts and chooses.
        breaker: Remembers how drafting went for the requests before.
        trace: Of the request.
        question: As the user asked it.
        turns: Who may use the models.
        splitter: Splits a question that takes several steps; None: by rules alone.
        notes: What the reader should know besides.
    """

    def __init__(
        self,
        knowledge: KnowledgeBase,
        speculator: Speculator,
        breaker: Breaker,
        trace: Trace,
        question: str,
        turns: Turns,
        splitter: Splitter | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self._notes = notes
        self._knowledge = knowledge
        self._config = knowledge.config
        self._speculator = speculator
        self._breaker = breaker
        self._trace = trace
        self._question = question
        self._turns = turns
        self._splitter = splitter or Splitter()
        self._passages: dict[str, float] = {}
        self._so_far: dict[str, Outcome] = {}  # by question: the whole one, its parts
        self.audit: Mapping[str, object] = {}

    def events(self, filter: Filter | None, cancelled: Cancelled) -> Iterator[Event]:
        """Yield text, citations and, last, the Answer.

        Raises:
            Failed: Drafting failed or is not tried; nothing was yielded.
        """
        if not self._breaker.allow():
            raise Failed(f"drafting rests after failures ({self._breaker.reason})")
        try:
            hop = self._tried(filter, cancelled)
        except Failed as failure:
            self._keep(self._hop_so_far(), fell_back=str(failure))
            raise
        outcome, reply = hop.outcome, self._reply(hop)
        if outcome.is_cancelled:
            self._keep(self._hop_so_far())
            yield from reply.whole("", finish_reason="cancelled", audit=self.audit)
        elif not outcome.hits:
            yield from reply.nothing_found()
        else:
            self._keep(hop)
            is_chinese = wording(self._question) is CHINESE
            uncertain = UNCERTAIN_CHINESE if is_chinese else UNCERTAIN
            yield from reply.whole(
                listed(outcome.answers) or uncertain,
                confidence=hop.confidence,
                abstained=not outcome.answers,
                audit=self.audit,
            )

    def _keep(self, hop: Hop, fell_back: str = "") -> None:
        """Keep what was drafted, in the trace, too."""
        self.audit = audit(hop, fell_back)
        self._trace.attributes[METHOD] = self.audit

    def _hop_so_far(self) -> Hop:
        """Return what was drafted before drafting ended, parts of the question as its steps."""
        whole = self._so_far.get(self._question, Outcome())
        parts = [Hop(*one) for one in self._so_far.items() if one[0] != self._question]
        return Hop(self._question, whole, tuple(parts))

    def _tried(self, filter: Filter | None, cancelled: Cancelled) -> Hop:
        """Return what came of drafting, and tell the breaker how it went."""
        try:
            hop = self._turns.run_long(partial(self._hop, filter, cancelled), trace=self._trace)
        except Failed as failure:
            self._breaker.failed(str(failure))
            self._trace.attributes["drafts_error"] = str(failure)
            raise
        # The question's fault, not that of a part: say it does not fit the drafter.
        except InputError as error:
            raise Failed(f"drafting refused: {error.message.rstrip('.')}") from error
        # Whatever fails in here, plain RAG can still answer.
        except Exception as error:
            _log.exception("drafting failed")
            told = outline(error)
            reason = f"drafting failed: {told.rstrip('.')}"
            self._breaker.failed(reason)
            self._trace.attributes["drafts_error"] = f"{type(error).__name__}: {told}"
            raise Failed(reason) from error
        # To abstain is no failure: one client's strict threshold must not end drafting for all.
        if not hop.outcome.is_cancelled:
            self._breaker.succeeded()
        return hop

    def _hop(self, filter: Filter | None, cancelled: Cancelled) -> Hop:
        """Return what came of the question and, if it was split, of its parts."""
        limit_s = self._config.drafts.timeout_s
        begun_s = self._own_s()
        more: _More = {
            "cancelled": lambda: cancelled() or self._own_s() > begun_s + limit_s,
            "trace": self._trace,
        }
        hop = ask_in_hops(
            self._question,
            partial(self._asked, filter=filter, more=more),
            partial(self._splitter, **more),
            partial(self._speculator.combine, tell=partial(self._told, self._question), **more),
            max_depth=self._config.drafts.max_depth,
        )
        if hop.outcome.is_cancelled and not cancelled():
            raise Failed(
                f"drafting took longer than {limit_s:g} s (raise drafts.timeout_s, or lower "
                "drafts.num_drafts)"
            )
        return hop

    def _own_s(self) -> float:
        """Return a clock that stands still while the steps of other answers are made."""
        return time.monotonic() - self._turns.given_s

    def _asked(self, question: str, *, filter: Filter | None, more: _More) -> Outcome:
        """Return what came of one question, or of one part of it."""
        hits = self._hits(question, filter)
        outcome = self._speculator.answer(
            question,
            hits,
            vectors=self._vectors(hits),
            question_vector=self._question_vector(question),
            lacking=lacking(question, hits),
            tell=partial(self._told, question),
            **more,
        )
        self._told(question, outcome)
        return outcome

    def _told(self, question: str, outcome: Outcome) -> None:
        self._so_far[question] = outcome

    def _hits(self, question: str, filter: Filter | None) -> list[Hit]:
        num_passages = self._config.drafts.num_passages
        self._trace.count("retrievals")
        hits = self._knowledge.search(question, num_passages, filter=filter, trace=self._trace)
        # All that was read: a trace goes when one of its passages is removed.
        self._passages |= {hit.passage.id: hit.score for hit in hits}
        self._trace.attributes["passages"] = [
            {"id": id, "score": score} for id, score in self._passages.items()
        ]
        return hits

    def _needs_vectors(self) -> bool:
        return self._config.drafts.strategy == "perspectives"

    def _vectors(self, hits: Sequence[Hit]) -> Vectors | None:
        """Return the stored vectors of the passages, None where one has none or none is needed."""
        if not self._needs_vectors():
            return None
        return self._knowledge.vectors([hit.passage for hit in hits])

    def _question_vector(self, question: str) -> Vectors | None:
        embedder = self._knowledge.embedder if self._needs_vectors() else None
        return embedder.embed_query(question) if embedder else None

    def _reply(self, hop: Hop) -> Reply:
        return Reply(
            self._question,
            [hit.passage for hit in hop.outcome.hits],
            self._trace,
            self._config,
            similarity=self._knowledge.similarity,
            method=METHOD,
            notes=(*notes_of(hop), *self._notes),
        )


def listed(answers: Sequence[str]) -> str:
    """Return answers as text: one as it is, several as a list, so that each is cited by itself."""
    return "\n".join(f"- {answer}" for answer in answers) if len(answers) > 1 else "".join(answers)


def notes_of(hop: Hop) -> tuple[str, ...]:
    """Return what the reader should know of a choice."""
    outcome = hop.outcome
    selected, rated = outcome.choice.selected, outcome.choice.rated
    if outcome.is_cancelled or not outcome.hits:
        return ()
    if hop.is_combined:
        asked = "; ".join(f"{part.question} {part.outcome.answers[0]}" for part in hop.children)
        return (f"Answered in {len(hop.children)} steps: {asked}",)
    if len(selected) > 1:
        return (f"The passages support {len(selected)} different answers.",)
    if selected:
        return ()
    looked_at = f"{len(outcome.drafts)} drafts over {len(outcome.hits)} passages"
    if outcome.drafts and all(draft.fault == "cut" for draft in outcome.drafts):
        return (f"All of {looked_at} were cut off at their limit (drafts.max_new_tokens).",)
    if not rated:
        return (f"None of {looked_at} holds an answer.",)
    best = rated[0]
    return (
        f"Of {looked_at} the best answer, “{best.candidate.answer}”, is right with probability "
        f"{best.probability:.2f}, below {outcome.threshold:.2f} (drafts.threshold); it stands in "
        f"{len(best.candidate.held)} of the passages.{_insufficient(hop)}",
    )


def _insufficient(hop: Hop) -> str:
    """Return what was looked at if the passages do not seem to hold the answer, else ""."""
    if not hop.outcome.is_lacking:
        return ""
    told = retrieval_signals(hop.question, hop.outcome.hits)
    similarity = told.get("similarity")
    close = (
        "" if similarity is None else f", the nearest is as close in meaning as {similarity:.2f}"
    )
    return (
        " The passages do not seem to hold the answer: the best has "
        f"{told['coverage_best']:.0%} of the question's words{close}."
    )


def lacking(question: str, hits: Sequence[Hit]) -> float:
    """Return the probability that the passages do not hold the answer, by their retrieval alone.

    0 where they are all in another language than the question: neither shared words nor an embedder
    of one language tell anything then.
    """
    if not any(wording(hit.passage.text) is wording(question) for hit in hits):
        return 0.0
    return Sufficiency(question, hits).judge().probability
