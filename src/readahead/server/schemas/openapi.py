"""The OpenAPI document: what each operation is for, gives and may answer instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from readahead.server.schemas import answershapes, shapes

Json = dict[str, Any]
ABOUT = """\
OpenAI's API over your own documents. The model `readahead` answers from them; what OpenAI's fields
have no place for is in one object, `readahead`, of the request and of the response.

Every error has the same envelope, `Error`. Beside the statuses that are listed, 500 says that the
server failed, and 499, which only its log shows, that the client had left.
"""
TAGS = {
    "answers": "Answers from the documents, or of the bare target.",
    "models": "What may be asked.",
    "documents": "Upload, follow the indexing, list, read, delete.",
    "search": "Passages without an answer.",
    "sessions": "Conversations that are read ahead for while a question is typed.",
    "traces": "What happened in a request, and when.",
    "server": "Whether it lives and answers, and what may be set.",
}
ERRORS = {
    400: "The request is not as it must be, or asks for what is not served; `param` names the "
    "field.",
    401: "A key is needed, and this is none that is known.",
    403: "The server is not called by this name, or a page of another site asks.",
    404: "There is no such model, document, passage, job, session or trace.",
    408: "The body stopped coming (`server.body_idle_s`).",
    409: "The session is answering, or the embedder is not that of the documents.",
    413: "The body, or the files of an upload together, are too long.",
    415: "The format of a file or of the body is not known.",
    429: "The key's budget is used, the queue is full, or there is room for no more.",
    503: "The server is about to end, or not ready, or cannot read its keys.",
    507: "The server's disk is full; nothing was changed.",
}
EVENTS = "One JSON object an event, as its data; of answers, `[DONE]` is the data of the last one."
WAIT = {"Retry-After": {"description": "seconds", "schema": {"type": "string"}}}
SCHEMA = {"bearer": {"type": "http", "scheme": "bearer", "description": "An API key."}}
REFERENCE = "#/components/schemas/{model}"


@dataclass(frozen=True, slots=True)
class Operation:
    """What the routes themselves do not say.

    Attributes:
        tag: The part of the API.
        gives: The shape of its response; None for events only.
        errors: Statuses beside those that follow from its method and parameters.
        asks: An example of a body.
        id: An example of the one in its path.
        streams: Whether it answers with server-sent events, always or if asked to.
    """

    tag: str
    gives: type[BaseModel] | None
    errors: tuple[int, ...] = ()
    asks: Mapping[str, object] | None = None
    id: str = ""
    streams: bool = False


_ASKED = {
    "model": "readahead",
    "messages": [{"role": "user", "content": "How deep is Lake Baikal?"}],
    "readahead": {"method": "prefetch", "settings": {"retrieval.k": 5}},
}
_SCORED = {
    "model": "smollm2-135m",
    "prompt": "The lake is deep.",
    "max_tokens": 0,
    "echo": True,
    "logprobs": 1,
}
_EMBEDDED = {"model": "all-minilm-l6-v2", "input": ["a deep lake", "a high tower"]}
_TRACE = "0123456789ab"
OPERATIONS = {
    "POST /v1/chat/completions": Operation(
        "answers", answershapes.ChatCompletion, (404, 409), _ASKED, streams=True
    ),
    "POST /v1/completions": Operation(
        "answers", answershapes.Completion, (404,), _SCORED, streams=True
    ),
    "POST /v1/embeddings": Operation("answers", answershapes.Embeddings, (404, 409), _EMBEDDED),
    "GET /v1/models": Operation("models", answershapes.Models),
    "GET /v1/models/{name}": Operation("models", answershapes.Model, (404,)),
    "POST /v1/documents": Operation("documents", shapes.Job, (415,)),
    "GET /v1/documents": Operation("documents", shapes.Documents),
    "GET /v1/documents/{id}": Operation("documents", shapes.Document, (404,), id="1"),
    "DELETE /v1/documents/{id}": Operation("documents", shapes.Deleted, (404,), id="2"),
    "GET /v1/jobs": Operation("documents", shapes.Jobs),
    "GET /v1/jobs/{id}": Operation("documents", shapes.Job, (404,)),
    "GET /v1/jobs/{id}/events": Operation("documents", None, (404,), streams=True),
    "POST /v1/search": Operation(
        "search", shapes.Hits, (404, 409), {"query": "a deep lake", "k": 3}
    ),
    "GET /v1/passages/{id}": Operation("search", shapes.Passage, (404,), id="1.1.0"),
    "POST /v1/sessions": Operation("sessions", shapes.Session, (404,), {"inject": True}),
    "GET /v1/sessions": Operation("sessions", shapes.Sessions),
    "GET /v1/sessions/{id}": Operation("sessions", shapes.Conversation, (404,)),
    "DELETE /v1/sessions/{id}": Operation("sessions", shapes.Deleted, (404,)),
    "POST /v1/sessions/{id}/typing": Operation(
        "sessions", shapes.Status, (404,), {"text": "How deep is La"}
    ),
    "GET /v1/sessions/{id}/status": Operation("sessions", shapes.Status, (404,)),
    "GET /v1/traces": Operation("traces", shapes.Traces),
    "GET /v1/traces/{id}": Operation("traces", shapes.Trace, (404,), id=_TRACE),
    "GET /v1/settings": Operation("server", shapes.Settings),
    "GET /ready": Operation("server", shapes.Health),
    "GET /health": Operation("server", shapes.Health),
}
"""All that are in the document; a test holds it to the routes."""
LINKS = {
    "POST /v1/documents": {"get_job": "/id", "follow_job": "/id"},
    "GET /v1/documents": {"get_document": "/data/0/id", "delete_document": "/data/0/id"},
    "POST /v1/search": {"get_passage": "/hits/0/passage_id"},
    "POST /v1/sessions": {
        "get_session": "/id",
        "type_text": "/id",
        "get_status": "/id",
        "delete_session": "/id",
    },
    "POST /v1/chat/completions": {"get_trace": "/readahead/trace_id"},
    "GET /v1/traces": {"get_trace": "/data/0/id"},
}
"""Where a response has what other operations take as their ``id``."""
OPEN = "GET /health"
FORM = "multipart/form-data"
NAMED = {  # the ending of a file's name tells its format
    "Content-Disposition": {
        "required": True,
        "schema": {"type": "string"},
        "example": 'form-data; name="files"; filename="lake.md"',
    }
}


def install(app: FastAPI) -> None:
    """Let ``app`` serve this document; made at the first request for it."""
    plain = app.openapi

    def complete() -> Json:
        document = plain()
        if "securitySchemes" not in document["components"]:
            _complete(document)
        return document

    app.openapi = complete  # type: ignore[method-assign]  # as FastAPI has it


def _complete(document: Json) -> None:
    """Add to FastAPI's ``document`` what it cannot know."""
    document["info"]["description"] = ABOUT
    document["tags"] = [{"name": tag, "description": about} for tag, about in TAGS.items()]
    document["security"] = [{"bearer": []}, {}]  # {}: a server without keys needs none
    components = document["components"]
    components["securitySchemes"] = SCHEMA
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    components["schemas"] |= _schemas()
    for name, described in _operations(document):
        _describe(described, name, OPERATIONS[name])


def _operations(document: Json) -> Iterator[tuple[str, Json]]:
    for path, item in document["paths"].items():
        for method, described in item.items():
            yield f"{method.upper()} {path}", described


def _schemas() -> Json:
    """Return the shapes of all responses."""
    given = {operation.gives for operation in OPERATIONS.values()} | {shapes.Error}
    ordered = sorted((shape for shape in given if shape), key=lambda shape: shape.__name__)
    models = [(shape, "validation") for shape in ordered]
    schemas: Json = models_json_schema(models, ref_template=REFERENCE)[1]["$defs"]  # type: ignore[arg-type]
    return schemas


def _describe(described: Json, name: str, operation: Operation) -> None:
    summary, _, more = described["description"].replace("``", "`").partition("\n")
    described["summary"] = summary.rstrip(".")
    described["description"] = more.partition("Raises:")[0].strip() or summary
    described["tags"] = [operation.tag]
    if name == OPEN:
        described["security"] = []
    if operation.asks:
        described["requestBody"]["content"]["application/json"]["example"] = operation.asks
    for parameter in described.get("parameters", ()) if operation.id else ():
        if parameter["name"] == "id":
            parameter["example"] = operation.id
    if FORM in described.get("requestBody", {}).get("content", {}):
        described["requestBody"]["content"][FORM]["encoding"] = {"files": {"headers": NAMED}}
    success = next(status for status in described["responses"] if status.startswith("2"))
    statuses = {*operation.errors, *_usual_errors(name, described)}
    described["responses"] = {success: _success(name, operation)} | {
        str(status): _error(status) for status in sorted(statuses)
    }


def _success(name: str, operation: Operation) -> Json:
    about = (operation.gives and operation.gives.__doc__) or "One event after the other."
    given: Json = {"description": about, "content": _content(operation)}
    if name in LINKS:
        given["links"] = {
            taker: {"operationId": taker, "parameters": {"id": f"$response.body#{place}"}}
            for taker, place in LINKS[name].items()
        }
    return given


def _content(operation: Operation) -> Json:
    content: Json = {}
    if operation.gives:
        reference = REFERENCE.format(model=operation.gives.__name__)
        content["application/json"] = {"schema": {"$ref": reference}}
    if operation.streams:
        content["text/event-stream"] = {"schema": {"description": EVENTS}}
    return content


def _usual_errors(name: str, described: Json) -> Iterator[int]:
    """Yield what the guard and the checks of parameters answer."""
    yield 403
    if name != OPEN:
        yield from (401, 503)
    if "requestBody" in described:
        yield from (400, 408, 413)
    if any(parameter["in"] == "query" for parameter in described.get("parameters", ())):
        yield 400
    if not name.startswith("GET"):
        yield from (429, 507)


def _error(status: int) -> Json:
    schema = {"$ref": REFERENCE.format(model=shapes.Error.__name__)}
    told: Json = {
        "description": ERRORS[status],
        "content": {"application/json": {"schema": schema}},
    }
    return told | ({"headers": WAIT} if status in (429, 503) else {})
