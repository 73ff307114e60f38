"""/v1/traces: what happened in a request, and when."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from readahead.server.state import TenantOf

router = APIRouter()
MAX_LISTED = 1000
_TOLD = ("question", "method", "target", "finish_reason", "ttft_s", "e2e_s", "user", "metadata")


@router.get("/v1/traces")
def list_traces(
    tenant: TenantOf, limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 20
) -> dict[str, object]:
    """List the last requests, the latest first."""
    found = tenant.engine.knowledge.store.traces(limit + 1)
    return {
        "object": "list",
        "data": [_summary(trace) for trace in found[:limit]],
        "has_more": len(found) > limit,
    }


@router.get("/v1/traces/{id}")
def get_trace(id: str, tenant: TenantOf) -> dict[str, object]:
    """Return the spans and counters of one request."""
    return {"object": "trace", **tenant.engine.knowledge.store.trace(id)}


def _summary(trace: dict[str, Any]) -> dict[str, object]:
    """Return what tells one trace from another."""
    attributes = trace["attributes"]
    return {
        "object": "trace",
        "id": trace["id"],
        "kind": trace["kind"],
        "started_at": trace["started_at"],
        **{name: attributes.get(name) for name in _TOLD},
    }
