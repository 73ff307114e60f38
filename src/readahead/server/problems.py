"""Errors as OpenAI's clients read them: one envelope, whatever went wrong.

{"error": {"message": …, "type": …, "param": …, "code": …}}
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match

from readahead.errors import (
    BackendError,
    ConfigError,
    ContextOverflow,
    DiskFull,
    DownloadError,
    EmbedderMismatch,
    ReadaheadError,
    StoreError,
    VocabularyMismatch,
)
from readahead.retrieval.schema import storable

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "invalid_request_error",
    409: "conflict_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
}
UNREADABLE = "The documents cannot be read or written; the server's log says why."
# The server's own faults: who sent the request can do nothing about them, and what they say names
# folders. It is for the log. The first that fits counts.
_OWN: tuple[tuple[type[ReadaheadError], int, str], ...] = (
    (DiskFull, 507, "The server's disk is full; nothing was changed. Try again once it has room."),
    (EmbedderMismatch, 409, "The documents were embedded with another model than the server has."),
    (StoreError, 500, UNREADABLE),
    (ConfigError, 500, "The server's settings do not allow this; its log says why."),
    (BackendError, 500, "The model failed; the server's log says why. A shorter request may do."),
    (DownloadError, 502, "The model is not there; the server's log says why."),
)
_COMMAND = re.compile(r"\breadahead [a-z]+|--[a-z]+")
_INSTEAD = {
    "readahead ls": "See GET /v1/documents.",
    "--document": "Name one in readahead.documents, or none.",
}
_log = logging.getLogger("readahead.server")


class Problem(Exception):
    """A request that cannot be served.

    Attributes:
        status: Of HTTP.
        message: What, limit and remedy, in one line.
        param: The field that is at fault; None where it is none.
        code: For programs; "invalid" for a 400 where nothing else is said.
        headers: Beside the usual ones.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = storable(message)  # both may quote a request, and that any string of JSON
        self.param = param and storable(param)
        self.code = code or ("invalid" if status == 400 else None)
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "error": {
                "message": self.message,
                "type": TYPES.get(self.status, "server_error"),
                "param": self.param,
                "code": self.code,
            }
        }

    @property
    def response(self) -> JSONResponse:
        """Return the answer to the request."""
        return JSONResponse(self.body, self.status, headers=self.headers)


def ended() -> Problem:
    """Return what is told while the server ends, and of answers that it cuts off."""
    return Problem(
        503,
        "The server ends. Ask again once it is back.",
        code="draining",
        headers={"Retry-After": "10"},
    )


def unsupported(param: str, why: str) -> Problem:
    """Return the problem of a field that is understood and not served."""
    return Problem(400, f"{param} is not supported: {why}", param=param, code="unsupported")


def problem_of(error: Exception) -> Problem:
    """Return what to tell of any error; of one that nobody foresaw, only that it happened."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, ReadaheadError):
        return _foreseen(error)
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, HTTPException):
        return Problem(error.status_code, str(error.detail), headers=error.headers)
    _log.error("fault", exc_info=error)
    return Problem(500, "The server failed; its log says where.", code="fault")


def _foreseen(error: ReadaheadError) -> Problem:
    """Return what a client may know of an error, and can follow; log the whole if it is ours."""
    code = type(error).__name__
    if isinstance(error, VocabularyMismatch):
        return Problem(error.http_status, str(error), code=code)
    for kind, status, told in _OWN:
        if isinstance(error, kind):
            _log.error("%s: %s", code, error, exc_info=error)
            return Problem(status, told, code=code)
    if isinstance(error, ContextOverflow):
        code = "context_length_exceeded"
    remedy = _for_clients(error.remedy)
    if error.remedy and not remedy:  # then it is for whoever has the command line
        _log.warning("%s: %s", code, error)
    return Problem(error.http_status, f"{error.message} {remedy}".strip(), code=code)


def _for_clients(remedy: str) -> str:
    """Return a remedy without a command line: what is done instead, if there is something."""
    command = _COMMAND.search(remedy)
    told = _INSTEAD.get(command[0], "") if command else remedy
    return told.replace("generation.max_new_tokens", "max_tokens")  # no request sets the former


def _invalid(error: RequestValidationError) -> Problem:
    first = error.errors()[0]
    where = [str(part) for part in first["loc"][1:]]  # without: body, query, path
    if where[-1:] == ["[key]"]:  # the name in front of it is at fault
        where.pop()
    if first["type"] == "json_invalid":
        return Problem(400, "The body is not JSON.", code="json_invalid")
    if first["type"] == "model_attributes_type" and not where:
        message = "The body is no JSON object, or not sent as Content-Type: application/json."
        return Problem(400, message, code="json_invalid")
    param = ".".join(where) or None
    if first["type"] == "extra_forbidden":
        message = f"{param} is no field of this request; /openapi.json lists those there are."
        return Problem(400, message, param=param, code="unsupported")
    if first["type"] == "unsupported" and param:
        return unsupported(param, first["msg"])
    message = of_field(param or "body", first["msg"])
    return Problem(400, message, param=param, code="invalid")


def of_field(name: str, complaint: str) -> str:
    """Return what pydantic says of a field as a sentence."""
    return f"{name}: {complaint.removeprefix('Value error, ')}."


def _methods(request: Request, routes: Sequence[BaseRoute]) -> list[str]:
    """Return with which methods the path of a request may be called."""
    found = (route for route in routes if route.matches(request.scope)[0] != Match.NONE)
    return sorted({method for route in found for method in getattr(route, "methods", ())})


def install(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Answer every error of ``app``, which has these ``routes``, with the envelope."""

    async def answer(request: Request, error: Exception) -> JSONResponse:
        problem = problem_of(error)
        if problem.status == 405:  # the router names the methods of one route only
            problem.headers["Allow"] = ", ".join(_methods(request, routes))
        return problem.response

    for kind in (Problem, ReadaheadError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer)
