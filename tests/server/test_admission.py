import asyncio
from collections.abc import Coroutine

import pytest

from readahead.server.admission import Admission
from readahead.server.problems import Problem


def run(job: Coroutine[None, None, None]) -> None:
    asyncio.run(asyncio.wait_for(job, 5))


def test_a_bounded_number_runs_and_a_bounded_number_waits() -> None:
    async def check() -> None:
        admission = Admission(1, 1)
        async with admission.place("a"):
            waiting = asyncio.create_task(hold(admission, "a", []))
            await asyncio.sleep(0)
            assert (admission.num_running, admission.num_queued) == (1, 1)
            with pytest.raises(Problem, match="1 requests wait already") as caught:
                async with admission.place("b"):
                    pass
        assert caught.value.status == 429
        assert int(caught.value.headers["Retry-After"]) >= 1
        await waiting
        assert (admission.num_running, admission.num_queued) == (0, 0)

    run(check())


async def hold(admission: Admission, caller: str, order: list[str]) -> None:
    async with admission.place(caller):
        order.append(caller)
        await asyncio.sleep(0)


def test_callers_take_turns() -> None:
    async def check() -> None:
        admission, order = Admission(1, 10), list[str]()
        jobs = [asyncio.create_task(hold(admission, caller, order)) for caller in "aaaabb"]
        await asyncio.gather(*jobs)
        assert order == list("aabaab") or order == list("aababa")

    run(check())


@pytest.mark.parametrize("is_admitted", [False, True])
def test_who_leaves_the_queue_takes_no_place(is_admitted: bool) -> None:
    async def check() -> None:
        admission, order = Admission(1, 2), list[str]()
        place = admission.place("a")
        await place.__aenter__()
        leaving = asyncio.create_task(hold(admission, "b", order))
        staying = asyncio.create_task(hold(admission, "c", order))
        await asyncio.sleep(0)
        if is_admitted:  # its turn has come, but it has not heard of it yet
            await place.__aexit__(None, None, None)
        leaving.cancel()
        if not is_admitted:
            await asyncio.sleep(0)
            await place.__aexit__(None, None, None)
        await staying
        assert order == ["c"]
        assert (admission.num_running, admission.num_queued) == (0, 0)

    run(check())
