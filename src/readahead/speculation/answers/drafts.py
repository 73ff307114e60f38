"""Let the drafter write one short answer per subset of the passages, all in one batch [Wang24].

Knows no verifier. Departs from the source: a draft that is empty, declines, repeats what it was
asked or was cut off is marked, so that it can never win; its probability is a mean per token, so
that short drafts are not favoured; and it is allowed to be an answer alone, without a rationale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from readahead.evidence import is_refusal
from readahead.evidence.terms import read_terms
from readahead.lm.base import Cancelled, Generation, TextModel, never
from readahead.lm.sample import SamplingParams
from readahead.speculation.answers.asking import draft_prompt, draft_wording, read_draft
from readahead.text import fold, num_words
from readahead.trace import Trace
from readahead.types import Draft, DraftFault, Passage

MAX_ECHOED_WORDS = 6  # of the instructions; more is no coincidence


@dataclass(frozen=True, slots=True)
class Drafter:
    """Writes drafts.

    Attributes:
        model: Small.
        with_rationale: Whether each draft first quotes what shows its answer.
        max_new_tokens: Of one draft.
    """

    model: TextModel
    with_rationale: bool = False
    max_new_tokens: int = 24

    def draft(
        self,
        question: str,
        passages: Sequence[Passage],
        subsets: Sequence[Sequence[int]],
        *,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> list[Draft]:
        """Return one draft per subset, in order; none if cancelled.

        Args:
            question: As the user asked it.
            passages: All that were retrieved, best first.
            subsets: For each draft the places of its passages.
            cancelled: Asked before each model step.
            trace: Gets a ``draft`` span and the counter ``drafter_tokens``, of those computed.

        Raises:
            ContextOverflow: The question does not fit.
        """
        if not subsets:
            return []
        trace = trace or Trace("draft")
        room = self.model.max_context_tokens - self.max_new_tokens
        prompts = [
            draft_prompt(
                self.model.tokenizer,
                question,
                [passages[place] for place in subset],
                with_rationale=self.with_rationale,
                max_tokens=room,
            )
            for subset in subsets
        ]
        own = Trace("draft")  # the drafter's tokens are not the target's
        with trace.span("draft", num_drafts=len(subsets)):
            params = SamplingParams(max_new_tokens=self.max_new_tokens)
            written = self.model.generate(prompts, params, cancelled=cancelled, trace=own)
        trace.count("drafter_tokens", own.counters.get("computed_tokens", 0))
        if any(one.finish_reason == "cancelled" for one in written):
            return []
        seconds = own.now_s()
        return [
            self._read(question, subset[: len(prompt.passages)], one, seconds)
            for subset, prompt, one in zip(subsets, prompts, written, strict=True)
        ]

    def _read(
        self, question: str, places: Sequence[int], written: Generation, seconds: float
    ) -> Draft:
        answer, rationale = read_draft(written.text)
        return Draft(
            answer=answer,
            places=tuple(places),
            rationale=rationale,
            fault=fault_of(question, answer, is_cut=written.finish_reason == "length"),
            logprob=fmean(written.logprobs) if written.logprobs else -float("inf"),
            num_prompt_tokens=written.num_prompt_tokens,
            num_tokens=len(written.token_ids),
            seconds=seconds,
        )


def fault_of(question: str, answer: str, *, is_cut: bool = False) -> DraftFault:
    """Return why a draft cannot be the answer, "" if it can."""
    if not read_terms(answer).held:
        return "empty"
    if is_refusal(answer):
        return "refusal"
    if _repeats(question, answer):
        return "echo"
    return "cut" if is_cut else ""


def _repeats(question: str, answer: str) -> bool:
    """Return whether an answer is the question, or what the drafter was told, said again."""
    said, asked = fold(answer), fold(question)
    if asked.rstrip("?？ ") in said:
        return True
    told = draft_wording(question)
    instructions = fold(f"{told.short} {told.reasoned}")
    return num_words(said) > MAX_ECHOED_WORDS and said in instructions
