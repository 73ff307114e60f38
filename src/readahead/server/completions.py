"""/v1/completions: the bare target goes on with a text, or scores it."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter()
