"""The page and its files."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter()
