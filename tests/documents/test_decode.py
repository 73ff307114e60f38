import codecs
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.documents.decode import decode
from readahead.errors import DocumentError

SIMPLIFIED = "天文台每周三至周日开放，成人票九英镑，学生票六英镑半。请提前预约。"
TRADITIONAL = "天文臺每週三至週日開放，成人票九英鎊，學生票六英鎊半。請提前預約。"
WESTERN = "Café “Étoile” – geöffnet für Größen, naïve façade."
JUNK = bytes(range(256)) * 20


def decoded(data: bytes, declared: str | None = None) -> tuple[str, dict[str, int]]:
    removed: Counter[str] = Counter()
    return decode(data, removed, declared=declared), dict(removed)


@pytest.mark.parametrize("bom_encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_decides_and_goes(bom_encoding: str) -> None:
    assert decoded(SIMPLIFIED.encode(bom_encoding)) == (SIMPLIFIED, {"bom": 1})


def test_a_big_endian_mark_decides_too() -> None:
    data = codecs.BOM_UTF16_BE + WESTERN.encode("utf-16-be")
    assert decoded(data) == (WESTERN, {"bom": 1})


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (SIMPLIFIED, "utf-8"),
        (SIMPLIFIED, "gb18030"),
        (TRADITIONAL, "big5"),
        (WESTERN, "cp1252"),
        ("Opening hours\n" + SIMPLIFIED, "utf-16-le"),
        ("Opening hours\n" + SIMPLIFIED, "utf-16-be"),
    ],
)
def test_encodings_without_a_mark_are_told(text: str, encoding: str) -> None:
    assert decoded(text.encode(encoding)) == (text, {})


def test_a_declared_encoding_is_tried_before_detection() -> None:
    greek = "Ελληνικά"
    assert decoded(greek.encode("iso-8859-7"), "ISO-8859-7") == (greek, {})
    assert decoded(SIMPLIFIED.encode("gbk"), "GB2312") == (SIMPLIFIED, {})


@pytest.mark.parametrize(
    ("text", "encoding", "declared"),
    [
        ("手順①㈱東京", "cp932", "shift_jis"),
        ("手順①㈱東京", "cp932", "Windows-31J"),
        ("펲시와 똠얌꿍을 먹었다", "cp949", "euc-kr"),
        ("펲시와 똠얌꿍을 먹었다", "cp949", "windows-949"),
        ("안녕하세요", "euc-kr", "ks_c_5601-1987"),
        ("สวัสดี ราคา", "cp874", "windows-874"),
        ("Цена билета", "cp1251", "windows-1251"),
    ],
)
def test_a_declared_name_stands_for_what_its_pages_hold(
    text: str, encoding: str, declared: str
) -> None:
    assert decoded(text.encode(encoding), declared) == (text, {})


@pytest.mark.parametrize("declared", ["shift_jis", "euc-jp", "euc-kr"])
def test_what_detection_does_not_know_is_not_guessed(declared: str) -> None:
    data = ("天文台とは何か" * 9).encode(declared) + b"\x8f"
    with pytest.raises(DocumentError, match=f"not valid {declared}, as which it declares itself"):
        decoded(data, declared)


@pytest.mark.parametrize(
    "declared", ["hex", "unicode_escape", "no-such-thing", "windows-99", "utf-8", "big5"]
)
def test_a_declared_encoding_that_does_not_fit_is_passed_over(declared: str) -> None:
    assert decoded(SIMPLIFIED.encode("gb18030"), declared) == (SIMPLIFIED, {})


def test_line_ends_are_made_equal() -> None:
    assert decoded(b"a\r\nb\rc\n") == ("a\nb\nc\n", {})


@pytest.mark.parametrize("data", [JUNK, b"\x00\x01\x02\x03" * 50, b"\x89PNG\r\n\x1a\n" + JUNK])
def test_binary_data_is_named(data: bytes) -> None:
    with pytest.raises(DocumentError, match="not text: binary data"):
        decoded(data)


def test_an_unknown_encoding_is_named() -> None:
    undefined_everywhere = bytes([0x81, 0x20, 0x8D, 0x20, 0x8F, 0x20, 0xFF, 0x20]) * 10
    with pytest.raises(DocumentError, match="encoding not recognised"):
        decoded(undefined_everywhere)


def test_a_stray_nul_does_not_make_a_text_binary() -> None:
    data = b"x" * 5000 + b"\x00" + b"y" * 5000
    assert decoded(data)[0].startswith("xxx")


@given(st.binary())
def test_any_bytes_give_text_or_a_reason(data: bytes) -> None:
    try:
        assert isinstance(decoded(data)[0], str)
    except DocumentError as error:
        assert error.message in ("not text: binary data", "encoding not recognised")


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\ufeff\r")))
def test_utf8_text_comes_back(text: str) -> None:
    assert decoded(text.encode())[0] == text
