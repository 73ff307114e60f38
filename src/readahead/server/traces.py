"""/v1/traces: what happened in a request, and when."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter()
