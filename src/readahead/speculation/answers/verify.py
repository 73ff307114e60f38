"""Score drafts with the verifier, which writes nothing: one pass for all of them [Wang24].

A row is a conversation: the question, the draft as its answer, the question whether the rationale
supports it. What all rows begin with is read once.

    ρ_SC = exp(1/n Σ_i ln p(t_i | question, t_<i)),   t: the answer, and the rationale if there is
    ρ_SR = p(Yes) / (p(Yes) + p(No)),                 each the sum over its spellings

Departs from the source: ρ_SC is the mean per token, or long answers would always lose; ρ_SR is the
share of Yes among both words, or a verifier that writes "yes" would score 0. And the verifier may
be shown the passages, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from readahead.lm.base import Cancelled, TextModel, never
from readahead.lm.prompt import Part, Prompt, joined
from readahead.lm.tokenizer import Tokenizer
from readahead.speculation.answers.asking import DraftWording, draft_prompt, draft_wording
from readahead.trace import Trace
from readahead.types import Passage


@dataclass(frozen=True, slots=True)
class Statement:
    """What a draft says.

    Attributes:
        rationale: What it quotes, or the sentence that was found for it; may be empty.
    """

    answer: str
    rationale: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """What the verifier thinks of one draft.

    Attributes:
        consistency: ln ρ_SC.
        support: ρ_SR.
    """

    consistency: float
    support: float


@dataclass(frozen=True, slots=True)
class Verifier:
    """Judges drafts; each by itself, so the order in which they come does not matter.

    Attributes:
        model: Larger than the drafter, or the same.
    """

    model: TextModel

    def judge(
        self,
        question: str,
        statements: Sequence[Statement],
        passages: Sequence[Passage] = (),
        *,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> list[Judged]:
        """Return what the verifier thinks of each draft, in order; nothing if cancelled.

        Args:
            question: As the user asked it.
            statements: What the drafts say.
            passages: What the verifier is shown; none: it sees only what the drafts quote, as in
                the source.
            cancelled: Asked before each model step.
            trace: Gets a ``verify`` span and the counter of tokens.

        Raises:
            ContextOverflow: The question does not fit, or a draft behind it.
        """
        if not statements:
            return []
        trace = trace or Trace("verify")
        tokenizer, words = self.model.tokenizer, draft_wording(question)
        said = [tokenizer.encode(_said(words, statement)) for statement in statements]
        asked = _asked(tokenizer, words)
        room = self.model.max_context_tokens - max(map(len, said)) - len(asked)
        prompt = self._prompt(question, passages, room)
        yes, no = _told_apart(tokenizer, words.yes, words.no)
        with trace.span("verify", num_drafts=len(statements)):
            scored = self.model.score(
                [prompt] * len(statements),
                [[*ids, *asked] for ids in said],
                options=[*yes, *no],
                cancelled=cancelled,
                trace=trace,
            )
        if not scored:
            return []
        return [
            Judged(
                consistency=fmean(one.logprobs[: len(ids)]) if ids else -math.inf,
                support=_share(one.options, len(yes)),
            )
            for one, ids in zip(scored, said, strict=True)
        ]

    def _prompt(self, question: str, passages: Sequence[Passage], room: int) -> Prompt:
        tokenizer = self.model.tokenizer
        # The very prompt of a draft from all passages: what was read for one is known for both.
        if passages:
            return draft_prompt(tokenizer, question, passages, max_tokens=room)
        words = draft_wording(question)
        head, tail = tokenizer.frame(words.closed)
        text = f"{words.question}{question}"
        parts = (
            Part(tuple(tokenizer.encode_control(head))),
            Part(tuple(tokenizer.encode(text))),
            Part(tuple(tokenizer.encode_control(tail))),
        )
        return Prompt(head + text + tail, joined(parts), parts)


def _said(words: DraftWording, statement: Statement) -> str:
    """Return a draft as a drafter writes it."""
    if not statement.rationale:
        return statement.answer
    return f"{words.rationale}{statement.rationale}\n{words.answer}{statement.answer}"


def _asked(tokenizer: Tokenizer, words: DraftWording) -> list[int]:
    """Return what follows a draft: the end of its turn, and the question about it."""
    _, tail = tokenizer.frame(words.closed)
    return [
        *tokenizer.encode_control(tokenizer.turn()),
        *tokenizer.encode(words.supported),
        *tokenizer.encode_control(tail),
    ]


def _told_apart(tokenizer: Tokenizer, one: str, other: str) -> tuple[list[int], list[int]]:
    """Return the tokens that a reply with each word may begin with, and one with the other not.

    Where a space is a token of its own it says nothing.
    """
    ones, others = _spellings(tokenizer, one), _spellings(tokenizer, other)
    return sorted(ones - others), sorted(others - ones)


def _spellings(tokenizer: Tokenizer, word: str) -> set[int]:
    spellings = (word, word.lower(), f" {word}", f" {word.lower()}")
    return {tokenizer.encode(spelling)[0] for spelling in spellings}


def _share(options: Sequence[float], num_yes: int) -> float:
    """Return p(Yes) / (p(Yes) + p(No)) of the logarithms of both."""
    most = max(options)
    odds = [math.exp(option - most) for option in options]
    return math.fsum(odds[:num_yes]) / math.fsum(odds)
