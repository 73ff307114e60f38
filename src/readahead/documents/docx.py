"""DOCX: the body of a Word document as blocks, in its order.

This module knows nothing about files. Page headers and footers, comments, deleted and hidden text
are not part of the body; inserted text is.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from readahead.documents.blocks import TextBuilder, flow
from readahead.errors import DocumentError, missing_extra

if TYPE_CHECKING:
    from docx.document import Document as WordDocument

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # old .doc files, and encrypted .docx files
_HEADING = re.compile(r"heading (?P<level>[1-9])", re.IGNORECASE)
_GENERATED = frozenset({"Table of Contents", "Bibliographies"})
_MAX_MEMBERS = 10_000

Element = Any  # an lxml element, which has no types


def read_docx(data: bytes, *, max_unpacked_bytes: int) -> TextBuilder:
    """Return the blocks of a Word document.

    Raises:
        DocumentError: It is encrypted, not a zip archive, or unpacks to more than the limit.
    """
    _check_archive(data, max_unpacked_bytes)
    try:
        import docx
    except ImportError:
        raise missing_extra("python-docx", "docx") from None
    document = docx.Document(io.BytesIO(data))
    reader = _Body(document)
    for element in _body_elements(document.element.body):
        reader.take(element)
    return reader.finish()
