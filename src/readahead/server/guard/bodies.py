"""How long a request's body may be, and how long it may take, whatever its headers say of it."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from readahead.config import ServerConfig
from readahead.server.problems import Problem

UPLOADS = "/v1/documents"
FRAMING_BYTES = 64 * 1024  # what multipart puts around the files of one upload


class Bodies:
    """Middleware: answers 413 once a body is known to be too long, 408 if it comes too slowly.

    The body of an upload is handed on as it comes. Any other is short, and read as a whole first:
    no route begins on half of one.
    """

    def __init__(self, app: ASGIApp, config: ServerConfig) -> None:
        self._app = app
        self._config = config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_upload = scope["path"] == UPLOADS and scope["method"] == "POST"
        config = self._config
        max_bytes = config.max_upload_bytes + FRAMING_BYTES if is_upload else config.max_body_bytes
        receive = _Patient(receive, config.body_idle_s, config.body_s)
        if _announced(scope) > max_bytes:
            await _too_long(max_bytes).response(scope, receive, send)
        elif is_upload:
            await _Upload(self._app, max_bytes).serve(scope, receive, send)
        else:
            try:
                await self._whole(max_bytes, scope, receive, send)
            except _Stalled as problem:
                await problem.response(scope, receive, send)

    async def _whole(self, max_bytes: int, scope: Scope, receive: Receive, send: Send) -> None:
        messages: list[Message] = []
        num_bytes, has_more = 0, True
        while has_more:
            messages.append(message := await receive())
            if message["type"] == "http.disconnect":
                return
            num_bytes += len(message.get("body", b""))
            has_more = message.get("more_body", False)
            if num_bytes > max_bytes:
                await _too_long(max_bytes).response(scope, receive, send)
                return
        whole: Message = {
            "type": "http.request",
            "body": b"".join(message.get("body", b"") for message in messages),
            "more_body": False,
        }
        pending = [whole]

        async def replay() -> MutableMapping[str, object]:
            return pending.pop() if pending else await receive()

        await self._app(scope, replay, send)


class _Stalled(Problem):
    """A body does not go on, or takes too long."""


class _Patient:
    """Receives a body, but neither for ever nor where it stops; then waits as long as it takes."""

    def __init__(self, receive: Receive, idle_s: float, whole_s: float) -> None:
        self._receive = receive
        self._idle_s = idle_s
        self._whole_s = whole_s
        self._end_s = asyncio.get_running_loop().time() + whole_s
        self._is_whole = False

    async def __call__(self) -> Message:
        if self._is_whole:
            return await self._receive()
        left_s = self._end_s - asyncio.get_running_loop().time()
        try:
            message = await asyncio.wait_for(self._receive(), max(0.0, min(self._idle_s, left_s)))
        except TimeoutError:
            self._is_whole = True  # whoever asks now waits for the client to leave
            raise _Stalled(408, self._reason(left_s), code="body_stalled") from None
        self._is_whole = not message.get("more_body", False)
        return message

    def _reason(self, left_s: float) -> str:
        if left_s < self._idle_s:
            return f"The body took more than {self._whole_s:g} s to come. Send less, or faster."
        return f"Nothing of the body came for {self._idle_s:g} s. Send it again."


class _Upload:
    """One upload: counts what comes, and has the last word when that is too much."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._num_bytes = 0

    @property
    def _is_too_long(self) -> bool:
        return self._num_bytes > self._max_bytes

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = _too_long(self._max_bytes)

        async def counted() -> Message:
            message = await receive()
            self._num_bytes += len(message.get("body", b""))
            if self._is_too_long:
                raise problem
            return message

        async def unless_too_long(message: Message) -> None:
            if not self._is_too_long:  # what a route makes of the problem is not sent
                await send(message)

        try:
            await self._app(scope, counted, unless_too_long)
        except Problem as caught:
            if caught is not problem:
                raise
        if self._is_too_long:
            await problem.response(scope, receive, send)


def _announced(scope: Scope) -> int:
    """Return the length that the headers tell, 0 if they tell none."""
    length = Headers(scope=scope).get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else 0


def _too_long(max_bytes: int) -> Problem:
    return Problem(
        413,
        f"The body is longer than {max_bytes} bytes, the most that this server takes.",
        code="too_long",
    )
