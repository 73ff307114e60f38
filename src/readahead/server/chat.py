"""/v1/chat/completions: answers from the documents, or the bare target's."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter()
