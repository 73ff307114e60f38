"""/v1/sessions: conversations that are read ahead for while a question is typed."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from readahead.errors import NotFound
from readahead.retrieval.base import Filter
from readahead.retrieval.schema import json_text
from readahead.retrieval.store import Store
from readahead.server.problems import Problem
from readahead.server.schemas.dialogue import SYSTEM, read_messages
from readahead.server.schemas.fields import ShortText
from readahead.server.schemas.requests import Message
from readahead.server.schemas.scope import Scope
from readahead.server.schemas.settings import check_settings, configured, seeded
from readahead.server.served import Place, Said, ServedSession
from readahead.server.state import BRIEF, Tenant, TenantOf, caller_of, service_of
from readahead.session import DocumentChat, Session

router = APIRouter()


class NewSession(Scope):
    """The body of ``POST /v1/sessions``; what is said here holds for all its questions."""

    method: Literal["prefetch", "rapid"] = "prefetch"
    inject: StrictBool | None = None
    settings: dict[str, Any] = {}
    messages: list[Message] = Field(
        [], max_length=1000, description="said before, elsewhere: questions and answers in turn"
    )


class Typing(BaseModel):
    """The body of ``POST /v1/sessions/{id}/typing``."""

    model_config = ConfigDict(extra="forbid")

    text: ShortText


@router.post("/v1/sessions", dependencies=BRIEF)
def open_session(tenant: TenantOf, new: NewSession | None = None) -> dict[str, object]:
    """Open a conversation; its id goes with chat completions as ``readahead.session``."""
    new = new or NewSession()
    check_settings(new.settings, new.method)
    config = configured(tenant.engine.config, new.settings)
    engine = tenant.engine.configured(seeded(config, secrets.randbits(63)))
    filter = new.filter(engine.knowledge.store)
    about: Session | DocumentChat
    if new.method == "rapid":
        about = DocumentChat(engine, _one_document(new, filter))
    else:
        about = Session(engine, filter=filter, inject=new.inject)
        about.follow(_exchanges(new.messages))
    told = new.model_dump(exclude={"messages"})
    settings = json.loads(json_text(told))  # without lone surrogates
    return session_json(tenant.sessions.open(about, settings))


@router.get("/v1/sessions")
def list_sessions(tenant: TenantOf) -> dict[str, object]:
    """List the conversations that are open, the oldest first."""
    return {"object": "list", "data": [session_json(session) for session in tenant.sessions]}


@router.get("/v1/sessions/{id}")
def get_session(id: str, tenant: TenantOf) -> dict[str, object]:
    """Return what was said, and what is ready for the question that is being typed."""
    session = tenant.sessions.get(id)
    store = tenant.engine.knowledge.store
    return {
        **session_json(session),
        "turns": [_said_json(said, store) for said in session.said],
        "status": status_json(session),
        "suggestions": session.suggestions,
    }


@router.delete("/v1/sessions/{id}", dependencies=BRIEF)
def delete_session(id: str, tenant: TenantOf) -> dict[str, object]:
    """Forget a conversation; an answer that runs is cancelled."""
    tenant.sessions.remove(id)
    return {"object": "session.deleted", "id": id, "deleted": True}


@router.post("/v1/sessions/{id}/typing")
async def type_text(id: str, typing: Typing, request: Request) -> dict[str, object]:
    """Say what stands in the input line now; returns at once, with what is ready by now."""

    def stroke(tenant: Tenant) -> dict[str, object]:
        session = tenant.sessions.get(id)
        session.type(typing.text)
        return status_json(session)

    return await _at_once(request, stroke)


@router.get("/v1/sessions/{id}/status")
async def get_status(id: str, request: Request) -> dict[str, object]:
    """Return what is ready for the question that is being typed."""
    return await _at_once(request, lambda tenant: status_json(tenant.sessions.get(id)))


async def _at_once(
    request: Request, do: Callable[[Tenant], dict[str, object]]
) -> dict[str, object]:
    """Do something short on threads of its own, behind no request that waits for a model."""
    service, caller = service_of(request), caller_of(request)
    return await to_thread.run_sync(
        lambda: do(service.tenant(caller.tenant)), limiter=service.short_tasks
    )


def _exchanges(messages: list[Message]) -> tuple[tuple[str, str], ...]:
    """Return messages as the questions and answers that a session follows."""
    if not messages:
        return ()
    if messages[-1].role != "assistant" or any(message.role in SYSTEM for message in messages):
        raise Problem(
            400,
            "What was said before a session are questions and answers; the last message answers.",
            param="messages",
        )
    following = Message(role="user", content="-")
    return read_messages([*messages, following]).exchanges


def _one_document(new: NewSession, filter: Filter | None) -> str:
    """Return the name of the document that a session by rapid is about."""
    for name in ("kinds", "metadata", "inject", "messages"):
        if getattr(new, name):
            raise Problem(
                400,
                f"{name} does not go with the method rapid, which reads a whole document.",
                param=name,
            )
    names = filter.documents if filter else ()
    if len(names) != 1:
        raise Problem(400, "The method rapid talks about one document: name it.", param="documents")
    return names[0]


def session_json(session: ServedSession) -> dict[str, object]:
    """Return what tells one session from another."""
    return {
        "object": "session",
        "id": session.id,
        "created_at": int(session.created_at),
        "last_used_at": int(session.last_used_at),
        "num_turns": session.num_said,
        "is_answering": session.is_answering,
        **session.settings,
    }


def status_json(session: ServedSession) -> dict[str, object]:
    """Return what is ready for the question that is being typed."""
    status = session.status
    return {
        "object": "session.status",
        **asdict(status),
        "suggestions": session.suggestions,
    }


def _said_json(said: Said, store: Store) -> dict[str, object]:
    return {
        "question": said.question,
        "answer": said.answer,
        "finish_reason": said.finish_reason,
        "abstained": said.abstained,
        "trace_id": said.trace_id,
        "citations": [place_json(place, store) for place in said.citations],
        "passages": [place_json(place, store) for place in said.passages],
    }


def place_json(place: Place, store: Store) -> dict[str, object]:
    """Return a place with its words; these are None once its document is deleted."""
    try:
        passage = store.passage(place.passage_id)
        text = passage.text[place.start - passage.start : place.end - passage.start]
    except NotFound:
        text = None
    return {
        **asdict(place),
        "document_id": place.passage_id.partition(".")[0],
        "text": text,
    }
