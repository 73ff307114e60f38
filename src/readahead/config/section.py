"""What all sections of the settings have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Unknown names are refused, and nothing changes once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True)
