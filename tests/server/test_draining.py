import asyncio
import time

from readahead.server.draining import Draining


def test_the_end_waits_for_what_runs() -> None:
    async def check() -> list[str]:
        draining, seen = Draining(), list[str]()

        async def request(name: str, seconds: float) -> None:
            with draining.running():
                await asyncio.sleep(seconds)
                seen.append(name)

        running = [asyncio.create_task(request(n, s)) for n, s in (("a", 0.02), ("b", 0.05))]
        await asyncio.sleep(0)
        assert draining.num_running == 2
        await draining.finish(5)
        seen.append("end")
        assert draining.has_begun and not draining.num_running
        await asyncio.gather(*running)
        return seen

    assert asyncio.run(check()) == ["a", "b", "end"]


def test_the_end_does_not_wait_for_ever() -> None:
    async def check() -> None:
        draining = Draining()
        with draining.running():
            await draining.finish(0.01)

    begun_s = time.monotonic()
    asyncio.run(check())
    assert time.monotonic() - begun_s < 5


def test_an_idle_server_ends_at_once() -> None:
    asyncio.run(asyncio.wait_for(Draining().finish(60), 5))
