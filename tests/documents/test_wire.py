import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.documents.wire import (
    document_from_json,
    document_to_json,
    read_frame,
    read_message,
    write_frame,
    write_message,
)
from readahead.types import Block, Document


def test_frames_and_messages_come_back() -> None:
    stream = io.BytesIO()
    write_frame(stream, b"")
    write_message(stream, {"name": "名\udcff"})
    write_frame(stream, b"\x00\n")
    stream.seek(0)
    assert read_frame(stream) == b""
    assert read_message(stream) == {"name": "名\udcff"}
    assert read_frame(stream) == b"\x00\n"


@pytest.mark.parametrize(
    "data", [b"", b"\x00" * 7, b"\x00" * 7 + b"\x05abc", b"\xff" * 8, b"Traceb"]
)
def test_anything_but_a_frame_is_the_end(data: bytes) -> None:
    with pytest.raises(EOFError):
        read_frame(io.BytesIO(data))


def test_blocks_under_one_heading_share_it() -> None:
    path = ("A", "B" * 300)
    blocks = tuple(Block("paragraph", 3 * at, 3 * at + 1, path) for at in range(100))
    document = Document("x", "a\n\n" * 99 + "a", blocks)
    stream = io.BytesIO()
    write_message(stream, document_to_json(document))
    assert len(stream.getvalue()) < 10_000
    stream.seek(0)
    read = document_from_json(read_message(stream))
    assert read == document
    assert len({id(block.heading) for block in read.blocks}) == 1


@given(st.text(), st.dictionaries(st.text(), st.integers()))
def test_documents_come_back(text: str, removed: dict[str, int]) -> None:
    blocks = (Block("title", 0, 1, ("T",), 3, 1), Block("code", 2, 4))
    document = Document("x", text, blocks, removed, {"k": [None, 1.5, {"é": True}]})
    stream = io.BytesIO()
    write_message(stream, document_to_json(document))
    stream.seek(0)
    assert document_from_json(read_message(stream)) == document
