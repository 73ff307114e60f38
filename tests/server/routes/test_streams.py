"""The parts of a stream as they are sent, before a client makes objects of them."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from readahead.server.routes.chat import Indexed, _chunks
from readahead.server.schemas.replies import Envelope
from readahead.server.schemas.requests import ChatRequest
from readahead.types import Answer, Citation

QUESTION = "How deep is Lake Baikal?"
CHAT = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 12}
REQUESTS = {
    "documents": ("/v1/chat/completions", {"model": "readahead", **CHAT}),
    "bare": ("/v1/chat/completions", {"model": "tiny", **CHAT}),
    "text": ("/v1/completions", {"model": "tiny", "prompt": QUESTION, "max_tokens": 12}),
}


def parts(client: TestClient, name: str, **more: object) -> list[dict[str, object]]:
    path, body = REQUESTS[name]
    text = client.post(path, json={**body, "stream": True, **more}).text
    *events, last = text.strip().split("\n\n")
    assert last == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events]


@pytest.mark.parametrize("name", REQUESTS)
def test_the_usage_is_null_until_the_last_part_tells_it(client: TestClient, name: str) -> None:
    *before, last = parts(client, name, stream_options={"include_usage": True})
    assert len(before) > 1
    assert all("usage" in part and part["usage"] is None for part in before)
    assert last["choices"] == [] and last["usage"]
    assert not any("usage" in part for part in parts(client, name))


def test_the_last_delta_has_what_the_markers_cite() -> None:
    citation = Citation(1, "1.1.0", "lakes.md", ("Lakes",), None, 0, 10, "It is deep")
    answer = Answer("It is deep. [1]", False, 1.0, "plain", (citation,))
    chat = ChatRequest.model_validate({"model": "readahead", **CHAT})

    async def said() -> AsyncIterator[Indexed]:
        for event in ("It is deep.", citation, " [1]", answer):
            yield 0, event

    async def sent() -> list[dict[str, Any]]:
        return [part async for part in _chunks(said(), Envelope.of_chat("readahead"), chat)]

    deltas = [part["choices"][0]["delta"] for part in asyncio.run(sent())]
    assert [delta for delta in deltas if "annotations" in delta] == [deltas[-1]]
    (cited,) = deltas[-1]["annotations"]
    assert cited["type"] == "url_citation"
    assert cited["url_citation"] == {
        "start_index": 12,
        "end_index": 15,
        "title": "Lakes",
        "url": "/v1/documents/1#0-10",
    }
