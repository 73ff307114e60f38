"""The prompts of a completion: texts or token ids, one or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from readahead.errors import ContextOverflow
from readahead.lm.batch import check_room
from readahead.lm.model import TransformersModel
from readahead.server.problems import Problem
from readahead.server.schemas.fields import AnyText, said_as

MAX_PROMPTS = 64
TokenId = Annotated[int, Field(strict=True, ge=0, lt=2**31)]
TokenIds = Annotated[list[TokenId], Field(min_length=1)]


Prompts = Annotated[
    AnyText
    | TokenIds
    | Annotated[list[AnyText], Field(min_length=1, max_length=MAX_PROMPTS)]
    | Annotated[list[TokenIds], Field(min_length=1, max_length=MAX_PROMPTS)],
    said_as(
        "Input should be a text, token ids, or a list of at most 64 texts or lists of token ids"
    ),
]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt, as it was sent and as the model reads it."""

    text: str
    token_ids: tuple[int, ...]


def read_prompts(
    model: TransformersModel, given: str | list[int] | list[str] | list[list[int]], room: int
) -> list[Prompt]:
    """Return what is to be read.

    A text never becomes a control token. Token ids may be any: the prompt of the bare model is its
    caller's own.

    Args:
        model: What reads them.
        given: Of a request.
        room: How many tokens must fit behind a prompt: as many as are asked for, 1 where that is
            left open, 0 where nothing is written.

    Raises:
        Problem: 400, a prompt is empty, or has ids that the model does not know.
        ContextOverflow: A prompt is too long for the model, or for it and the answer.
    """
    is_list = isinstance(given, list) and not isinstance(given[0], int)
    prompts = [_read(model, one) for one in (given if is_list else [given])]  # type: ignore[arg-type]
    for prompt in prompts:
        _check_answer(model, len(prompt.token_ids), room)
        check_room(model, max(1, len(prompt.token_ids) - 1 + room))
    return prompts


def _check_answer(model: TransformersModel, num_tokens: int, room: int) -> None:
    if room > 1 and num_tokens + room > model.max_context_tokens:
        raise ContextOverflow(
            f"The prompt has {num_tokens} tokens, and max_tokens is {room}; the model's context "
            f"holds {model.max_context_tokens}.",
            remedy="Shorten it, or lower max_tokens.",
        )


def _read(model: TransformersModel, given: str | Sequence[int]) -> Prompt:
    tokenizer = model.tokenizer
    if isinstance(given, str):
        token_ids = (*tokenizer.opening_ids, *tokenizer.encode(given))
        if not token_ids:
            raise Problem(400, "The prompt is empty. Give at least one token.", param="prompt")
        return Prompt(given, token_ids)
    if max(given) >= tokenizer.num_tokens:
        raise Problem(
            400,
            f"The prompt has the token id {max(given)}; {model.name!r} has those from 0 to "
            f"{tokenizer.num_tokens - 1}.",
            param="prompt",
        )
    return Prompt(tokenizer.decode(given), tuple(given))
