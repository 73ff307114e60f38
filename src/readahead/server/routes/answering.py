"""Answers from the documents of a tenant, by whichever method a chat asks for; knows no HTTP."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from readahead.engine import Engine
from readahead.evidence.markers import Markers
from readahead.lm.base import Cancelled
from readahead.lm.dialogue import Exchange
from readahead.lm.sample import SamplingParams
from readahead.plain import sampling_params
from readahead.reply import Event
from readahead.server.problems import Problem, unsupported
from readahead.server.schemas.dialogue import Dialogue
from readahead.server.schemas.requests import ChatRequest, Extension
from readahead.server.schemas.settings import check_settings, configured
from readahead.server.state import Tenant
from readahead.session import Session

_NOT_AT_0 = ("top_p", "seed")  # change nothing of what is greedy


def answer_events(
    tenant: Tenant,
    chat: ChatRequest,
    dialogue: Dialogue,
    index: int,
    cancelled: Cancelled,
) -> Generator[Event]:
    """Yield the answer's text, each citation before its marker and, last, the Answer.

    Args:
        tenant: Whose documents.
        chat: How to answer.
        dialogue: What its messages come to.
        index: Of the choice, where several are asked for.
        cancelled: Asked between two model steps.
    """
    extension = chat.readahead or Extension()
    if extension.session is not None:
        served = tenant.sessions.get(extension.session)
        params = _params(tenant, chat, served.settings)
        yield from served.submit(dialogue.question, params=params, cancelled=cancelled)
        return
    engine = _engine(tenant, chat, extension, dialogue, index)
    filter = extension.filter(engine.knowledge.store)
    if extension.method == "prefetch":
        with Session(engine, filter=filter, inject=extension.inject) as session:
            session.follow(dialogue.exchanges)
            yield from session.submit(dialogue.question, cancelled=cancelled)
        return
    encode = engine.target.tokenizer.encode
    yield from engine.stream(
        dialogue.question,
        method=extension.method,
        filter=filter,
        inject=extension.inject,
        exchanges=[
            Exchange(question, tuple(encode(Markers.read(answer).text)))
            for question, answer in dialogue.exchanges
        ],
        cancelled=cancelled,
    )


def check(chat: ChatRequest, dialogue: Dialogue) -> None:
    """Raise Problem if something is asked for that this kind of answer does not have."""
    for name in ("logprobs", "top_logprobs"):
        if getattr(chat, name):
            raise Problem(
                400,
                f"{name} is not supported where answers get citations; ask the bare model.",
                param=name,
                code="unsupported",
            )
    extension = chat.readahead or Extension()
    if extension.method == "drafts":
        _check_drafts(chat, dialogue)
    if extension.inject and extension.method not in ("prefetch", "plain"):
        raise Problem(
            400,
            f"inject goes with the methods prefetch and plain, not with {extension.method}.",
            param="readahead.inject",
            code="unsupported",
        )
    if extension.inject and extension.method == "plain" and dialogue.exchanges:
        raise Problem(
            400,
            "inject goes with earlier messages in the method prefetch only.",
            param="readahead.inject",
            code="unsupported",
        )
    if extension.session is not None:
        _check_session(chat, extension, dialogue)
    check_settings(extension.settings, extension.method, extension.prefix)


def _check_drafts(chat: ChatRequest, dialogue: Dialogue) -> None:
    """Refuse what only a plain answer would heed, which steps in where drafting fails."""
    for name in chat.decoding:
        if name not in _NOT_AT_0 and getattr(chat, name):
            raise unsupported(name, "drafts are short and greedy; the method plain heeds it")
    if dialogue.system:
        raise Problem(
            400,
            "Drafts heed no instructions; the method plain does.",
            param="messages",
            code="unsupported",
        )


def _check_session(chat: ChatRequest, extension: Extension, dialogue: Dialogue) -> None:
    if dialogue.exchanges or dialogue.system:
        raise Problem(
            400,
            "A session knows the earlier messages: send the new one alone.",
            param="messages",
        )
    fixed = {
        "method": extension.method != "prefetch",
        "documents": bool(extension.documents),
        "kinds": bool(extension.kinds),
        "metadata": bool(extension.metadata),
        "inject": extension.inject is not None,
        "settings": bool(extension.settings),
    }
    for name in (name for name, is_given in fixed.items() if is_given):
        raise Problem(
            400,
            f"{name} is said when a session is made (POST /v1/sessions), not with a question.",
            param=f"readahead.{name}",
        )
    if (chat.n or 1) > 1:
        raise Problem(400, "A session gives one answer at a time.", param="n")


def _params(tenant: Tenant, chat: ChatRequest, opened: Mapping[str, Any]) -> SamplingParams | None:
    """Return how a session's answer is decoded; None: as it was when it was begun ahead.

    Args:
        tenant: Whose session.
        chat: What it says goes before what the session says.
        opened: How the session was opened.
    """
    if not chat.decoding:
        return None
    if opened.get("method") == "rapid":
        raise unsupported(chat.decoding[0], "a session by rapid answers as its settings say")
    config = configured(tenant.engine.config, opened["settings"])
    return sampling_params(chat.generation(config.generation, chat.max_new_tokens))


def _engine(
    tenant: Tenant, chat: ChatRequest, extension: Extension, dialogue: Dialogue, index: int
) -> Engine:
    """Return the tenant's engine with the settings of this request."""
    config = configured(tenant.engine.config, extension.settings, extension.prefix)
    generation = chat.generation(config.generation, chat.max_new_tokens, index)
    system = "\n\n".join(filter(None, (generation.system, dialogue.system)))
    generation = generation.model_copy(update={"system": system})
    return tenant.engine.configured(config.model_copy(update={"generation": generation}))
