"""/v1/sessions: conversations that are read ahead for while a question is typed."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter()
