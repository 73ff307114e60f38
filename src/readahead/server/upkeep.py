"""What is done from time to time while the server runs; knows no route."""

from __future__ import annotations

import asyncio
import logging

from readahead.lm.memory import give_back
from readahead.server.state import Service

LONGEST_SLEEP_S = 60.0
GIVE_BACK_S = 10.0
_log = logging.getLogger("readahead.server")


async def expire_sessions(service: Service) -> None:
    """Close sessions that are idle for too long, until cancelled; a fault is logged, and passes."""
    pause_s = min(LONGEST_SLEEP_S, service.config.server.session_idle_s / 2)
    while True:
        await asyncio.sleep(pause_s)
        for tenant in service.open_tenants():
            try:
                await asyncio.to_thread(tenant.sessions.expire)
            except Exception:
                _log.exception("idle sessions could not be closed")


async def give_back_memory(_: Service) -> None:
    """Give what was freed back to the system, until cancelled or where that is not possible."""
    while await asyncio.to_thread(give_back):
        await asyncio.sleep(GIVE_BACK_S)
