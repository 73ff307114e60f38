"""Fields that several requests have; knows no route."""

from __future__ import annotations

from typing import Annotated, Any, Literal, LiteralString

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from readahead.retrieval.schema import storable

MAX_TEXT_CHARS = 20_000
MAX_DEPTH = 32  # as of the metadata of a document


def _mended(value: object) -> object:
    """Return a text without lone surrogates, which JSON can spell and UTF-8 cannot."""
    return storable(value) if isinstance(value, str) else value


def _shallow(value: object) -> object:
    if not _fits(value, MAX_DEPTH):
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
    return value


def _fits(value: object, num_levels: int) -> bool:
    if not isinstance(value, dict | list):
        return True
    items = value.values() if isinstance(value, dict) else value
    return num_levels > 0 and all(_fits(item, num_levels - 1) for item in items)


def _not_a_number(value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError("it may be false only")
    return value


Mended = BeforeValidator(_mended)
"""Makes each lone surrogate of a string U+FFFD; stands behind the string's limits."""
AnyText = Annotated[str, Mended]
"""Any string that JSON can hold."""
ShortText = Annotated[str, Field(max_length=MAX_TEXT_CHARS), Mended]
"""What a person types into a line."""
Off = Annotated[Literal[False], BeforeValidator(_not_a_number)]
"""What cannot be switched on; 0 is no false."""
Shallow = Annotated[Any, AfterValidator(_shallow)]
"""A JSON value that is not nested too deeply to be handled further."""


def refused(why: LiteralString) -> BeforeValidator:
    """Return what refuses any value of a field that is known and not served."""

    def check(value: object) -> object:
        if value is not None:
            raise PydanticCustomError("unsupported", why)
        return value

    return BeforeValidator(check)


def said_as(message: LiteralString) -> WrapValidator:
    """Return what says ``message`` of a wrong value, instead of what each alternative lacks."""

    def check(value: Any, inner: ValidatorFunctionWrapHandler) -> Any:
        try:
            return inner(value)
        except ValidationError:
            raise PydanticCustomError("alternatives", message) from None

    return WrapValidator(check)
