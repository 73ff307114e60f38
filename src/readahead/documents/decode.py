"""Turns the bytes of a text file into characters.

This module knows nothing about formats, nor about what the characters mean.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter

from readahead.errors import DocumentError

_BOMS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LEGACY = ["gb18030", "big5", "cp1252"]
# Encodings that a document may declare; the wider ones stand for those they contain. Not UTF-16:
# what declares it in the characters of ASCII is not written in it.
_DECLARABLE = re.compile(
    r"utf-?8|big5(?:-hkscs)?|euc-jp|iso-8859-\d+|cp\d+|koi8-[ru]|gb18030", re.ASCII
)
_WIDER = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso-8859-1": "cp1252",
    "shift_jis": "cp932",
    "windows-31j": "cp932",
    "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949",
}
# Who declares one of these by mistake may mean one that is detected; Korean would become Chinese.
_DETECTABLE = frozenset({"utf-8", "gb18030", "big5", "big5hkscs", "cp1252"})
_COMMON = re.compile(r"[\n\r -~\u3000-\u303f\uff01-\uff60]")  # ASCII, wide punctuation
_MIN_COMMON_SHARE = 0.02
_CONTROL_BYTES = bytes(set(range(0x20)) - set(b"\b\t\n\v\f\r\x1b")) + b"\x7f"
_MAX_CONTROL_SHARE = 0.01


def decode(data: bytes, removed: Counter[str], *, declared: str | None = None) -> str:
    """Return the characters of ``data``, without a byte order mark and with LF line ends.

    Tried in turn: the byte order mark, UTF-16 without one, UTF-8, the encoding that the document
    declares, then detection among GB18030, Big5 and cp1252, unless another one is declared.

    Raises:
        DocumentError: The data is binary, or no encoding fits.
    """
    text = _marked(data, removed)
    if text is None:
        text = _utf16_without_bom(data)
    if text is None:
        _refuse_binary(data)
        text = _eight_bit(data, declared)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _marked(data: bytes, removed: Counter[str]) -> str | None:
    for bom, encoding in _BOMS:
        if data.startswith(bom) and (text := _strict(data, encoding)) is not None:
            removed["bom"] += 1
            return text
    return None


def _refuse_binary(data: bytes) -> None:
    num_control = len(data) - len(data.translate(None, _CONTROL_BYTES))
    if num_control > _MAX_CONTROL_SHARE * len(data):
        raise DocumentError("not text: binary data")


def _strict(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def _eight_bit(data: bytes, declared: str | None) -> str:
    text = _strict(data, "utf-8")
    encoding = _codec(declared or "")
    if text is None and encoding:
        text = _strict(data, encoding)
        if text is None and encoding not in _DETECTABLE:
            raise DocumentError(f"not valid {declared}, as which it declares itself")
    if text is None:
        text = _detected(data)
    if text is None:
        raise DocumentError("encoding not recognised")
    return text


def _codec(declared: str) -> str | None:
    """Return the name of the codec for a declared encoding, None if there is none."""
    name = declared.lower()
    name = _WIDER.get(name, name.replace("windows-", "cp"))
    try:
        return codecs.lookup(name).name if _DECLARABLE.fullmatch(name) else None
    except LookupError:
        return None


def _detected(data: bytes) -> str | None:
    from charset_normalizer import from_bytes

    best = from_bytes(data, cp_isolation=_LEGACY).best()
    return None if best is None else _strict(data, best.encoding)


def _utf16_without_bom(data: bytes) -> str | None:
    """Return the text if it is printable in one byte order and has punctuation in it, else None.

    Spaces, digits and punctuation are in any real text; in the wrong byte order they turn into
    ideographs, and line ends into characters that do not exist.
    """
    if len(data) % 2 or 0 not in data:
        return None
    texts = [_strict(data, encoding) for encoding in ("utf-16-le", "utf-16-be")]
    best = max((text for text in texts if text is not None), key=_num_common, default="")
    is_text = "".join(best.split()).isprintable()
    return best if is_text and _num_common(best) > _MIN_COMMON_SHARE * len(best) else None


def _num_common(text: str) -> int:
    return len(_COMMON.findall(text))
