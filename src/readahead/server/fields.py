"""Fields that several requests have; knows no route."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from readahead.retrieval.schema import storable

MAX_TEXT_CHARS = 20_000


def _mended(value: object) -> object:
    """Return a text without lone surrogates, which JSON can spell and UTF-8 cannot."""
    return storable(value) if isinstance(value, str) else value


AnyText = Annotated[str, BeforeValidator(_mended)]
"""Any string that JSON can hold; each lone surrogate becomes U+FFFD."""
ShortText = Annotated[AnyText, Field(max_length=MAX_TEXT_CHARS)]
"""What a person types into a line."""
