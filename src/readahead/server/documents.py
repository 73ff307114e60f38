"""/v1/documents: upload, list, read, delete."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter()
