"""What of a body is unread when its answer is there: dropped for a while, then cut off.

A connection that is closed on unread bytes is reset, and the answer that was on its way is lost.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

DROP_BYTES = 2**20
DROP_S = 1.0


class Unread:
    """Middleware: a client that still sends what nobody reads sees the answer, and no other one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(scope, receive)

        async def sending(message: Message) -> None:
            if not body.is_whole:
                if message["type"] == "http.response.start":
                    # Else the rest would be read as the next request is, and it may have no end.
                    MutableHeaders(scope=message)["Connection"] = "close"
                elif not message.get("more_body", False):
                    await send({**message, "more_body": True})
                    await body.drop()
                    message = {"type": "http.response.body"}
            await send(message)

        await self._app(scope, body.receive, sending)


class _Body:
    """The body of one request, and whether all of it has come."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        is_sent = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        self.is_whole = not is_sent
        self._receive = receive

    async def receive(self) -> Message:
        """Return the next part."""
        message = await self._receive()
        self.is_whole = not message.get("more_body", False)
        return message

    async def drop(self) -> None:
        """Read what is left, or as much of it as is worth the answer."""
        num_bytes = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(DROP_S):
                while not self.is_whole and num_bytes < DROP_BYTES:
                    num_bytes += len((await self.receive()).get("body", b""))
