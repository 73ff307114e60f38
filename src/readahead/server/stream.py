"""Server-sent events, as OpenAI's clients read them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping

from fastapi.responses import StreamingResponse

from readahead.server.observability.logs import failed
from readahead.server.problems import problem_of

DONE = b"data: [DONE]\n\n"


def frame(value: Mapping[str, object]) -> bytes:
    """Return one event."""
    return b"data: " + json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n\n"


async def framed(values: AsyncIterator[Mapping[str, object]]) -> AsyncIterator[bytes]:
    """Yield the events and what ends them; an error in between is the last one."""
    try:
        async for value in values:
            yield frame(value)
    except Exception as error:
        problem = problem_of(error)
        failed(problem.status)
        yield frame(problem.body)
        return
    yield DONE


def streamed(values: AsyncIterator[Mapping[str, object]]) -> StreamingResponse:
    """Return the response that sends ``values`` as they come."""
    return StreamingResponse(
        framed(values),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
