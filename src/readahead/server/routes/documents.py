"""/v1/documents and /v1/jobs: upload, follow the indexing, list, read, delete."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from readahead.config import ServerConfig
from readahead.errors import NotFound
from readahead.retrieval.records import DocumentInfo
from readahead.server.draining import Draining
from readahead.server.jobs import Jobs
from readahead.server.problems import Problem
from readahead.server.routes.uploads import FIELD, receive
from readahead.server.spool import Job
from readahead.server.state import BRIEF, ServiceOf, TenantOf
from readahead.server.stream import frame

router = APIRouter()
MAX_LISTED = 1000
_LOOK_S = 0.1  # between two looks at a job that is followed
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": [FIELD],
                    "properties": {
                        FIELD: {
                            "type": "array",
                            "minItems": 1,
                            "items": {"type": "string", "format": "binary"},
                        }
                    },
                }
            }
        },
    }
}
Limit = Annotated[int, Query(ge=1, le=MAX_LISTED)]
Id = Annotated[str, Query(max_length=100, json_schema_extra={"pattern": "^[0-9]{0,18}$"})]


@router.post("/v1/documents", status_code=202, openapi_extra=_BODY)
async def upload(request: Request, service: ServiceOf, tenant: TenantOf) -> dict[str, object]:
    """Take files on; once this is answered they will be indexed, whatever happens."""
    return job_json(await _received(request, service.config.server, tenant.jobs))


@router.get("/v1/jobs")
def list_jobs(tenant: TenantOf, limit: Limit = 100) -> dict[str, object]:
    """List uploads, the newest first."""
    jobs = list(tenant.jobs)
    listed = [job_json(job) for job in jobs[:limit]]
    return {"object": "list", "data": listed, "has_more": len(jobs) > limit}


@router.get("/v1/jobs/{id}")
def get_job(id: str, tenant: TenantOf) -> dict[str, object]:
    """Return what has become of an upload so far."""
    return job_json(tenant.jobs.get(id))


@router.get("/v1/jobs/{id}/events", response_class=StreamingResponse)
async def follow_job(id: str, service: ServiceOf, tenant: TenantOf) -> StreamingResponse:
    """Send an upload's state whenever it changes, until it is over, as server-sent events."""
    tenant.jobs.get(id)  # while there can be a status
    return StreamingResponse(
        _states(tenant.jobs, id, service.draining),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


@router.get("/v1/documents")
def list_documents(
    tenant: TenantOf, limit: Limit = 100, after: Id = "", query: str = ""
) -> dict[str, object]:
    """List documents whose name holds ``query``, the newest first.

    ``after`` is the id of the last one that is known already.
    """
    if after and not _is_id(after):
        raise Problem(400, "after: It is not the id of a document.", param="after", code="invalid")
    store = tenant.engine.knowledge.store
    found = store.document_page(limit + 1, after=int(after) if after else None, query=query)
    return {
        "object": "list",
        "data": [info_json(info) for info in found[:limit]],
        "has_more": len(found) > limit,
    }


@router.get("/v1/documents/{id}")
def get_document(id: str, tenant: TenantOf) -> dict[str, object]:
    """Return a document's stored text, with its structure."""
    _check_id(id)
    document = tenant.engine.knowledge.document(id, by_id=True)
    return {"object": "document", "id": id, **document.to_json()}


@router.delete("/v1/documents/{id}", dependencies=BRIEF)
def delete_document(id: str, tenant: TenantOf) -> dict[str, object]:
    """Delete a document for good, and what was read of it."""
    _check_id(id)
    tenant.engine.knowledge.remove([id], by_id=True)
    tenant.engine.forget_stale()
    return {"object": "document.deleted", "id": id, "deleted": True}


def job_json(job: Job) -> dict[str, object]:
    """Return a job as JSON values."""
    fields = asdict(job)
    del fields["num_starts"]
    return {"object": "job", **fields, "num_files": len(job.files)}


def info_json(info: DocumentInfo) -> dict[str, object]:
    """Return one line of the list as JSON values."""
    return {
        "object": "document",
        "id": str(info.id),
        "name": info.name,
        "num_passages": info.num_passages,
        "num_chars": info.num_chars,
        "added_at": info.added_at,
        "removed": info.removed,
    }


async def _received(request: Request, config: ServerConfig, jobs: Jobs) -> Job:
    """Return the job of the files in a request.

    Raises:
        Problem: They are refused.
        StoreError: They cannot be written.
    """
    stack = ExitStack()
    try:
        id, folder = await asyncio.to_thread(stack.enter_context, jobs.receiving())
        files = await receive(request, folder, config)
        return await asyncio.to_thread(jobs.submit, id, files)
    finally:  # the folder learns what went wrong, and says so in its own words
        await asyncio.to_thread(stack.__exit__, *sys.exc_info())


async def _states(jobs: Jobs, id: str, draining: Draining) -> AsyncIterator[bytes]:
    """Yield an event for each state of a job until it is over, or the server ends."""
    sent: Job | None = None
    while True:
        try:
            job = jobs.get(id)
        except NotFound:  # over for long, and the client was slow
            return
        if job != sent:
            yield frame(job_json(job))
            sent = job
        if job.is_over or draining.has_begun:
            return
        await asyncio.sleep(_LOOK_S)


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19  # SQLite's integers


def _check_id(id: str) -> None:
    """Raise NotFound for what cannot be an id."""
    if not _is_id(id):
        raise NotFound(f"There is no document {id[:100]!r}.", remedy="See GET /v1/documents.")
