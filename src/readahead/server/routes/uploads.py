"""Files out of a multipart body, written as they come; knows no knowledge base.

What a client calls its files is shown to people and tells a format, and is never part of a path.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import unicodedata
from contextlib import suppress
from pathlib import Path, PurePath
from typing import IO
from urllib.parse import unquote_to_bytes

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect

from readahead.config import ServerConfig
from readahead.documents.parse import ENDINGS
from readahead.server.problems import Problem

FIELD = "files"
MAX_NAME_CHARS = 200
_PARAMETER = re.compile(r';\s*([^\s=;"]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;"]*)')
_EXTENDED = re.compile(
    r"(?P<charset>utf-8|iso-8859-1)'[\w-]*'(?P<name>(?:[\w!#$&+.^`|~-]|%[0-9a-f]{2})+)",
    re.ASCII | re.IGNORECASE,
)
# Control and format characters (among them those that turn the direction of text around), lone
# surrogates, what is not assigned, and separators of lines: nothing that people would see.
_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"))


def shown_name(given: str) -> str:
    """Return what a file is called, by the name that a client gave it.

    Raises:
        Problem: 400, nothing is left of it, or it is too long; 415, its ending tells no format.
    """
    base = re.split(r"[/\\]", given)[-1]
    seen = "".join(char for char in base if unicodedata.category(char) not in _UNSEEN)
    name = " ".join(unicodedata.normalize("NFC", seen).split())
    if not name.strip("."):
        raise _refused(f"The file name {given[:MAX_NAME_CHARS]!r} is empty.")
    if len(name) > MAX_NAME_CHARS:
        raise _refused(f"The file name {name[:40]!r}… is longer than {MAX_NAME_CHARS} characters.")
    if PurePath(name).suffix.lower() not in ENDINGS:
        raise Problem(
            415,
            f"The format of {name!r} is not known. Names may end in {', '.join(sorted(ENDINGS))}.",
            param=FIELD,
            code="unsupported_file_type",
        )
    return name


def extended_name(disposition: bytes) -> str | None:
    """Return what ``filename*`` says, which counts before ``filename`` (RFC 6266 §4.3); or None.

    Raises:
        Problem: 400, it is not as RFC 5987 has it.
    """
    parameters = _PARAMETER.findall(disposition.decode("latin-1"))
    for value in (value for name, value in parameters if name.lower() == "filename*"):
        if found := _EXTENDED.fullmatch(value.strip()):
            with suppress(UnicodeDecodeError):
                return unquote_to_bytes(found["name"]).decode(found["charset"])
        raise _refused("The parameter filename* is not UTF-8''NAME with percent signs for bytes.")
    return None


async def receive(request: Request, folder: Path, config: ServerConfig) -> list[str]:
    """Write the files of a request into ``folder``, as 0, 1, …, and return what they are called.

    They are on the disk when it returns. A file that comes twice is kept once; it counts
    twice.

    Raises:
        Problem: 413, the files are too long together; 400, there are too many, none, or two of one
            name, or the body is not what it should be; 415, a format is not known; 499, the client
            has left.
    """
    receiver = Receiver(folder, _boundary(request.headers.get("content-type", "")), config)
    try:
        async for chunk in request.stream():
            if chunk:
                await asyncio.to_thread(receiver.feed, chunk)
        return receiver.finish()
    except ClientDisconnect:
        raise Problem(499, "The client has left.", code="client_closed_request") from None
    finally:
        receiver.close()


def _boundary(content_type: str) -> bytes:
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise Problem(
            415,
            f"An upload is multipart/form-data with a boundary, not {content_type[:100]!r}.",
            code="unsupported_media_type",
        )
    return options[b"boundary"]


class Receiver:
    """Takes a body piece by piece.

    Args:
        folder: Where files go.
        boundary: Between the parts of the body.
        config: The limits.
    """

    def __init__(self, folder: Path, boundary: bytes, config: ServerConfig) -> None:
        self._folder = folder
        self._config = config
        self._names: list[str] = []
        self._digests: dict[str, bytes] = {}
        self._num_parts = 0
        self._num_bytes = 0
        self._is_whole = False
        self._header: tuple[bytearray, bytearray] = (bytearray(), bytearray())
        self._disposition = b""
        self._name = ""
        self._file: IO[bytes] | None = None
        self._digest = hashlib.sha256()
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": lambda data, start, end: self._header[0].extend(
                        data[start:end]
                    ),
                    "on_header_value": lambda data, start, end: self._header[1].extend(
                        data[start:end]
                    ),
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._open,
                    "on_part_data": self._write,
                    "on_part_end": self._end,
                    "on_end": self._end_all,
                },
            )
        except FormParserError as error:
            raise _malformed(error) from None

    def feed(self, chunk: bytes) -> None:
        """Take the next piece."""
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise _malformed(error) from None

    def finish(self) -> list[str]:
        """Return the names of the files, all of which have come."""
        if not self._is_whole:
            raise _malformed("it ends in the middle")
        if not self._names:
            raise _refused(f"There is no file in the field {FIELD!r}.")
        return self._names

    def close(self) -> None:
        """Close the file that is being written, if any."""
        if self._file is not None:
            self._file.close()

    def _begin(self) -> None:
        self._disposition = b""

    def _end_header(self) -> None:
        name, value = map(bytes, self._header)
        if name.lower() == b"content-disposition":
            self._disposition = value
        self._header = (bytearray(), bytearray())

    def _open(self) -> None:
        """Begin the file that the headers of a part announce."""
        _, options = parse_options_header(self._disposition)
        field = options.get(b"name", b"").decode("utf-8", "replace")
        if field != FIELD:
            raise Problem(
                400,
                f"The field {field[:100]!r} is not known; files come in {FIELD!r}.",
                param=field[:100] or None,
                code="invalid",
            )
        given = extended_name(self._disposition)
        if given is None and b"filename" in options:
            given = options[b"filename"].decode("utf-8", "replace")
        if given is None:
            raise _refused(f"The field {FIELD!r} holds text where a file belongs.")
        self._num_parts += 1  # one that comes again, too: each is written and synced
        if self._num_parts > self._config.max_upload_files:
            raise _refused(
                f"There are more than {self._config.max_upload_files} files in one upload."
            )
        self._name = shown_name(given)
        self._digest = hashlib.sha256()
        self._file = (self._folder / str(len(self._names))).open("wb")

    def _write(self, data: bytes, start: int, end: int) -> None:
        self._num_bytes += end - start
        if self._num_bytes > self._config.max_upload_bytes:
            raise Problem(
                413,
                f"The files are longer than {self._config.max_upload_bytes} bytes together, the "
                f"most that one upload may have.",
                param=FIELD,
                code="too_long",
            )
        assert self._file is not None
        self._file.write(data[start:end])
        self._digest.update(data[start:end])

    def _end(self) -> None:
        assert self._file is not None
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._file = None
        name, digest = self._name, self._digest.digest()
        known = self._digests.setdefault(name, digest)
        if known != digest:
            raise _refused(f"Two different files of the upload are called {name!r}.")
        if name in self._names:
            with suppress(FileNotFoundError):
                (self._folder / str(len(self._names))).unlink()
        else:
            self._names.append(name)

    def _end_all(self) -> None:
        self._is_whole = True


def _refused(message: str) -> Problem:
    return Problem(400, message, param=FIELD, code="invalid")


def _malformed(why: object) -> Problem:
    return Problem(400, f"The body is not multipart/form-data: {why}.", code="invalid")
