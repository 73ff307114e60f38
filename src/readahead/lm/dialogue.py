"""The prompt of a question behind earlier questions and answers, as many as fit; knows no model.

Layout: ``[system][passages][question][answer]…[question]``. All questions are about the passages
that the first one shows, so what was read for one turn is the beginning of the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from readahead.errors import ContextOverflow
from readahead.lm.prompt import Context, Part, Prompt, build_prompt
from readahead.lm.tokenizer import Tokenizer
from readahead.types import Passage

MAX_EXCHANGE_SHARE = 0.25
"""Of the room, that the last exchange may take from passages which do not fit anyway."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer.

    Attributes:
        answer_ids: As it was written, without the token that ended it.
    """

    question: str
    answer_ids: tuple[int, ...]

    def shortened(self, num_tokens: int) -> Exchange:
        """Return it with only the first ``num_tokens`` of its answer."""
        return replace(self, answer_ids=self.answer_ids[:num_tokens])


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A prompt, and which exchanges it shows.

    Attributes:
        prompt: Its passages and spans are those that stand in front of all questions.
        exchanges: The last ones of those given.
    """

    prompt: Prompt
    exchanges: tuple[Exchange, ...] = ()


def build_dialogue(
    tokenizer: Tokenizer,
    question: str,
    passages: Sequence[Passage],
    exchanges: Sequence[Exchange],
    *,
    max_tokens: int,
    system: str = "",
) -> Dialogue:
    """Return the prompt, at most ``max_tokens`` long.

    Where not all fits, the oldest exchanges are left out, and only where none is left, passages
    are; see ``build_prompt``. Where passages are left out in any case, the last exchange stays, if
    it takes no more than ``MAX_EXCHANGE_SHARE`` and leaves room for a passage.

    Args:
        tokenizer: The target's.
        question: Asked last.
        passages: In the order shown.
        exchanges: The oldest first.
        max_tokens: The model's context less the answer.
        system: Said behind the instructions.

    Raises:
        ContextOverflow: The question does not fit, even alone.
    """
    opening = Context(system=system)
    for first in range(len(exchanges)):
        kept = tuple(exchanges[first:])
        with suppress(ContextOverflow):
            prompt = _behind(tokenizer, question, passages, kept, max_tokens, opening)
            if not prompt.dropped:
                return Dialogue(prompt, kept)
    alone = build_prompt(tokenizer, question, passages, max_tokens=max_tokens, context=opening)
    if exchanges and alone.dropped:
        with suppress(ContextOverflow):
            prompt = _beside(tokenizer, question, passages, exchanges[-1], max_tokens, opening)
            if prompt.passages:
                return Dialogue(prompt, (exchanges[-1],))
    return Dialogue(alone)


def _beside(
    tokenizer: Tokenizer,
    question: str,
    passages: Sequence[Passage],
    exchange: Exchange,
    max_tokens: int,
    opening: Context,
) -> Prompt:
    """Return the prompt behind ``exchange``, with as many passages as that leaves room for.

    It has none where the exchange takes too large a share.
    """
    bare = partial(build_prompt, tokenizer, passages=(), max_tokens=max_tokens, context=opening)
    prompt = _behind(tokenizer, question, (), (exchange,), max_tokens, opening)
    if len(prompt.token_ids) - len(bare(question).token_ids) > MAX_EXCHANGE_SHARE * max_tokens:
        return prompt
    num_later = len(prompt.token_ids) - len(bare(exchange.question).token_ids)
    return _behind(tokenizer, question, passages, (exchange,), max_tokens, opening, num_later)


def _behind(
    tokenizer: Tokenizer,
    question: str,
    passages: Sequence[Passage],
    exchanges: Sequence[Exchange],
    max_tokens: int,
    opening: Context,
    num_later_tokens: int = 0,
) -> Prompt:
    """Return the prompt behind all of ``exchanges``.

    It drops passages that do not fit together with the first question and ``num_later_tokens``.
    """
    questions = [*(exchange.question for exchange in exchanges), question]
    first = prompt = build_prompt(
        tokenizer,
        questions[0],
        passages,
        max_tokens=max_tokens - num_later_tokens,
        context=opening,
    )
    for exchange, asked in zip(exchanges, questions[1:], strict=True):
        answer = (Part(exchange.answer_ids),) if exchange.answer_ids else ()
        text = prompt.text + tokenizer.decode(exchange.answer_ids)
        context = Context((*prompt.parts, *answer), first.passages, text)
        prompt = build_prompt(tokenizer, asked, (), max_tokens=max_tokens, context=context)
    return replace(
        prompt,
        passages=first.passages,
        spans=first.spans,
        dropped=first.dropped,
        is_shortened=first.is_shortened,
    )
