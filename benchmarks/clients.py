"""Clients of a server: each asks, and notes when what came; some type before they ask."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import numpy as np
from openai import APIError, AsyncOpenAI, AsyncStream, RateLimitError
from openai.types.chat import ChatCompletionChunk

from readahead.evaluation.typing import PAUSE_S, WORDS_PER_S, strokes

MODEL = "readahead"
_TIMEOUT_S = 3600.0


@dataclass(frozen=True)
class Asked:
    """One answer, as its client saw it.

    Attributes:
        begun_s: When the request was sent that was answered, on the clock of the process.
        ttft_s: From then to the first text.
        gaps_s: Between two pieces of text.
    """

    begun_s: float
    ttft_s: float
    gaps_s: tuple[float, ...]
    num_tokens: int


class Clients:
    """Any number of clients of one server.

    Attributes:
        num_429: How often one was told to come back later.
        errors: What went wrong otherwise.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._openai = AsyncOpenAI(
            base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=_TIMEOUT_S
        )
        self.num_429 = 0
        self.errors: list[str] = []

    async def close(self) -> None:
        """Close the connections."""
        await self._openai.close()

    async def ask(
        self, question: str, *, model: str = MODEL, max_tokens: int | None = None, **extension: str
    ) -> Asked | None:
        """Return the answer to one question, None if there was none; waits where it is told to.

        Args:
            question: Sent as the one message.
            model: Who answers.
            max_tokens: None: as many as the server's settings say.
            extension: What only readahead takes.
        """
        while True:
            begun_s = time.perf_counter()
            try:
                return await _read(
                    begun_s, await self._send(question, model, max_tokens, extension)
                )
            except RateLimitError as error:
                self.num_429 += 1
                await asyncio.sleep(float(error.response.headers["Retry-After"]))
            except (APIError, Incomplete) as error:
                self.errors.append(f"{type(error).__name__}: {error}")
                return None

    async def _send(
        self, question: str, model: str, max_tokens: int | None, extension: dict[str, str]
    ) -> AsyncStream[ChatCompletionChunk]:
        limit = {} if max_tokens is None else {"max_tokens": max_tokens}
        return await self._openai.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": question}],
            stream=True,
            stream_options={"include_usage": True},
            extra_body=limit | ({"readahead": extension} if extension else {}),
        )

    async def type(self, question: str, session: str) -> list[float]:
        """Type a question, and return how long the server took to take note of each stroke.

        A stroke that comes too late, as the next one is due, is not told, as by the page.
        """
        began_s, taken_s = time.perf_counter(), []
        keys = list(strokes(question, WORDS_PER_S))
        async with _Line.open(self._url) as line:
            for (at_s, text), (next_s, _) in zip(keys, [*keys[1:], (np.inf, "")], strict=True):
                await asyncio.sleep(max(0.0, began_s + at_s - time.perf_counter()))
                if time.perf_counter() < began_s + next_s:
                    told_s = time.perf_counter()
                    await line.post(f"/v1/sessions/{session}/typing", {"text": text})
                    taken_s.append(time.perf_counter() - told_s)
        await asyncio.sleep(max(0.0, began_s + keys[-1][0] + PAUSE_S - time.perf_counter()))
        return taken_s

    @asynccontextmanager
    async def session(self) -> AsyncIterator[str]:
        """Have a session of the server during the ``with`` body; gives its id."""
        opened = await self._post("/sessions", {})
        assert isinstance(opened, dict)
        try:
            yield str(opened["id"])
        finally:
            await self._openai.delete(f"/sessions/{opened['id']}", cast_to=object)

    async def metrics(self) -> dict[str, float]:
        """Return the server's metrics by their names, labels among them."""
        text = await self._openai.get(f"{self._url}/metrics", cast_to=str)
        pairs = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    async def _post(self, path: str, body: dict[str, object]) -> object:
        return await self._openai.post(path, body=body, cast_to=object)


@dataclass(frozen=True)
class _Line:
    """A connection for strokes that costs next to nothing.

    Fifty strokes a second by way of OpenAI's client take a seventh of a core, which the server on
    the same machine would lack.
    """

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator[_Line]:
        """Have one during the ``with`` body."""
        host, _, port = url.removeprefix("http://").partition(":")
        line = cls(*await asyncio.open_connection(host, int(port)))
        try:
            yield line
        finally:
            line.writer.close()

    async def post(self, path: str, body: Mapping[str, object]) -> None:
        """Send a request, and take its answer in.

        Raises:
            Incomplete: The answer has an error.
        """
        sent = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(sent)}\r\n\r\n".encode() + sent)
        status, _, headers = (await self.reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
        length = re.search(rb"content-length: (\d+)", headers, re.IGNORECASE)
        told = await self.reader.readexactly(int(length[1]) if length else 0)
        if b" 200 " not in status:
            raise Incomplete(f"{status!r}: {told!r}")


class Incomplete(Exception):
    """An answer that did not come to its end."""


async def _read(begun_s: float, chunks: AsyncStream[ChatCompletionChunk]) -> Asked:
    """Return an answer that is streamed.

    Raises:
        Incomplete: It ends without a reason, an object of ours, or its usage.
    """
    times_s, reason, usage = [], None, None
    async with chunks:
        async for chunk in chunks:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                reason = choice.finish_reason or reason
                if choice.delta.content:
                    times_s.append(time.perf_counter())
    if reason not in ("stop", "length") or usage is None or not times_s:
        raise Incomplete(f"{len(times_s)} pieces, finish_reason {reason}, usage {usage}")
    gaps_s = tuple(b - a for a, b in zip(times_s, times_s[1:], strict=False))
    return Asked(begun_s, times_s[0] - begun_s, gaps_s, usage.completion_tokens)


async def closed_loop(
    clients: Clients,
    questions: Sequence[str],
    num_streams: int,
    told: Callable[[Asked], None] | None = None,
    *,
    pause_s: float = 0.0,
    **how: str,
) -> list[Asked]:
    """Ask all questions, ``num_streams`` at a time; each answer's end begins the next.

    Args:
        clients: Who ask.
        questions: One a request.
        num_streams: Answers that are waited for at a time.
        told: Shown each answer when it has come.
        pause_s: Of each stream, in front of each question.
        how: Of each request; see ``Clients.ask``.
    """
    answers: list[Asked] = []
    left = iter(questions)

    async def stream(left: Iterator[str]) -> None:
        for question in left:
            await asyncio.sleep(pause_s)
            if (asked := await clients.ask(question, **how)) is not None:  # type: ignore[arg-type]
                answers.append(asked)
                if told is not None:
                    told(asked)

    await asyncio.gather(*(stream(left) for _ in range(num_streams)))
    return answers


@asynccontextmanager
async def meanwhile(*running: asyncio.Task[object]) -> AsyncIterator[None]:
    """Cancel what is running when the ``with`` body ends."""
    try:
        yield
    finally:
        for task in running:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
