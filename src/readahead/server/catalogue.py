"""/v1/models: what may be asked."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter()
