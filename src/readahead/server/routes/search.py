"""/v1/search: the passages that fit a query best."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field, StrictInt

from readahead.server.problems import Problem
from readahead.server.schemas.fields import ShortText
from readahead.server.schemas.scope import Scope
from readahead.server.state import BRIEF, TenantOf
from readahead.types import Hit, Passage

router = APIRouter()
MAX_HITS = 1000


class SearchRequest(Scope):
    """The body of ``POST /v1/search``."""

    query: ShortText = Field(
        description="any text that is not blank", json_schema_extra={"pattern": r"\S"}
    )
    k: StrictInt | None = Field(None, ge=1, le=MAX_HITS, description="unset: retrieval.k")


@router.post("/v1/search", dependencies=BRIEF)
def search(request: SearchRequest, tenant: TenantOf) -> dict[str, object]:
    """Return the passages that fit a query best, best first."""
    if not request.query.strip():
        raise Problem(400, "query is blank. Say what to look for.", param="query", code="blank")
    knowledge = tenant.engine.knowledge
    k = request.k or knowledge.config.retrieval.k
    hits = knowledge.search(request.query, k, filter=request.filter(knowledge.store))
    return {"object": "list", "hits": [hit_json(hit) for hit in hits]}


@router.get("/v1/passages/{id}")
def get_passage(id: str, tenant: TenantOf) -> dict[str, object]:
    """Return one passage, as traces name it.

    Raises:
        NotFound: There is none, or it was deleted.
    """
    return {"object": "passage", **passage_json(tenant.engine.knowledge.store.passage(id))}


def hit_json(hit: Hit) -> dict[str, object]:
    """Return a hit as ``search --json`` prints it, with the id of its document."""
    return {**passage_json(hit.passage), "score": hit.score}


def passage_json(passage: Passage) -> dict[str, object]:
    """Return a passage as ``show --json`` prints it, with the id of its document."""
    return {**passage.to_json(), "document_id": passage.id.partition(".")[0]}
