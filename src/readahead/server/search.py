"""/v1/search: the passages that fit a query best."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter()
