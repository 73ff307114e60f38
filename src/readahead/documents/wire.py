"""Frames and messages between the reader and its worker.

    request   frame(JSON {"name"})  frame(bytes of the file)
    reply     frame(JSON {"documents": […]})  or  frame(JSON {"reason", "remedy", "out_of_memory"})

A frame is its length in eight bytes, big-endian, and that many bytes. JSON, not pickle: what comes
out of a parser is data on this side too. This module knows nothing about processes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import IO, Any

from readahead.types import Block, Document

_LENGTH = struct.Struct(">Q")
_MAX_FRAME_BYTES = 2**32


def write_frame(stream: IO[bytes], payload: bytes) -> None:
    """Write one frame; the caller flushes."""
    stream.write(_LENGTH.pack(len(payload)))
    stream.write(payload)


def read_frame(stream: IO[bytes]) -> bytes:
    """Return the payload of the next frame.

    Raises:
        EOFError: The other side is gone, or wrote something else than a frame.
    """
    header = stream.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(header)
    if length > _MAX_FRAME_BYTES:
        raise EOFError
    payload = stream.read(length)
    if len(payload) < length:
        raise EOFError
    return payload


def write_message(stream: IO[bytes], message: Mapping[str, object]) -> None:
    """Write a JSON object as one frame, and flush; ASCII, so that any file name passes."""
    write_frame(stream, json.dumps(message).encode("ascii"))
    stream.flush()


def read_message(stream: IO[bytes]) -> dict[str, Any]:
    """Return the JSON object in the next frame."""
    message = json.loads(read_frame(stream))
    if not isinstance(message, dict):
        raise EOFError
    return message


def document_to_json(document: Document) -> dict[str, object]:
    """Return a document as JSON values; a heading path stands there once, however many share it."""
    places: dict[tuple[str, ...], int] = {}
    for block in document.blocks:
        places.setdefault(block.heading, len(places))
    return {
        "name": document.name,
        "text": document.text,
        "headings": list(places),
        "blocks": [
            [block.kind, block.start, block.end, places[block.heading], block.page, block.level]
            for block in document.blocks
        ],
        "removed": dict(document.removed),
        "metadata": dict(document.metadata),
    }


def document_from_json(value: Mapping[str, Any]) -> Document:
    """Return the document that ``document_to_json`` wrote."""
    headings = [tuple(heading) for heading in value["headings"]]
    blocks = tuple(
        Block(kind, start, end, headings[heading], page, level)
        for kind, start, end, heading, page, level in value["blocks"]
    )
    return Document(value["name"], value["text"], blocks, value["removed"], value["metadata"])
