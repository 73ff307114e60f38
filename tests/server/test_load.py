"""Many clients at a time, of every kind: each gets what it would get alone, and nothing stays."""

import asyncio
import gc
import os
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from random import Random

import pytest
from openai import AsyncOpenAI, RateLimitError

from readahead.config import Config
from readahead.lm.base import never
from readahead.retrieval.store import FILE_NAME
from readahead.server.asking import Asking
from readahead.server.state import Service
from readahead.session import Session
from readahead.trace import Trace
from tests.server.conftest import make_config

NUM_STREAMS = 16
NUM_REQUESTS = 120
BARE = "tiny"
KINDS = ("plain", "prefetch", "drafts", "rapid", "typed", BARE)
QUESTIONS = (
    "How deep is Lake Baikal?",
    "When was the Eiffel Tower finished?",
    "Is the Eiffel Tower as tall as Lake Baikal is deep?",
    "水在多少度沸腾？",
)


@dataclass(frozen=True)
class Wish:
    """What one client does: asks in some way, perhaps types before, perhaps leaves in between."""

    kind: str
    question: str
    num_pieces: int | None = None  # until it leaves


@pytest.fixture
def config(tmp_path: Path) -> Config:
    # The order of passages must not hang on what others have asked before.
    return make_config(
        tmp_path,
        prefetch__policy="exact-order",
        server__max_running=4,
        generation__max_new_tokens=8,
    )


def wishes(num: int) -> Iterator[Wish]:
    """Yield what clients do: every kind and question; each fifth client leaves."""
    random = Random(num)
    ways = list(product(KINDS, QUESTIONS))
    for number in range(num):
        kind, question = ways[number % len(ways)]
        yield Wish(kind, question, random.randrange(4) if number % 5 == 4 else None)


@asynccontextmanager
async def clients(url: str) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as openai:
        yield openai


async def answer(openai: AsyncOpenAI, wish: Wish) -> str:
    """Return the answer, or as much of it as the client waits for."""
    if wish.kind != "typed":
        return await asked(openai, wish, {"method": wish.kind})
    session = await openai.post("/sessions", cast_to=dict[str, object], body={})
    where = f"/sessions/{session['id']}"
    try:
        for end in range(len(wish.question) // 2, len(wish.question) + 1, 3):
            typed = {"text": wish.question[:end]}
            await openai.post(f"{where}/typing", cast_to=dict[str, object], body=typed)
        return await asked(openai, wish, {"session": str(session["id"])})
    finally:
        await openai.delete(where, cast_to=dict[str, object])


async def asked(openai: AsyncOpenAI, wish: Wish, extension: dict[str, str]) -> str:
    is_bare = wish.kind == BARE
    chunks = await openai.chat.completions.create(
        model=BARE if is_bare else "readahead",
        messages=[{"role": "user", "content": wish.question}],
        stream=True,
        temperature=0.0 if is_bare else None,
        max_tokens=8 if is_bare else None,
        extra_body={} if is_bare else {"readahead": extension},
    )
    text, reason, num_pieces = "", None, 0
    async with chunks:
        async for chunk in chunks:
            text += chunk.choices[0].delta.content or ""
            reason = chunk.choices[0].finish_reason or reason
            num_pieces += 1
            if wish.num_pieces is not None and num_pieces > wish.num_pieces:
                return text
    assert reason in ("stop", "length"), wish
    return text


async def answers(
    openai: AsyncOpenAI, asked: Sequence[Wish], num_streams: int
) -> list[tuple[Wish, str]]:
    """Return the answers to all wishes, ``num_streams`` at a time."""
    found: list[tuple[Wish, str]] = []
    left = iter(asked)

    async def stream() -> None:
        for wish in left:
            found.append((wish, await answer(openai, wish)))

    await asyncio.gather(*(stream() for _ in range(num_streams)))
    return found


def in_the_end(look: Callable[[], object], seconds: float = 10) -> object:
    """Return what ``look`` returns once that is nothing, or when the time is over."""
    end_s = time.monotonic() + seconds
    while (seen := look()) and time.monotonic() < end_s:
        time.sleep(0.05)
    return seen


def held() -> dict[str, int]:
    """Return how much there is of what a request makes and must not leave behind."""
    gc.collect()
    kinds = Counter(map(type, gc.get_objects()))
    pools = ("answer", "asyncio", "AnyIO", "ThreadPool", "model")
    threads = [one.name for one in threading.enumerate() if not one.name.startswith(pools)]
    return {
        **{kind.__name__: kinds[kind] for kind in (Asking, Session, Trace)},
        "threads": len(threads),
        **open_files(),
    }


def open_files() -> Counter[str]:
    """Return how many there are of each kind, but for databases: one a thread of a pool."""
    found: Counter[str] = Counter()
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # closed meanwhile, as that of the folder itself
            target = os.readlink(file)
            found[target.partition(":")[0]] += FILE_NAME not in target
    return found


def grown(before: dict[str, int]) -> dict[str, int]:
    """Return what there is more of than before."""
    return {name: num for name, num in held().items() if num > before.get(name, 0)}


def test_all_get_what_they_would_get_alone_and_nothing_is_left(
    served: str, service: Service
) -> None:
    async def talk(asked: Sequence[Wish], num_streams: int) -> list[tuple[Wish, str]]:
        async with clients(served) as openai:
            return await answers(openai, asked, num_streams)

    alone = dict(asyncio.run(talk([Wish(*way) for way in product(KINDS, QUESTIONS)], 1)))
    asyncio.run(talk(list(wishes(2 * NUM_STREAMS)), NUM_STREAMS))  # all pools are there now
    assert not in_the_end(lambda: service.admission.num_running)
    before = held()
    found = asyncio.run(talk(list(wishes(NUM_REQUESTS)), NUM_STREAMS))
    assert not in_the_end(lambda: service.admission.num_running)
    assert len(found) == NUM_REQUESTS
    for wish, text in found:
        whole = alone[replace(wish, num_pieces=None)]
        assert text == whole if wish.num_pieces is None else whole.startswith(text), wish
    assert service.admission.num_queued == 0
    assert service.draining.num_running == 0
    assert not list(service.tenant().sessions)
    assert not in_the_end(lambda: grown(before))


def test_who_finds_no_place_is_told_when_to_come_back(
    served: str, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.admission, "_max_queued", 2)
    told: list[int] = []

    async def patient(openai: AsyncOpenAI, wish: Wish) -> None:
        while True:
            try:
                await answer(openai, wish)
                return
            except RateLimitError as error:
                told.append(int(error.response.headers["Retry-After"]))
                await asyncio.sleep(0.05)

    async def talk() -> None:
        async with clients(served) as openai:
            asked = [Wish("plain", question) for question in QUESTIONS for _ in range(4)]
            await asyncio.gather(*(patient(openai, wish) for wish in asked))

    asyncio.run(talk())
    assert told and min(told) >= 1
    # A place is free just after the last word has gone out.
    assert not in_the_end(lambda: service.admission.num_running)
    assert service.admission.num_queued == 0


def test_a_prompt_that_is_read_already_does_not_wait_for_that_of_another(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.loaded.target, "prefill_step_tokens", 256)
    engine = service.tenant().engine.load()
    has_begun, is_told = threading.Event(), threading.Event()

    def read_long() -> bool:
        has_begun.set()
        between = engine.turns.or_interrupted(never)
        return not in_the_end(lambda: between() or not is_told.is_set())

    with Session(engine) as session, ThreadPoolExecutor(1) as pool:
        list(session.submit(QUESTIONS[0]))
        is_alone = pool.submit(engine.turns.run, read_long)
        has_begun.wait()
        with closing(session.submit(QUESTIONS[0])) as events:
            assert next(events)
            is_told.set()
        assert is_alone.result()
