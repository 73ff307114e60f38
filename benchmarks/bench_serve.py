"""Measure what a server does under load, and what typing clients get from it.

The claim: with 32 streams at a time, 500 requests are answered without an error but 429, and the
memory does not grow once the prefix tree is full. A question that is typed into a session has its
first token sooner than one that is asked plainly, where the server has time to read ahead, and
takes none of it from live answers. A long answer does not starve a short one.

The server runs in a process of its own; whatever is compared is asked in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

import numpy as np

from clients import Asked, Clients, closed_loop, meanwhile
from readahead.evaluation.datasets import read_questions
from report import finish, options
from serving import Served, index, serving

HERE = Path(__file__).parent
DOCUMENTS = HERE.parent / "examples" / "documents"
CONVERSATIONS = HERE / "conversations.jsonl"
EVERY_S = 1.0  # between two looks at the queue
BUSY_STREAMS = 4
NUM_TYPISTS = 4
PAUSE_S = 1.0  # between two live answers, where there is to be time to read ahead
WAITED = 'readahead_model_wait_seconds_sum{method="plain"}'
ROUND = 4  # live answers a stream, with typists or without
LONG = "Tell a long story about {}. " + "It is to be told slowly, with every detail. " * 45
LONG_TOKENS = 256
SHORT = "What is {}?"
SHORT_TOKENS = 8
OFFSET_S = 3.0  # of the short request behind the long one, at most
THINGS = ("salt", "an oak", "a bridge", "winter", "a clock", "chess", "a fox", "a lighthouse")


def main() -> None:
    """Index, serve, and measure one thing after the other."""
    given = parsed()
    questions = [question.text for question in read_questions(given.questions)]
    with tempfile.TemporaryDirectory() as folder:
        kb = given.kb or Path(folder) / "kb"
        index(kb, given.passages)
        chosen = {name: getattr(given, name) for name in ("target", "device", "dtype")}
        settings = {
            "generation.max_new_tokens": given.max_new_tokens,
            "cache.budget_bytes": given.cache_mb * 10**6,
        }
        with serving(kb, Path(folder) / "log", settings, chosen) as served:
            metrics = asyncio.run(measured(served, questions, given))
    finish(
        "serve",
        metrics,
        models={"target": given.target},
        workload=f"{given.questions.name} over {given.passages.name}, {given.streams} streams, "
        f"{given.max_new_tokens} tokens, {given.method}, prefix tree of {given.cache_mb} MB; "
        f"{given.typing} questions typed, {given.live} live answers a stream, "
        f"{given.short} short ones beside long ones",
        n=given.requests or given.typing or given.live or given.short,
        out=given.out,
        device=given.device,
        dtype=given.dtype,
    )


def parsed() -> argparse.Namespace:
    """Return the options."""
    parser = options(__doc__)
    parser.add_argument("--questions", type=Path, default=None, help="JSON Lines")
    parser.add_argument("--passages", type=Path, default=DOCUMENTS, help="files or JSON Lines")
    parser.add_argument("--target", default="smollm2-135m", help="what answers")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, …")
    parser.add_argument("--dtype", default="float32", help="float32 is the exact mode")
    parser.add_argument("--kb", type=Path, help="keep the knowledge base here, and use it again")
    parser.add_argument("--method", default="prefetch", help="of the requests of the load")
    parser.add_argument("--streams", type=int, default=32, help="clients that wait for answers")
    parser.add_argument("--requests", type=int, default=500, help="of all streams; 0: no load")
    parser.add_argument("--warm-up", type=int, default=50, help="requests until memory counts")
    parser.add_argument("--max-new-tokens", type=int, default=16, help="of an answer")
    parser.add_argument("--cache-mb", type=int, default=256, help="that the prefix tree may take")
    parser.add_argument("--typing", type=int, default=20, help="questions typed; 0: none")
    parser.add_argument("--live", type=int, default=16, help="live answers a stream; 0: none")
    parser.add_argument("--short", type=int, default=20, help="short answers; 0: none")
    given = parser.parse_args()
    if given.questions is None:
        given.questions = Path(tempfile.mkdtemp()) / CONVERSATIONS.name
        given.questions.write_text("\n".join(own_questions()), encoding="utf-8")
    return given


def own_questions() -> Iterator[str]:
    """Yield the questions that come with the built-in documents, as lines of JSON."""
    for line in CONVERSATIONS.read_text(encoding="utf-8").splitlines():
        yield json.dumps(json.loads(line)["turns"][0])


async def measured(
    served: Served, questions: Sequence[str], given: argparse.Namespace
) -> dict[str, float]:
    """Return the metrics of all that is asked for."""
    clients = Clients(served.url)
    found: dict[str, float] = {}
    try:
        await clients.ask(questions[0])  # a first pass through a model is slow
        async for metrics in parts(served, clients, questions, given):
            show(metrics)
            found |= metrics
    finally:
        await clients.close()
        for error in clients.errors:
            print(error)
    return found | {"errors": len(clients.errors), "num_429": clients.num_429}


async def parts(
    served: Served, clients: Clients, questions: Sequence[str], given: argparse.Namespace
) -> AsyncIterator[Mapping[str, float]]:
    """Yield the metrics of one part after the other.

    The load goes through the questions from the front, all else from the back, so that nobody
    finds read what another one asked for.
    """
    if given.requests:
        yield await loaded(served, clients, questions, given)
    back = cycle(reversed(questions))
    if given.typing:
        yield await typed_and_plain(clients, back, given.typing)
        yield await typed_and_plain(clients, back, given.typing, BUSY_STREAMS)
    if given.live:
        yield await yielding(clients, back, given.live)
    if given.short:
        yield await short_and_long(served, clients, given.short)


def show(metrics: Mapping[str, float]) -> None:
    """Print the metrics as a table."""
    for name, value in metrics.items():
        print(f"{name:<34} {value:10.3f}", flush=True)


@dataclass
class Watched:
    """What a server held while it was under load.

    Attributes:
        rss_mb: After each answer.
        waiting: How many requests waited, at each look.
        kv_mb: What the prefix tree held then, and how many answers there had been.
    """

    rss_mb: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    kv_mb: list[tuple[int, float]] = field(default_factory=list)

    async def look(self, clients: Clients) -> None:
        """Look at the server's metrics until cancelled."""
        while True:
            told = await clients.metrics()
            self.waiting.append(told["readahead_num_requests_waiting"])
            self.kv_mb.append((len(self.rss_mb), told["readahead_kv_cache_bytes"] / 1e6))
            await asyncio.sleep(EVERY_S)

    def metrics(self, warm_up: int) -> dict[str, float]:
        """Return what became of the memory behind the warm-up, and how long the queue was."""
        rss = np.array(self.rss_mb[min(warm_up, len(self.rss_mb) - 2) :])
        slope = np.polynomial.Polynomial.fit(np.arange(len(rss)), rss, 1).convert().coef
        kv = [mb for num_answers, mb in self.kv_mb if num_answers >= warm_up] or [0.0]
        return {
            "rss_mb": float(rss[-1]),
            "rss_growth_mb": float(rss[-1] - rss[0]),
            "rss_growth_last_fifth_mb": float(rss[-1] - rss[-1 - len(rss) // 5]),
            "rss_slope_mb_per_100": float(slope[1] * 100) if len(slope) > 1 else 0.0,
            "kv_mb": kv[-1],
            "kv_growth_mb": kv[-1] - kv[0],
            "queue_mean": float(np.mean(self.waiting)),
            "queue_max": float(np.max(self.waiting)),
        }


async def loaded(
    served: Served, clients: Clients, questions: Sequence[str], given: argparse.Namespace
) -> dict[str, float]:
    """Return what many clients at a time get, and what it does to the server."""
    watched = Watched()

    def told(_: Asked) -> None:
        watched.rss_mb.append(served.rss_mb)
        if len(watched.rss_mb) % 25 == 0:
            print(f"{len(watched.rss_mb)} answers, {served.rss_mb:.0f} MB", flush=True)

    asked = list(islice(cycle(questions), given.requests))
    looking = asyncio.create_task(watched.look(clients))
    async with meanwhile(looking):
        answers = await closed_loop(clients, asked, given.streams, told, method=given.method)
    begun_s = min(answer.begun_s for answer in answers)
    ended_s = max(answer.begun_s + answer.ttft_s + sum(answer.gaps_s) for answer in answers)
    gaps_s = [gap_s for answer in answers for gap_s in answer.gaps_s]
    return {
        **quantiles("ttft", [answer.ttft_s for answer in answers]),
        **quantiles("itl", gaps_s),
        "requests_per_s": len(answers) / (ended_s - begun_s),
        "tokens_per_s": sum(answer.num_tokens for answer in answers) / (ended_s - begun_s),
        "num_answers": len(answers),
        "num_threads": served.num_threads,
        "num_files": served.num_files,
        **watched.metrics(given.warm_up),
    }


async def typed_and_plain(
    clients: Clients, questions: Iterator[str], num: int, num_streams: int = 0
) -> dict[str, float]:
    """Return how soon a typed question has its first token, against the same asked plainly.

    Who goes first changes each time.

    Args:
        clients: Who ask.
        questions: Not asked before.
        num: How many are typed.
        num_streams: Other answers that are given all the time.
    """
    ttft_s: dict[str, list[float]] = {"typing": [], "plain": []}
    strokes_s: list[float] = []

    async def typed(question: str) -> Asked | None:
        async with clients.session() as session:
            strokes_s.extend(await clients.type(question, session))
            return await clients.ask(question, session=session)

    live = [asyncio.create_task(always(clients, questions)) for _ in range(num_streams)]
    async with meanwhile(*live):
        for number, question in enumerate(islice(questions, num)):
            names = ("typing", "plain") if number % 2 else ("plain", "typing")
            for name in names:
                is_typed = name == "typing"
                asked = await (typed(question) if is_typed else clients.ask(question, method=name))
                ttft_s[name].append(asked.ttft_s if asked else np.nan)
            told = f"{ttft_s['plain'][-1]:6.2f} s {ttft_s['typing'][-1]:6.2f} s  {question}"
            print(told, flush=True)
    busy = ".busy" if num_streams else ""
    middle = {name: float(np.nanmedian(values)) for name, values in ttft_s.items()}
    pairs = np.array(ttft_s["typing"]) / np.array(ttft_s["plain"])
    return {
        f"typing{busy}.ttft_ratio": middle["typing"] / middle["plain"],
        f"typing{busy}.ttft_ratio_pairs": float(np.nanmedian(pairs)),
        f"typing{busy}.ttft_s": middle["typing"],
        f"plain{busy}.ttft_s": middle["plain"],
        f"typing{busy}.stroke_p95_s": float(np.quantile(strokes_s, 0.95)),
    }


async def always(clients: Clients, questions: Iterator[str]) -> None:
    """Ask one question after the other."""
    for question in questions:
        await clients.ask(question)


async def typing_on(clients: Clients, questions: Iterator[str]) -> None:
    """Type one question after the other, and ask none."""
    for question in questions:
        async with clients.session() as session:
            await clients.type(question, session)


async def yielding(clients: Clients, questions: Iterator[str], num: int) -> dict[str, float]:
    """Return what typing clients, who ask nothing, take from live answers.

    With one live stream that pauses there is time in which the server reads ahead.
    """
    found: dict[str, float] = {}
    for num_streams, pause_s, end in ((1, PAUSE_S, ".sparse"), (BUSY_STREAMS, 0.0, "")):
        ttft_s: dict[bool, list[float]] = {False: [], True: []}
        wait_s: dict[bool, list[float]] = {False: [], True: []}
        for number in range(2 * max(1, num // (2 * ROUND))):
            is_typing = number % 2 == 1
            typists = [
                asyncio.create_task(typing_on(clients, questions))
                for _ in range(NUM_TYPISTS * is_typing)
            ]
            asked = list(islice(questions, ROUND * num_streams))
            waited_s = await waited(clients)
            async with meanwhile(*typists):
                answers = await closed_loop(
                    clients, asked, num_streams, pause_s=pause_s, method="plain"
                )
            ttft_s[is_typing] += [answer.ttft_s for answer in answers]
            wait_s[is_typing].append((await waited(clients) - waited_s) / len(answers))
        middle = {is_typing: float(np.median(values)) for is_typing, values in ttft_s.items()}
        found |= {
            f"live{end}.ttft_with_typing_ratio": middle[True] / middle[False],
            f"live{end}.ttft_with_typing_s": middle[True],
            f"live{end}.ttft_s": middle[False],
            f"live{end}.wait_with_typing_s": float(np.mean(wait_s[True])),
            f"live{end}.wait_s": float(np.mean(wait_s[False])),
        }
    return found


async def waited(clients: Clients) -> float:
    """Return how long all plain answers together have waited for the model, which was busy."""
    return (await clients.metrics()).get(WAITED, 0.0)


async def short_and_long(served: Served, clients: Clients, num: int) -> dict[str, float]:
    """Return how soon a short request has its first token, alone and behind a long one.

    The short one comes at another moment each time: while the long prompt is read, or later.
    """
    alone, beside = [], []
    bare = served.target
    for number in range(num):
        thing = THINGS[number % len(THINGS)]
        short = SHORT.format(thing)
        asked = await clients.ask(short, model=bare, max_tokens=SHORT_TOKENS)
        alone.append(asked.ttft_s if asked else np.nan)
        long = asyncio.create_task(
            clients.ask(LONG.format(thing), model=bare, max_tokens=LONG_TOKENS)
        )
        async with meanwhile(long):
            await asyncio.sleep(OFFSET_S * (number + 0.5) / num)
            asked = await clients.ask(short, model=bare, max_tokens=SHORT_TOKENS)
        beside.append(asked.ttft_s if asked else np.nan)
    middle_s = float(np.nanmedian(alone))
    return {
        "short.ttft_beside_long_ratio": float(np.nanmedian(beside)) / middle_s,
        "short.ttft_beside_long_s": float(np.nanmedian(beside)),
        "short.ttft_beside_long_max_s": float(np.nanmax(beside)),
        "short.ttft_s": middle_s,
    }


def quantiles(name: str, values: Sequence[float]) -> Mapping[str, float]:
    """Return median and 95th percentile."""
    return {f"{name}_p{q}_s": float(np.quantile(values, q / 100)) for q in (50, 95)}


if __name__ == "__main__":
    main()
