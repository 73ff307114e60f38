"""/v1/embeddings: vectors of texts."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter()
