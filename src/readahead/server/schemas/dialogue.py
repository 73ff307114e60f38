"""The messages of a chat as what a knowledge base can be asked: a question and what it follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readahead.server.problems import Problem
from readahead.server.schemas.requests import Message

SYSTEM = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Dialogue:
    """What the messages come to.

    Attributes:
        question: The last of the user.
        system: What the client instructs, all of it.
        exchanges: The questions and answers before, the oldest first.
    """

    question: str
    system: str = ""
    exchanges: tuple[tuple[str, str], ...] = ()


def system_text(messages: Sequence[Message]) -> str:
    """Return what the client instructs, "" if nothing."""
    return "\n\n".join(message.text for message in messages if message.role in SYSTEM)


def read_messages(messages: Sequence[Message]) -> Dialogue:
    """Return what ``messages`` come to; several of one role in a row are one.

    Raises:
        Problem: 400, the last one is not the user's, or an answer has no question.
    """
    turns: list[tuple[str, str]] = []
    for message in messages:
        if message.role in SYSTEM:
            continue
        if turns and turns[-1][0] == message.role:
            turns[-1] = (message.role, f"{turns[-1][1]}\n{message.text}")
        else:
            turns.append((message.role, message.text))
    if not turns or turns[-1][0] != "user":
        raise Problem(400, "The last message must be the user's.", param="messages")
    if turns[0][0] != "user":
        raise Problem(400, "An answer stands before the first question.", param="messages")
    if not turns[-1][1].strip():
        blank = "The question is blank. Ask something."
        raise Problem(400, blank, param="messages", code="blank")
    texts = [text for _, text in turns]
    exchanges = tuple(zip(texts[0:-1:2], texts[1:-1:2], strict=True))
    return Dialogue(texts[-1], system_text(messages), exchanges)
