import asyncio
import json
from collections.abc import AsyncIterator, Mapping

import pytest
from starlette.types import Message, Scope

from readahead.errors import InputError
from readahead.server.stream import BEAT, DONE, framed, kept_alive, streamed

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


def test_a_silence_is_filled_with_comments_and_nothing_is_lost() -> None:
    async def slow() -> AsyncIterator[bytes]:
        for number in range(3):
            await asyncio.sleep(0.05)
            yield b"%d" % number

    heard = asyncio.run(collect(kept_alive(slow(), 0.01)))
    assert [one for one in heard if one != BEAT] == [b"0", b"1", b"2"]
    assert heard.count(BEAT) >= 3
    assert BEAT.startswith(b":") and BEAT.endswith(b"\n\n")
    assert asyncio.run(collect(kept_alive(slow(), 60))) == [b"0", b"1", b"2"]


def test_who_stops_listening_in_a_silence_ends_what_is_made() -> None:
    has_ended = []

    async def slow() -> AsyncIterator[bytes]:
        try:
            await asyncio.sleep(60)
            yield b""
        finally:
            has_ended.append(True)

    async def run() -> None:
        events = kept_alive(slow(), 0.01)
        assert await anext(events) == BEAT
        await events.aclose()  # type: ignore[attr-defined]
        await asyncio.sleep(0)

    asyncio.run(run())
    assert has_ended


def serve(values: AsyncIterator[Mapping[str, object]], cut_after_s: float | None) -> list[Message]:
    """Return what is sent of a stream, which is cut off as a server does that ends."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def run() -> None:
        task = asyncio.create_task(streamed(values, 60)(SCOPE, receive, send))
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
