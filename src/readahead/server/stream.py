"""Server-sent events, as OpenAI's clients read them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping

from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from readahead.server.observability.serving import failed
from readahead.server.problems import Problem, ended, problem_of

DONE = b"data: [DONE]\n\n"
BEAT = b": still at it\n\n"  # a comment, which clients pass over


def frame(value: Mapping[str, object]) -> bytes:
    """Return one event."""
    return b"data: " + json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n\n"


async def framed(values: AsyncIterator[Mapping[str, object]]) -> AsyncIterator[bytes]:
    """Yield the events and what ends them; an error in between is the last one."""
    try:
        async for value in values:
            yield frame(value)
    except Exception as error:
        yield _last(problem_of(error))
        return
    yield DONE


async def kept_alive(events: AsyncIterator[bytes], heartbeat_s: float) -> AsyncIterator[bytes]:
    """Yield the events, and a comment whenever none has come for ``heartbeat_s``.

    What stands between server and client cuts a connection that is silent for too long.
    """
    coming = asyncio.ensure_future(anext(events))
    try:
        while True:
            await asyncio.wait({coming}, timeout=heartbeat_s)
            if not coming.done():
                yield BEAT
                continue
            yield coming.result()
            coming = asyncio.ensure_future(anext(events))
    except StopAsyncIteration:
        return
    finally:
        coming.cancel()  # nothing, where it is done


class Events(StreamingResponse):
    """A stream of events; where the server cuts it off as it ends, the last one says so."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        is_open = False

        async def sending(message: Message) -> None:
            nonlocal is_open
            is_open = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        try:
            await super().__call__(scope, receive, sending)
        except asyncio.CancelledError:
            if is_open:
                await send({"type": "http.response.body", "body": _last(ended())})
            raise


def _last(problem: Problem) -> bytes:
    failed(problem.status)
    return frame(problem.body)


def streamed(values: AsyncIterator[Mapping[str, object]], heartbeat_s: float) -> StreamingResponse:
    """Return the response that sends ``values`` as they come, and is never silent for long."""
    return Events(
        kept_alive(framed(values), heartbeat_s),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
