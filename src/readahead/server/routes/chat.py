"""/v1/chat/completions: answers from the documents, or the bare target's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from contextlib import closing
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Body, Request, Response
from fastapi.responses import JSONResponse

from readahead.lm.base import Cancelled
from readahead.reply import Event
from readahead.server.asking import begun
from readahead.server.observability.serving import asks
from readahead.server.routes.answering import answer_events, check
from readahead.server.routes.barechat import Spoken, check_bare, written
from readahead.server.routes.catalogue import DOCUMENTS, unknown_model
from readahead.server.schemas.dialogue import Dialogue, read_messages
from readahead.server.schemas.replies import (
    Envelope,
    annotations_json,
    answer_json,
    citation_json,
    message_json,
    told_reason,
    usage_json,
)
from readahead.server.schemas.requests import ChatRequest
from readahead.server.state import Caller, CallerOf, Service, ServiceOf, Tenant, TenantOf
from readahead.server.stream import streamed
from readahead.types import Answer, Citation

router = APIRouter()

Indexed = tuple[int, Event]


@router.post("/v1/chat/completions")
async def complete_chat(
    request: Request,
    chat: Annotated[ChatRequest, Body()],
    service: ServiceOf,
    caller: CallerOf,
    tenant: TenantOf,
) -> Response:
    """Answer the last message of a chat."""
    num_choices = chat.num_choices(service.config.server.max_choices)
    if chat.model != DOCUMENTS:
        return await _bare(request, chat, service, caller, num_choices)
    dialogue = read_messages(chat.messages)
    check(chat, dialogue)
    envelope = Envelope.of_chat(chat.model, is_counted=chat.is_counted)
    asks(chat, envelope.id)
    make = partial(_choices, service, caller, tenant, chat, dialogue, num_choices)
    events = await begun(request, service, caller, make, is_stream=bool(chat.stream))
    if chat.stream:
        return streamed(_chunks(events, envelope, chat), service.config.server.heartbeat_s)
    return JSONResponse(await _whole(events, envelope, chat))


async def _bare(
    request: Request, chat: ChatRequest, service: Service, caller: Caller, num_choices: int
) -> Response:
    """Answer with the target alone, if that is what was asked for."""
    target = await asyncio.to_thread(lambda: service.loaded.target)
    if chat.model != target.name:
        raise unknown_model(chat.model, "GET /v1/models lists them.")
    check_bare(chat)
    envelope = Envelope.of_chat(chat.model, is_counted=chat.is_counted)
    asks(chat, envelope.id)
    make = partial(written, service, caller, chat, num_choices)
    events = await begun(request, service, caller, make, is_stream=bool(chat.stream))
    spoken = Spoken(target.tokenizer, chat, envelope)
    if chat.stream:
        return streamed(spoken.chunks(events), service.config.server.heartbeat_s)
    return JSONResponse(await spoken.whole(events))


def _choices(
    service: Service,
    caller: Caller,
    tenant: Tenant,
    chat: ChatRequest,
    dialogue: Dialogue,
    num: int,
    cancelled: Cancelled,
) -> Generator[Indexed]:
    """Yield the events of all choices, one choice after the other."""
    with service.spending(caller):
        for index in range(num):
            events = answer_events(tenant, chat, dialogue, index, cancelled)
            with closing(events):
                for event in events:
                    yield index, event


async def _whole(
    events: AsyncIterator[Indexed], envelope: Envelope, chat: ChatRequest
) -> dict[str, object]:
    """Return the completion once all its answers are there."""
    answers = [event async for _, event in events if isinstance(event, Answer)]
    choices = [
        {
            "index": index,
            "message": message_json(answer),
            "logprobs": None,
            "finish_reason": told_reason(answer.finish_reason),
        }
        for index, answer in enumerate(answers)
    ]
    usage = usage_json([answer.usage for answer in answers])
    return envelope.around(choices, usage) | _extension(answers, chat)


async def _chunks(
    events: AsyncIterator[Indexed], envelope: Envelope, chat: ChatRequest
) -> AsyncIterator[dict[str, object]]:
    """Yield the completion part by part."""
    answers: list[Answer] = []
    begun: set[int] = set()
    async for index, event in events:
        if index not in begun:
            begun.add(index)
            yield envelope.chunk({"role": "assistant", "content": ""}, index)
        if isinstance(event, str):
            if event:
                yield envelope.chunk({"content": event}, index)
        elif isinstance(event, Citation):
            told = {"readahead": {"citation": citation_json(event)}}
            yield envelope.chunk({}, index) | told
        else:
            answers.append(event)
            cited = annotations_json(event)
            delta = {"annotations": cited} if cited else {}
            ending = envelope.chunk(delta, index, finish_reason=told_reason(event.finish_reason))
            yield ending | _extension([event], chat)
    if chat.is_counted:
        yield envelope.last(usage_json([answer.usage for answer in answers]))


def _extension(answers: list[Answer], chat: ChatRequest) -> dict[str, object]:
    """Return the object of what OpenAI's fields have no place for; of further choices, too."""
    session = chat.readahead.session if chat.readahead else None
    told = [answer_json(answer, session) for answer in answers]
    if not told:
        return {}
    return {"readahead": told[0] | ({"choices": told} if len(told) > 1 else {})}
