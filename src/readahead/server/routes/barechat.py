"""A chat with the bare target: no documents, its own words alone, with log-probabilities."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Sequence
from dataclasses import dataclass, replace

from readahead.bare import bare_trace, stream_choices
from readahead.lm.base import Cancelled
from readahead.lm.generate import Piece
from readahead.lm.messages import message_ids
from readahead.lm.sample import SamplingParams
from readahead.lm.spelling import spelled
from readahead.lm.tokenizer import Tokenizer
from readahead.plain import sampling_params
from readahead.server.problems import unsupported
from readahead.server.schemas.dialogue import SYSTEM, system_text
from readahead.server.schemas.replies import Envelope, told_reason, usage_json
from readahead.server.schemas.requests import ChatRequest, Message
from readahead.server.state import Caller, Service
from readahead.types import FinishReason, Usage

TEMPERATURE = 1.0  # where none is given, as OpenAI has it


@dataclass(frozen=True, slots=True)
class Begun:
    """Comes first: the prompt is laid out, and may be answered."""

    num_prompt_tokens: int


Written = Begun | tuple[int, Piece]


def written(
    service: Service, caller: Caller, chat: ChatRequest, num_choices: int, cancelled: Cancelled
) -> Generator[Written]:
    """Yield what the target writes, choice by choice."""
    loaded = service.loaded
    choices = [_params(chat, service, index) for index in range(num_choices)]
    room = loaded.target.max_context_tokens - (chat.max_new_tokens or 1)
    prompt_ids = message_ids(loaded.target.tokenizer, merged(chat.messages), room)
    yield Begun(len(prompt_ids))
    with bare_trace(loaded, "chat", len(prompt_ids), service.saw) as trace:
        answers = stream_choices(loaded, prompt_ids, choices, cancelled, trace=trace)
        try:
            for index, pieces in enumerate(answers):
                for piece in service.metrics.timed(pieces):
                    yield index, piece
        finally:
            num_written = trace.counters.get("completion_tokens", 0)
            service.budgets.spend(caller, len(prompt_ids) + num_written)


def check_bare(chat: ChatRequest) -> None:
    """Raise Problem if something is asked for that only documents give."""
    if chat.readahead is not None:
        raise unsupported("readahead", "the bare model has no documents; ask the model readahead")
    if chat.top_logprobs is not None and not chat.logprobs:
        raise unsupported("top_logprobs", "it goes with logprobs: true only")


def _params(chat: ChatRequest, service: Service, index: int) -> SamplingParams:
    defaults = service.config.generation.model_copy(update={"temperature": TEMPERATURE})
    params = sampling_params(chat.generation(defaults, chat.max_new_tokens, index))
    return replace(params, num_top_logprobs=chat.top_logprobs or 0)


def merged(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """Return roles and texts as chat templates take them: one system message, in front."""
    system = system_text(messages)
    others = [(message.role, message.text) for message in messages if message.role not in SYSTEM]
    return [*([("system", system)] if system else []), *others]


@dataclass(slots=True)
class _Choice:
    """An answer while it is put together."""

    text: str = ""
    num_tokens: int = 0
    finish_reason: FinishReason = "stop"


class Spoken:
    """Puts pieces into the shape of chat completions.

    Args:
        tokenizer: Of the target.
        chat: Says whether log-probabilities are told.
        envelope: Of the completion.
    """

    def __init__(self, tokenizer: Tokenizer, chat: ChatRequest, envelope: Envelope) -> None:
        self._tokenizer = tokenizer
        self._chat = chat
        self._envelope = envelope
        self._num_prompt_tokens = 0
        self._choices: dict[int, _Choice] = {}
        self._logprobs: dict[int, list[object]] = {}

    async def whole(self, events: AsyncIterator[Written]) -> dict[str, object]:
        """Return the completion once all is written."""
        async for _ in self.chunks(events):
            pass
        choices: list[dict[str, object]] = [
            {
                "index": index,
                "message": {
                    "role": "assistant",
                    "content": choice.text,
                    "refusal": None,
                    "annotations": [],
                },
                "logprobs": self._told(self._logprobs[index]),
                "finish_reason": told_reason(choice.finish_reason),
            }
            for index, choice in self._choices.items()
        ]
        return self._envelope.around(choices, self._usage())

    async def chunks(self, events: AsyncIterator[Written]) -> AsyncIterator[dict[str, object]]:
        """Yield the completion part by part."""
        async for event in events:
            if isinstance(event, Begun):
                self._num_prompt_tokens = event.num_prompt_tokens
                continue
            index, piece = event
            if index not in self._choices:
                self._choices[index], self._logprobs[index] = _Choice(), []
                yield self._envelope.chunk({"role": "assistant", "content": ""}, index)
            told = self._add(index, piece)
            if piece.text or told:
                delta = {"content": piece.text}
                yield self._envelope.chunk(delta, index, logprobs=self._told(told))
            if piece.finish_reason:
                reason = told_reason(piece.finish_reason)
                yield self._envelope.chunk({}, index, finish_reason=reason)
        if self._chat.is_counted:
            yield self._envelope.last(self._usage())

    def _add(self, index: int, piece: Piece) -> list[object]:
        choice = self._choices[index]
        choice.text += piece.text
        choice.num_tokens += len(piece.token_ids)
        choice.finish_reason = piece.finish_reason or choice.finish_reason
        if not self._chat.logprobs:
            return []
        tops = piece.top or ((),) * len(piece.token_ids)
        pairs = zip(piece.token_ids, piece.logprobs, tops, strict=True)
        told: list[object] = [
            {
                **self._spelled(token_id, logprob),
                "top_logprobs": [self._spelled(*one) for one in top],
            }
            for token_id, logprob, top in pairs
        ]
        self._logprobs[index] += told
        return told

    def _spelled(self, token_id: int, logprob: float) -> dict[str, object]:
        token = self._tokenizer.token_bytes(token_id)
        return {"token": spelled(token), "logprob": logprob, "bytes": list(token)}

    def _told(self, tokens: list[object]) -> dict[str, object] | None:
        return {"content": tokens, "refusal": None} if self._chat.logprobs else None

    def _usage(self) -> dict[str, object]:
        num_tokens = sum(choice.num_tokens for choice in self._choices.values())
        return usage_json([Usage(self._num_prompt_tokens, num_tokens)])
