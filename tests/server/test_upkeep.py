"""What the server does from time to time, on real clocks."""

import asyncio

import pytest

from readahead.server import upkeep
from readahead.server.state import Service
from readahead.server.upkeep import expire_sessions, give_back_memory
from readahead.session import Session


async def for_a_while(task: asyncio.Task[None], seconds: float) -> None:
    await asyncio.wait({task}, timeout=seconds)
    task.cancel()


def test_memory_is_given_back_again_and_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[bool] = []

    def give_back() -> bool:
        given.append(len(given) < 2)
        return given[-1]

    monkeypatch.setattr(upkeep, "GIVE_BACK_S", 0.001)
    monkeypatch.setattr(upkeep, "give_back", give_back)
    asyncio.run(asyncio.wait_for(give_back_memory(service), 20))
    assert given == [True, True, False]


def test_idle_sessions_are_closed_and_a_fault_costs_no_other_round(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = service.tenant()
    monkeypatch.setattr(upkeep, "LONGEST_SLEEP_S", 0.01)
    rounds: list[int] = []
    whole = tenant.sessions.expire

    def expire() -> None:
        rounds.append(len(rounds))
        if len(rounds) == 1:
            raise RuntimeError("once")
        whole()

    session = tenant.sessions.open(Session(tenant.engine), {})
    monkeypatch.setattr(tenant.sessions, "expire", expire)
    session._used_s -= 10 * service.config.server.session_idle_s

    async def run() -> None:
        await for_a_while(asyncio.create_task(expire_sessions(service)), 0.5)

    asyncio.run(run())
    assert len(rounds) > 1
    assert not list(tenant.sessions)
