import pytest
from pydantic import BaseModel, ValidationError

from readahead.server.schemas.fields import MAX_DEPTH, MAX_TEXT_CHARS, AnyText, Shallow, ShortText


class Request(BaseModel):
    any: AnyText = ""
    short: ShortText = ""
    value: Shallow = None


def test_lone_surrogates_are_mended() -> None:
    request = Request.model_validate({"any": "a\ud83d\ude00", "short": "\udfffb"})
    assert (request.any, request.short) == ("a\ufffd\ufffd", "\ufffdb")
    request.model_dump_json()  # has a spelling


def test_what_is_typed_has_a_limit() -> None:
    Request(short="水" * MAX_TEXT_CHARS)
    with pytest.raises(ValidationError, match="at most"):
        Request(short="水" * (MAX_TEXT_CHARS + 1))


def test_other_values_are_refused() -> None:
    with pytest.raises(ValidationError):
        Request.model_validate({"any": 3})


def nested(num_levels: int) -> object:
    value: object = 1
    for level in range(num_levels):
        value = [value] if level % 2 else {"a": value}
    return value


def test_a_value_may_be_nested_so_far() -> None:
    Request(value=nested(MAX_DEPTH))
    for num_levels in (MAX_DEPTH + 1, 900):
        with pytest.raises(ValidationError, match="nested more than 32 levels"):
            Request(value=nested(num_levels))
