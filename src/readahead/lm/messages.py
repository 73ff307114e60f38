"""The prompt of a conversation in which nothing was retrieved; knows no model.

The chat template's own text is control; what people wrote is text, and stays text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from readahead.errors import ContextOverflow, InputError
from readahead.lm.quiet import first_line
from readahead.lm.tokenizer import Tokenizer

Message = tuple[str, str]
"""Whose it is (``system``, ``user`` or ``assistant``), and what it says."""

ROLES = ("system", "user", "assistant")
_MARK = re.compile("\u241eMESSAGE([0-9]+)\u241e")
_REMEDY = "Begin with at most one system message, then let user and assistant take turns."


def message_ids(
    tokenizer: Tokenizer, messages: Sequence[Message], max_tokens: int
) -> tuple[int, ...]:
    """Return the token ids of ``messages``, up to where the model is to answer.

    *Exact*: those of the chat template, where no message holds a control token and the tokenizer
    joins nothing across the bounds of a message. A template without a system role gets the system
    text at the head of the first user's message; a model without a template gets paragraphs.

    Args:
        tokenizer: The target's.
        messages: The oldest first.
        max_tokens: The model's context less the answer.

    Raises:
        InputError: The messages are not a conversation that the template can write.
        ContextOverflow: They are longer than ``max_tokens``.
    """
    _check(messages)
    said = _templated(tokenizer, messages) if tokenizer.has_template else _paragraphs(messages)
    encode = tokenizer.encode_control, tokenizer.encode
    ids = tuple(chain.from_iterable(encode[is_text](text) for is_text, text in said if text))
    if len(ids) > max_tokens:
        raise ContextOverflow(
            f"The messages take {len(ids)} tokens; there is room for {max(0, max_tokens)} beside "
            "an answer.",
            remedy="Leave out the oldest ones, or ask for a shorter answer.",
        )
    return ids


def _check(messages: Sequence[Message]) -> None:
    if not messages:
        raise InputError("messages is empty.", remedy="Give at least one of a user.")
    for place, (role, _) in enumerate(messages):
        if role not in ROLES:
            raise InputError(
                f"messages[{place}] has the role {role!r}.", remedy=f"Use: {', '.join(ROLES)}."
            )


_Said = Sequence[tuple[bool, str]]
"""Runs of a prompt: whether it is what people wrote, and the text."""


def _templated(tokenizer: Tokenizer, messages: Sequence[Message]) -> _Said:
    """Return what the template makes of ``messages``, else of them without a system role."""
    reasons = []
    for tried in (messages, without_system(messages)):
        try:
            rendered = tokenizer.render(_marked(tried))
        except Exception as error:  # a template refuses by raising whatever it likes
            reasons.append(first_line(error))
            continue
        said = list(_between(rendered, tried))
        if [text for is_text, text in said if is_text] == [text for _, text in tried]:
            return said
        reasons.append("it leaves some out")
    raise InputError(
        f"The chat template of the model does not take these messages: {reasons[-1]}.",
        remedy=_REMEDY,
    )


def _marked(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [
        {"role": role, "content": f"\u241eMESSAGE{place}\u241e"}
        for place, (role, _) in enumerate(messages)
    ]


def _between(rendered: str, messages: Sequence[Message]) -> Iterator[tuple[bool, str]]:
    """Yield the template's own text and, in place of the marks, what people wrote."""
    for place, text in enumerate(_MARK.split(rendered)):
        yield (True, messages[int(text)][1]) if place % 2 else (False, text)


def without_system(messages: Sequence[Message]) -> list[Message]:
    """Return ``messages`` with the system text at the head of the first user's message."""
    system = [text for role, text in messages if role == "system"]
    others = [(role, text) for role, text in messages if role != "system"]
    first = next((place for place, (role, _) in enumerate(others) if role == "user"), None)
    if system and first is not None:
        others[first] = ("user", "\n\n".join([*system, others[first][1]]))
    return others if first is not None else list(messages)


def _paragraphs(messages: Sequence[Message]) -> _Said:
    """Return ``messages`` for a model without a template, as ``Tokenizer.frame`` lays them out."""
    said: list[tuple[bool, str]] = []
    for place, (role, text) in enumerate(messages):
        is_answer = role == "assistant"
        gap = "\n\n" if place else ""
        said += [(False, f"{gap}Answer:" if is_answer else gap)]
        said += [(True, f" {text.lstrip()}" if is_answer else text)]
    return [*said, (False, "\n\nAnswer:")]
