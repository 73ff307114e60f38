"""The log: one JSON object a line, one line a request; no prompt, answer or document text in it.

With ``server.log_text`` questions, answers and what errors say are logged, too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from readahead.server.observability.outcomes import is_kept
from readahead.server.observability.serving import Served, begin, served
from readahead.server.problems import ended, problem_of
from readahead.trace import Trace

HEADER = "X-Request-Id"
CLIENT_CLOSED = 499
QUIET = frozenset({"/health", "/ready", "/metrics", "/static/{file}"})
"""Asked by machines all the time: logged as ``debug`` as long as all is well."""
_HARMLESS = re.compile(r"[A-Za-z0-9._-]{1,64}")
_log = logging.getLogger("readahead.server")


def saw(trace: Trace, *, with_text: bool = False) -> None:
    """Note a finished answer with the request that it was for; log it if its text may be.

    Of the bare target neither a trace nor a text is kept: there is nothing to name.
    """
    one = served()
    if one is not None:
        counters = trace.counters
        one.num_tokens += counters.get("prompt_tokens", 0) + counters.get("completion_tokens", 0)
        if one.arrived_s:
            trace.attributes["queue_s"] = one.queue_s
        if is_kept(trace):
            one.trace_id = trace.id
            trace.attributes.update(one.body.labels if one.body else {})
    if with_text and is_kept(trace):
        texts = {name: trace.attributes.get(name) for name in ("question", "answer")}
        _log.info("answer", extra={"fields": {"trace_id": trace.id, **texts}})


class RequestLog:
    """Gives each request an id, logs it once it is done, and answers for what nobody caught.

    The outermost middleware.

    Args:
        app: What serves the requests.
        failed: Told the status of each request under /v1 that was answered by an error.
    """

    def __init__(self, app: ASGIApp, failed: Callable[[int], None]) -> None:
        self._app = app
        self._failed = failed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        one = Served(_request_id(headers), headers.get("traceparent", ""))
        begin(one)
        scope.setdefault("state", {})["request_id"] = one.id
        begun_s = time.perf_counter()
        try:
            await self._serve(one, scope, receive, send)
        finally:
            self._done(one, scope, time.perf_counter() - begun_s)

    async def _serve(self, one: Served, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                one.status = message["status"]
                MutableHeaders(scope=message)[HEADER] = one.id
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except ClientDisconnect:
            one.status = CLIENT_CLOSED
        except asyncio.CancelledError:  # the server ends, and waits for nobody any more
            if not one.status:
                await ended().response(scope, receive, sending)
            raise
        except Exception as error:
            if one.status:  # the response is on its way; whoever holds the connection cuts it
                one.status = 500
                raise
            await problem_of(error).response(scope, receive, sending)

    def _done(self, one: Served, scope: Scope, seconds: float) -> None:
        status = one.status or CLIENT_CLOSED
        route = getattr(scope.get("route"), "path", "")  # the template: paths have ids in them
        if status >= 400 and scope["path"].startswith("/v1/"):
            self._failed(status)
        caller = scope["state"].get("caller")
        fields = {
            "method": scope["method"],
            "route": route,
            "status": status,
            "seconds": round(seconds, 4),
            "queue_s": round(one.queue_s, 4),
            "key": getattr(caller, "key", ""),
            "tenant": getattr(caller, "tenant", ""),
            "tokens": one.num_tokens,
            "trace_id": one.trace_id,
        }
        is_quiet = route in QUIET and status < 400
        _log.log(logging.DEBUG if is_quiet else logging.INFO, "request", extra={"fields": fields})


def _request_id(headers: Mapping[str, str]) -> str:
    given = headers.get(HEADER, "")
    return given if _HARMLESS.fullmatch(given) else uuid.uuid4().hex


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON; what its ``extra={"fields": …}`` holds is in it.

    Args:
        with_text: Whether to tell what errors say, which may quote a request; their types and
            where they happened are told in any case.
    """

    def __init__(self, *, with_text: bool = False) -> None:
        super().__init__()
        self._with_text = with_text

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        when = datetime.fromtimestamp(record.created, UTC)
        told: dict[str, Any] = {
            "time": when.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (one := served()) is not None:
            told["request_id"] = one.id
        told |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[1] is not None:
            told["traceback"] = self._traceback(record.exc_info[1])
        return json.dumps(told, default=str)

    def _traceback(self, error: BaseException) -> str:
        if self._with_text:
            return "".join(traceback.format_exception(error))
        parts = []
        for one in _chain(error):
            parts += [*traceback.format_tb(one.__traceback__), f"{type(one).__name__}\n"]
        return "".join(parts)


def _is_no_cut(record: logging.LogRecord) -> bool:
    """Return whether it is anything but an answer that was cut off when the server ended."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what it came from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


@contextmanager
def written(stream: TextIO | None = None, *, with_text: bool = False) -> Iterator[None]:
    """Let all loggers of this process write JSON lines during the ``with`` body.

    uvicorn's access log is silent: ``RequestLog`` says the same, and more.

    Args:
        stream: Where to; None: stderr.
        with_text: See ``JsonFormatter``.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(with_text=with_text))
    handler.addFilter(_is_no_cut)
    root, access = logging.getLogger(), logging.getLogger("uvicorn.access")
    kept = root.handlers, _log.level, access.disabled
    root.handlers, access.disabled = [handler], True
    _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.handlers, level, access.disabled = kept
        _log.setLevel(level)
