"""What of a passage is searched; knows no index.

A passage is found by its headings and its context as well as by its text: "It opens at nine" is
found by "visitor centre" when that is the heading.
"""

from __future__ import annotations

import hashlib

from readahead.types import Passage


def heading_text(heading: tuple[str, ...]) -> str:
    """Return the heading path as one line."""
    return " / ".join(heading)


def body_text(context: str, text: str) -> str:
    """Return the context in front of the text."""
    return f"{context}\n{text}" if context else text


def embedded_text(passage: Passage) -> str:
    """Return what is embedded: the headings that the text does not begin with, then the body."""
    missing = [title for title in passage.heading if not passage.text.startswith(title)]
    body = body_text(passage.context, passage.text)
    return f"{heading_text(tuple(missing))}\n{body}" if missing else body


def content_hash(passage: Passage) -> bytes:
    """Return the same 16 bytes for passages of which the same text is embedded."""
    encoded = embedded_text(passage).encode("utf-8", "replace")
    return hashlib.blake2b(encoded, digest_size=16).digest()
