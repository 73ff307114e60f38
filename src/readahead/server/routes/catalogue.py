"""/v1/models: what may be asked."""

from __future__ import annotations

from fastapi import APIRouter

from readahead.server.problems import Problem
from readahead.server.state import Service, ServiceOf, Tenant, TenantOf

router = APIRouter()
DOCUMENTS = "readahead"
"""The name under which the documents answer."""


@router.get("/v1/models")
def list_models(service: ServiceOf, tenant: TenantOf) -> dict[str, object]:
    """Return all models."""
    return {"object": "list", "data": [_model(name, service) for name in names(service, tenant)]}


@router.get("/v1/models/{name:path}")
def show_model(name: str, service: ServiceOf, tenant: TenantOf) -> dict[str, object]:
    """Return one model."""
    known = names(service, tenant)
    if name not in known:
        raise unknown_model(name, f"There are: {', '.join(known)}.")
    return _model(name, service)


def names(service: Service, tenant: Tenant) -> list[str]:
    """Return what answers from the documents, what writes by itself and, if any, what embeds."""
    knowledge = tenant.engine.knowledge
    embedders = [] if knowledge.is_lexical else [knowledge.config.models.embedder]
    return [DOCUMENTS, service.loaded.target.name, *embedders]


def unknown_model(name: str, remedy: str) -> Problem:
    """Return the problem of a request for a model that there is not, or not for this."""
    return Problem(
        404, f"There is no model {name!r} here. {remedy}", param="model", code="model_not_found"
    )


def _model(name: str, service: Service) -> dict[str, object]:
    return {
        "id": name,
        "object": "model",
        "created": int(service.started_at),
        "owned_by": "readahead",
    }
