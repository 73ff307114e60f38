"""/health and /ready: whether the server lives, and whether it can answer.

Who balances load asks with HEAD, too.
"""

from __future__ import annotations

import logging

from anyio import to_thread
from fastapi import APIRouter

from readahead.errors import StoreError
from readahead.server.problems import UNREADABLE, Problem
from readahead.server.state import Service, ServiceOf

router = APIRouter()
_log = logging.getLogger("readahead.server")


@router.head("/health", include_in_schema=False)
@router.get("/health")
async def health() -> dict[str, str]:
    """Say that the server lives; it asks nothing else, and needs no key."""
    return {"status": "ok"}


@router.head("/ready", include_in_schema=False)
@router.get("/ready")
async def ready(service: ServiceOf) -> dict[str, str]:
    """Say whether questions can be answered: 200 if so, else 503 with the reason."""
    if reason := await to_thread.run_sync(_missing, service, limiter=service.probes):
        raise Problem(503, reason, code="not_ready", headers={"Retry-After": "1"})
    return {"status": "ready"}


def _missing(service: Service) -> str:
    """Return what is in the way of an answer, "" if nothing is."""
    if not service.loaded.has_target:
        return "The models are being loaded."
    try:
        service.tenant().engine.knowledge.store.generation()
    except StoreError as error:
        _log.error("not ready: %s", error)  # a line a probe, without a traceback
        return UNREADABLE
    return ""
