"""The pieces that a model writes to events and, last, the Answer; knows no retrieval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from readahead.citing import Citing, Tally
from readahead.config import Config
from readahead.evidence import Similarity
from readahead.lm.generate import Piece
from readahead.lm.reuse import Reading
from readahead.trace import Trace
from readahead.types import Answer, Citation, FinishReason, Passage, Timing, Usage

Event = str | Citation | Answer
NOTHING_FOUND = "No passage of the knowledge base matches the question."
RETRIEVAL_SPANS = ("encode", "search", "retrieve")
PIECE_STEP = "cite"  # one for each piece that the model writes, when it is there
CUT_OFF = (
    "The answer was cut off at {} tokens, its limit: "
    "generation.max_new_tokens, or the request's max_tokens."
)
BLENDED = (
    "The passages were read approximately, as cache.reuse is blend: "
    "the answer may differ from that of a full reading."
)
PACKED = (
    "Part of the prompt was read from a packed prefix (cache.storage): "
    "the answer may differ from that of a full reading."
)

AHEAD = ("computed_ahead_tokens", "wasted_tokens", "retrievals_ahead", "injections")


class Reply:
    """One answer while it is written.

    Args:
        question: What is answered.
        passages: What may be cited, in the order of their numbers.
        trace: Of the request; gets the answer, the citations and the times.
        config: Its threshold decides what is cited.
        similarity: How alike a sentence and spans are in meaning.
        method: What ran.
        notes: What the reader should know beside what the answer itself brings up.
        asked_s: When the question was submitted, on the clock of ``trace``.
    """

    def __init__(
        self,
        question: str,
        passages: Sequence[Passage],
        trace: Trace,
        config: Config,
        *,
        similarity: Similarity | None = None,
        method: str = "plain",
        notes: Sequence[str] = (),
        asked_s: float = 0.0,
    ) -> None:
        self.text = ""
        self._trace = trace
        self._method = method
        self._notes = notes
        self._asked_s = asked_s
        self._ttft_s = 0.0
        self._num_tokens = 0  # of this text: drafts before it are counted in the trace, too
        self._citing = Citing(
            passages, question, threshold=config.evidence.threshold, similarity=similarity
        )

    def extend(self, passages: Sequence[Passage], *, in_front: bool = False) -> None:
        """Add passages that were injected; they may be cited from now on."""
        self._citing.extend(passages, in_front=in_front)

    def events(self, pieces: Iterable[Piece]) -> Iterator[Event]:
        """Yield text, each citation before its marker and, last, the Answer."""
        finish_reason: FinishReason = "stop"
        for piece in pieces:
            self._num_tokens += len(piece.token_ids)
            self._trace.count("completion_tokens", len(piece.token_ids))
            finish_reason = piece.finish_reason or finish_reason
            with self._trace.step(PIECE_STEP):
                events = list(self._citing.push(piece.text))
                if piece.finish_reason:
                    events += self._citing.finish()
            yield from map(self._said, events)
        yield self._answer(self._citing.tally, self._citing.citations, finish_reason)

    def whole(
        self,
        text: str,
        *,
        confidence: float = 0.0,
        abstained: bool = False,
        finish_reason: FinishReason = "stop",
        audit: Mapping[str, object] | None = None,
    ) -> Iterator[Event]:
        """Yield an answer that was chosen, not streamed, with its citations.

        Args:
            text: All of it.
            confidence: The probability that it is right.
            abstained: Whether it says that there is no answer; then it cites nothing.
            finish_reason: ``cancelled`` if there is no answer yet.
            audit: Of the choice, as JSON values.
        """
        citing = self._citing
        with self._trace.step(PIECE_STEP):
            events = list(citing.push(text))
            events += citing.finish()
        if abstained:
            events, citing.citations = [text], []
        yield from map(self._said, events)
        answer = self._answer(citing.tally, citing.citations, finish_reason)
        self._trace.attributes["abstained"] = abstained
        yield replace(answer, confidence=confidence, abstained=abstained, audit=audit or {})

    def nothing_found(self) -> Iterator[Event]:
        """Yield the answer to a question that no passage matches."""
        yield self._said(NOTHING_FOUND)
        yield self._answer(Tally(num_refusals=1), (), "stop")

    def _said(self, event: str | Citation) -> str | Citation:
        """Return ``event``, noting when the first text went out."""
        if isinstance(event, str):
            if not self.text and event:
                self._ttft_s = self._trace.now_s() - self._asked_s
            self.text += event
        return event

    def _answer(
        self, tally: Tally, citations: Sequence[Citation], finish_reason: FinishReason
    ) -> Answer:
        e2e_s = self._trace.now_s() - self._asked_s
        self._trace.attributes |= {
            "answer": self.text,
            "citations": [
                {"marker": c.marker, "passage_id": c.passage_id, "start": c.start, "end": c.end}
                for c in citations
            ],
            "finish_reason": finish_reason,
            "abstained": tally.abstained,
            "ttft_s": self._ttft_s,
            "e2e_s": e2e_s,
        }
        return Answer(
            text=self.text,
            abstained=tally.abstained,
            confidence=tally.confidence,
            method=self._method,
            citations=tuple(citations),
            usage=self._usage(),
            timing=self._timing(e2e_s),
            finish_reason=finish_reason,
            notes=(*tally.notes, *self._notes, *self._length_notes(finish_reason)),
            speculation=self._speculation(),
            trace_id=self._trace.id,
        )

    def _speculation(self) -> Mapping[str, object]:
        """Return what is noted of draft tokens or, in a session, of what was done ahead."""
        noted = self._trace.attributes.get("speculation")
        if isinstance(noted, dict):
            return noted
        guess = self._trace.attributes.get("prefetch")
        if not isinstance(guess, dict):
            return {}
        counters = self._trace.counters
        return {"prefetch": guess | {name: counters.get(name, 0) for name in AHEAD}}

    def _length_notes(self, finish_reason: FinishReason) -> tuple[str, ...]:
        if finish_reason != "length":
            return ()
        return (CUT_OFF.format(self._num_tokens),)

    def _usage(self) -> Usage:
        counters = self._trace.counters
        return Usage(
            prompt_tokens=counters.get("prompt_tokens", 0),
            completion_tokens=counters.get("completion_tokens", 0),
            computed_tokens=counters.get("computed_tokens", 0),
            reused_tokens=counters.get("reused_tokens", 0),
            retrievals=counters.get("retrievals", 0),
        )

    def _timing(self, e2e_s: float) -> Timing:
        trace, asked_s = self._trace, self._asked_s
        num_later_tokens = max(self._num_tokens - 1, 1)
        return Timing(
            ttft_s=self._ttft_s,
            e2e_s=e2e_s,
            retrieval_s=sum(trace.total_s(name, asked_s) for name in RETRIEVAL_SPANS),
            prefill_s=trace.total_s("prefill", asked_s),
            tpot_s=(e2e_s - self._ttft_s) / num_later_tokens,
        )


def reading_notes(reading: Reading) -> tuple[str, ...]:
    """Return what the reader should know of an answer that was read approximately."""
    if reading.cache.is_blended:
        return (BLENDED,)
    return () if reading.cache.is_exact else (PACKED,)
