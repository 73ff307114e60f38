import io
import sys

import pytest

from readahead.cli.options import decoded, text_of
from readahead.errors import InputError


def test_text_is_the_argument_or_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\ufeff 潮汐？\n".encode())))
    assert text_of(" tides? ") == "tides?"
    assert text_of("-") == "潮汐？"
    with pytest.raises(InputError, match="blank"):
        text_of("-")  # all of it was read


@pytest.mark.parametrize("data", [b"\xff\xfe", b"abc\x80", "潮汐".encode("gb18030")])
def test_bytes_that_are_not_text_are_refused(data: bytes) -> None:
    with pytest.raises(InputError, match=r"not UTF-8: byte \d"):
        decoded(data)
