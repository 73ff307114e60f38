"""How a vocabulary writes the bytes of a token; knows no tokenizer."""

from __future__ import annotations

import re
from functools import lru_cache

_SPACE = "\u2581"  # SentencePiece's sign for it
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def bytes_of(written: str, *, by_byte: bool) -> bytes:
    """Return the bytes that a vocabulary's entry stands for.

    Args:
        written: The entry, for instance ``Ġthe``, ``▁the`` or ``<0xE6>``.
        by_byte: Whether each character stands for a byte, as in GPT-2's vocabulary.   [Radford19]
    """
    if by_byte:
        table = _byte_table()
        return bytes(table[char] for char in written if char in table)
    if found := _BYTE.fullmatch(written):
        return bytes([int(found[1], 16)])
    return written.replace(_SPACE, " ").encode("utf-8", "replace")


def spelled(token: bytes) -> str:
    """Return a token as a string; half a character as ``bytes:`` and its bytes.

    The form is that of OpenAI's completions: a backslash, x and two digits a byte.   [OpenAI]
    """
    try:
        return token.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token)


@lru_cache(maxsize=1)
def _byte_table() -> dict[str, int]:
    """Return which byte each character of a vocabulary by bytes stands for.

    Bytes that print stand for themselves; the others follow in order from U+0100 on.
    """
    printing = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printing)
    return {chr(byte): byte for byte in printing} | {
        chr(256 + place): byte for place, byte in enumerate(others)
    }
