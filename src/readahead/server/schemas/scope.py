"""Which documents a request is about."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from readahead.retrieval.base import Filter
from readahead.retrieval.store import Store
from readahead.server.problems import Problem
from readahead.server.schemas.fields import Shallow
from readahead.types import PassageKind

MAX_NAMES = 1000
MAX_CONDITIONS = 32


class Scope(BaseModel):
    """Limits what may be shown; empty fields limit nothing.

    Attributes:
        prefix: Where these fields stand in the body, such as ``readahead.``.
    """

    model_config = ConfigDict(extra="forbid")
    prefix: ClassVar[str] = ""

    documents: list[str] = Field([], max_length=MAX_NAMES, description="names or ids")
    kinds: list[PassageKind] = Field([], max_length=16)
    metadata: dict[str, Shallow] = Field(
        {}, max_length=MAX_CONDITIONS, description="keys that must have exactly these values"
    )

    def filter(self, store: Store) -> Filter | None:
        """Return it for a search; None where it limits nothing.

        Raises:
            Problem: 404, there is no such document.
        """
        if not (self.documents or self.kinds or self.metadata):
            return None
        return Filter(tuple(self._names(store)), tuple(self.kinds), self.metadata)

    def _names(self, store: Store) -> list[str]:
        if not self.documents:
            return []
        infos = store.documents()
        by_name = {info.name for info in infos}
        by_id = {str(info.id): info.name for info in infos}
        names = []
        for given in self.documents:
            name = given if given in by_name else by_id.get(given)
            if name is None:
                raise Problem(
                    404,
                    f"There is no document {given!r}; GET /v1/documents lists them.",
                    param=f"{self.prefix}documents",
                    code="NotFound",
                )
            names.append(name)
        return names
