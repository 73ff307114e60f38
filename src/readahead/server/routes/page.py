"""The page and its files, and what it offers to set."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from fastapi import APIRouter, Request, Response

from readahead.config import Config
from readahead.server.problems import Problem
from readahead.server.schemas.settings import LIMITS, SETTINGS
from readahead.server.state import ServiceOf

router = APIRouter()

STATIC = Path(__file__).parents[1] / "static"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FILES: Mapping[str, Path] = {
    path.name: path for path in sorted(STATIC.iterdir()) if path.suffix in TYPES
}
"""All that is served: a name that is not in it is not looked for on disk."""


@router.get("/", include_in_schema=False)
def page(request: Request) -> Response:
    """Give the page."""
    return _file(request, FILES["index.html"])


@router.get("/static/{file}", include_in_schema=False)
def static(request: Request, file: str) -> Response:
    """Give a file of the page.

    Raises:
        Problem: 404, the page has none of this name.
    """
    if file not in FILES:
        raise Problem(404, "The page has no such file.")
    return _file(request, FILES[file])


def _file(request: Request, path: Path) -> Response:
    """Return a file, or nothing where the browser has it already."""
    body = path.read_bytes()
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    known = [tag.strip().removeprefix("W/") for tag in _if_none_match(request).split(",")]
    if etag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=TYPES[path.suffix])


def _if_none_match(request: Request) -> str:
    return request.headers.get("if-none-match", "")


@router.get("/v1/settings")
def settings(service: ServiceOf) -> dict[str, object]:
    """Tell what a request may set, and the values in use where it does not."""
    return {
        "object": "list",
        "target": service.loaded.target.name,
        "drafter": service.config.models.drafter or service.loaded.target.name,
        "embedder": service.config.models.embedder,
        "mode": service.config.retrieval.mode,
        "data": [_setting(service.config, name) for name in SETTINGS],
    }


def _setting(config: Config, name: str) -> dict[str, object]:
    """Return a setting: its value, its type and range as JSON schema has them, who reads it."""
    section = getattr(config, name.partition(".")[0])
    field = name.partition(".")[2]
    schema = type(section).model_json_schema()["properties"][field]
    if name in LIMITS:
        schema = schema | {"maximum": LIMITS[name]}
    return {
        "object": "setting",
        "name": name,
        "value": getattr(section, field),
        "methods": list(SETTINGS[name]),
        "schema": schema,
    }
