"""The prompt of a question over passages, built part by part; knows no model.

Layout: ``[system][passages][question]``, the question last, so that what comes before it can be
read before it is known. A later turn is appended: ``…[answer][passages][question]``. Parts are
tokenised one by one and never again together, so the same passage behind the same prefix always
gives the same token ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

from readahead.errors import ContextOverflow
from readahead.lm.shorten import fit_passages
from readahead.lm.tokenizer import Tokenizer
from readahead.types import Passage


@dataclass(frozen=True, slots=True)
class Wording:
    """What the program itself says to the model, in one language."""

    instructions: str
    question: str


ENGLISH = Wording(
    "You are a helpful assistant. Answer the question using only the passages below, in one or two "
    "sentences. If they do not contain the answer, say that the passages do not contain it.",
    "Question: ",
)
CHINESE = Wording(
    "你是一个乐于助人的助手。只根据下面的段落回答问题，用一两句话。"
    "如果段落中没有答案，就说段落中没有提到。",
    "问题：",
)
_SYSTEM = "\u241eSYSTEM\u241e"
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
_KANA_OR_HANGUL = re.compile(r"[\u3040-\u30ff\uac00-\ud7af]")


def wording(question: str) -> Wording:
    """Return the wording in the language of ``question``; English where there is no other.

    Small models answer in the language in which they were instructed, whatever the instruction
    says about the language of the answer.
    """
    is_chinese = _HAN.search(question) and not _KANA_OR_HANGUL.search(question)
    return CHINESE if is_chinese else ENGLISH


@dataclass(frozen=True, slots=True)
class Part:
    """A run of tokens that is read, kept and reused as one.

    Attributes:
        label: Whose text it is, for instance a passage id; "" for text that belongs to nobody.
    """

    token_ids: tuple[int, ...]
    label: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids that know where each passage stands.

    Attributes:
        text: What the ids say, for backends that take text.
        parts: The same ids: those before the passages, each passage's, the question's, and what
            ends the question.
        passages: Those shown, in the order shown; not those of earlier turns.
        spans: The token interval ``[start, end)`` of each passage shown.
        dropped: Those that did not fit.
        is_shortened: Whether the last one shown ends earlier than it does in its document.
    """

    text: str
    token_ids: tuple[int, ...]
    parts: tuple[Part, ...] = ()
    passages: tuple[Passage, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    dropped: tuple[Passage, ...] = ()
    is_shortened: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """What a question follows: the earlier turns of a conversation, as they were read and written.

    Attributes:
        system: What was said behind the instructions; to be repeated where there is no turn yet.
        passages: All that they show; the next one's number follows theirs.
    """

    parts: tuple[Part, ...] = ()
    passages: tuple[Passage, ...] = ()
    text: str = ""
    system: str = ""


def build_prompt(
    tokenizer: Tokenizer,
    question: str,
    passages: Sequence[Passage],
    *,
    max_tokens: int,
    context: Context = Context(),
) -> Prompt:
    """Return the prompt, at most ``max_tokens`` long.

    Where not all passages fit, the first that does not is shortened at a sentence, and those
    behind it are dropped.

    Args:
        tokenizer: The target's.
        question: Encoded as text: nothing in it, or in a passage, becomes a control token.
        passages: Best first.
        max_tokens: The model's context less the answer.
        context: The turns that this one follows; nothing of them is dropped.

    Raises:
        ContextOverflow: The question does not fit, even without any passage.
    """
    lay_out = partial(_laid_out, tokenizer, question, max_tokens=max_tokens, context=context)
    prompt = lay_out(passages)
    if not prompt.dropped:
        return prompt
    shown = fit_passages(passages, lambda some: not lay_out(some).dropped)
    is_shortened = bool(shown) and shown[-1].end < passages[len(shown) - 1].end
    dropped = tuple(passages[len(shown) :])
    return replace(lay_out(shown), dropped=dropped, is_shortened=is_shortened)


def _laid_out(
    tokenizer: Tokenizer,
    question: str,
    passages: Sequence[Passage],
    *,
    max_tokens: int,
    context: Context,
) -> Prompt:
    """Return the prompt with as many whole passages as fit."""
    words = wording(question)
    opening, tail = _framed(tokenizer, words.instructions, context.system)
    if context.parts:
        opening = _control(tokenizer, tokenizer.turn())
    question_text = f"{words.question}{question}"
    before = (*context.parts, opening.part)
    asked = (
        Part(tuple(tokenizer.encode(question_text))),
        _control(tokenizer, tail).part,
    )
    num_asked, num_before = num_tokens(asked), num_tokens(before)
    room = max_tokens - num_before - num_asked
    if room < 0:
        raise ContextOverflow(
            f"The question takes {num_asked} tokens; there is room for "
            f"{max(0, max_tokens - num_before)}.",
            remedy="Ask a shorter question, or lower generation.max_new_tokens.",
        )
    first = len(context.passages) + 1
    texts = [passage_text(number, passage) for number, passage in enumerate(passages, first)]
    shown: list[Part] = []
    for text, passage in zip(texts, passages, strict=True):
        part = Part(tuple(tokenizer.encode(text)), passage.id)
        room -= len(part.token_ids)
        if room < 0:
            break
        shown.append(part)
    stops = accumulate((len(part.token_ids) for part in shown), initial=num_before)
    parts = (*before, *shown, *asked)
    return Prompt(
        text=context.text + opening.text + "".join(texts[: len(shown)]) + question_text + tail,
        token_ids=joined(parts),
        parts=parts,
        passages=tuple(passages[: len(shown)]),
        spans=tuple(pairwise(stops)),
        dropped=tuple(passages[len(shown) :]),
    )


class _Said(NamedTuple):
    """A part with its text."""

    text: str
    part: Part


def _control(tokenizer: Tokenizer, text: str) -> _Said:
    return _Said(text, Part(tuple(tokenizer.encode_control(text))))


def _framed(tokenizer: Tokenizer, instructions: str, system: str) -> tuple[_Said, str]:
    """Return what stands before the user's message, ``system`` as mere text in it, and behind."""
    if not system:
        head, tail = tokenizer.frame(instructions)
        return _control(tokenizer, head), tail
    head, tail = tokenizer.frame(f"{instructions}\n\n{_SYSTEM}")
    before, _, behind = head.partition(_SYSTEM)
    ids = (
        *tokenizer.encode_control(before),
        *tokenizer.encode(system),
        *tokenizer.encode_control(behind),
    )
    return _Said(before + system + behind, Part(ids)), tail


def joined(parts: Iterable[Part]) -> tuple[int, ...]:
    """Return the token ids of ``parts``."""
    return tuple(chain.from_iterable(part.token_ids for part in parts))


def num_tokens(parts: Iterable[Part]) -> int:
    """Return how many token ids ``parts`` have."""
    return sum(len(part.token_ids) for part in parts)


def first_tokens(parts: Iterable[Part], num: int) -> list[Part]:
    """Return the first ``num`` tokens of ``parts``; the last part may come shortened."""
    found = []
    for part in parts:
        if num <= 0:
            break
        found.append(Part(part.token_ids[:num], part.label))
        num -= len(part.token_ids)
    return found


def passage_text(number: int, passage: Passage) -> str:
    """Return a passage as the model sees it: its number, where it stands, its text."""
    title = " > ".join(passage.heading) or passage.document
    context = f"{passage.context}\n" if passage.context else ""
    return f"[{number}] {title}\n{context}{passage.text}\n\n"
