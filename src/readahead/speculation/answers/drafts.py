"""Let the drafter write one short answer per subset of the passages, all in one batch [Wang24].

Knows no verifier. Departs from the source: a draft that is empty, declines, repeats what it was
asked, or was cut off by its limit or by the end of the time, is marked, so that it can never win;
its probability is a mean per token, so that short drafts are not favoured; and it is allowed to be
an answer alone, without a rationale.
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
from readahead.text import fold, words
from readahead.trace import Trace
from readahead.types import Draft, DraftAuthor, DraftFault, Passage

MAX_ECHOED_WORDS = 6  # of the instructions; more is no coincidence


@dataclass(frozen=True, slots=True)
class Drafter:
    """Writes drafts.

    Attributes:
        model: Small, unless the target drafts, too.
        with_rationale: Whether each draft first quotes what shows its answer.
        max_new_tokens: Of one draft.
        author: Whose drafts they are.
    """

    model: TextModel
    with_rationale: bool = False
    max_new_tokens: int = 24
    author: DraftAuthor = "drafter"

    def draft(
        self,
        question: str,
        passages: Sequence[Passage],
        subsets: Sequence[Sequence[int]],
        *,
        feedback: str = "",
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> list[Draft]:
        """Return one draft per subset, in order; if cancelled, those begun, as far as they are.

        Args:
            question: As the user asked it.
            passages: All that were retrieved, best first.
            subsets: For each draft the places of its passages.
            feedback: What was wrong with earlier drafts; it counts passages from 1, best first.
            cancelled: Asked before each model step.
            trace: Gets a ``draft`` span, the counters of all prompts and drafts, and that of the
                tokens computed: ``drafter_tokens``, or ``computed_tokens`` where the target drafts.

        Raises:
            ContextOverflow: The question does not fit, or of some passages not even a sentence.
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
                feedback=feedback,
                numbers=[place + 1 for place in subset] if feedback else (),
            )
            for subset in subsets
        ]
        own = Trace("draft")  # the drafter's tokens are not the target's
        with trace.span("draft", num_drafts=len(subsets)):
            params = SamplingParams(max_new_tokens=self.max_new_tokens)
            written = self.model.generate(prompts, params, cancelled=cancelled, trace=own)
        counter = "drafter_tokens" if self.author == "drafter" else "computed_tokens"
        trace.count(counter, own.counters.get("computed_tokens", 0))
        trace.count("prompt_tokens", sum(one.num_prompt_tokens for one in written))
        trace.count("completion_tokens", sum(len(one.token_ids) for one in written))
        seconds = own.now_s()
        return [
            self._read(question, subset[: len(prompt.passages)], one, seconds)
            for subset, prompt, one in zip(subsets, prompts, written, strict=True)
            if one.token_ids or one.finish_reason != "cancelled"
        ]

    def _read(
        self, question: str, places: Sequence[int], written: Generation, seconds: float
    ) -> Draft:
        answer, rationale = read_draft(written.text)
        return Draft(
            answer=answer,
            places=tuple(places),
            rationale=rationale,
            fault=fault_of(
                question,
                answer,
                is_cut=written.finish_reason == "cancelled"
                or (written.finish_reason == "length" and _is_open(written.text, answer)),
            ),
            author=self.author,
            logprob=fmean(written.logprobs) if written.logprobs else -float("inf"),
            num_prompt_tokens=written.num_prompt_tokens,
            num_tokens=len(written.token_ids),
            seconds=seconds,
        )


def fault_of(question: str, answer: str, *, is_cut: bool = False) -> DraftFault:
    """Return why a draft cannot be the answer, "" if it can."""
    if not words(answer):
        return "empty"
    if is_refusal(answer):
        return "refusal"
    if _repeats(question, answer):
        return "echo"
    return "cut" if is_cut else ""


def _repeats(question: str, answer: str) -> bool:
    """Return whether an answer is the question, or what the drafter was told, said again."""
    told = draft_wording(question)
    said, asked = _letters(answer), _letters(question)
    known = read_terms(question).content | read_terms(told.question).content
    if said == asked or (asked and asked in said and read_terms(answer).content <= known):
        return True
    is_long = len(words(answer)) > MAX_ECHOED_WORDS
    return is_long and said in _letters(f"{told.short} {told.reasoned}")


def _letters(text: str) -> str:
    return "".join(char for char in fold(text) if char.isalnum())


def _is_open(text: str, answer: str) -> bool:
    """Return whether the answer would be another one if the text went on."""
    return read_draft(f"{text}x")[0] != answer
