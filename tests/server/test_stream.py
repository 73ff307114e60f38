import asyncio
import json
from collections.abc import AsyncIterator, Mapping

import pytest
from starlette.types import Message, Scope

from readahead.errors import InputError
from readahead.server.stream import DONE, framed, streamed

SCOPE: Scope = {"type": "http", "asgi": {"spec_version": "2.3"}}


async def events(
    *, fails: bool = False, hangs: bool = False
) -> AsyncIterator[Mapping[str, object]]:
    yield {"text": "Grüße 1"}
    if fails:
        raise InputError("The question is blank.", remedy="Ask something.")
    if hangs:
        await asyncio.sleep(60)


async def collect(values: AsyncIterator[bytes]) -> list[bytes]:
    return [value async for value in values]


def test_events_come_as_they_are_made_and_an_end_behind_them() -> None:
    first, last = asyncio.run(collect(framed(events())))
    assert first == 'data: {"text": "Grüße 1"}\n\n'.encode()
    assert last == DONE


def test_an_error_is_the_last_event() -> None:
    _, last = asyncio.run(collect(framed(events(fails=True))))
    assert json.loads(last.removeprefix(b"data: "))["error"]["message"].startswith("The question")


def serve(values: AsyncIterator[Mapping[str, object]], cut_after_s: float | None) -> list[Message]:
    """Return what is sent of a stream, which is cut off as a server does that ends."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def run() -> None:
        task = asyncio.create_task(streamed(values)(SCOPE, receive, send))
        await asyncio.wait({task}, timeout=cut_after_s)
        task.cancel()
        await task

    if cut_after_s is None:
        asyncio.run(run())
    else:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(run())
    return sent


def test_who_is_cut_off_is_told_so_by_the_last_event() -> None:
    *_, last = serve(events(hangs=True), 0.1)
    assert json.loads(last["body"].removeprefix(b"data: "))["error"]["code"] == "draining"
    assert not last.get("more_body", False)


def test_a_stream_that_has_ended_is_told_nothing_more() -> None:
    sent = serve(events(), None)
    assert [message.get("body") for message in sent[-2:]] == [DONE, b""]
