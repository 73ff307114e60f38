import io

import pytest
from fpdf import FPDF
from PIL import Image

from readahead.documents.parse import parse
from readahead.documents.pdf import read_pdf
from readahead.errors import DocumentError
from tests.documents.conftest import SAMPLES, print_pages, summary

WORDS = "The observatory opens its dome when the sky is clear and the wind is low. "


def test_pages_titles_and_running_lines() -> None:
    data = print_pages(
        [["# Report", WORDS * 3], [WORDS * 2, WORDS], ["# Outlook", WORDS]],
        header=lambda page: "Larkfield Trust",
        footer=lambda page: f"Page {page} of 3",
    )
    document = read_pdf(data).build("x.pdf")
    assert [(kind, text[:7]) for kind, text in summary(document)] == [
        ("title", "Report"),
        ("paragraph", "The obs"),
        ("paragraph", "The obs"),
        ("paragraph", "The obs"),
        ("title", "Outlook"),
        ("paragraph", "The obs"),
    ]
    assert [block.page for block in document.blocks] == [1, 1, 2, 2, 3, 3]
    assert document.removed == {"page_number": 3, "running_header": 3}
    assert document.text.count(WORDS.strip()) == 7


def test_tables_carry_their_header() -> None:
    document = read_pdf((SAMPLES / "annual-report-2025.pdf").read_bytes()).build("x")
    (table,) = [text for kind, text in summary(document) if kind == "table"]
    assert table.split("\n")[:3] == [
        "| Item | 2024 (pounds) | 2025 (pounds) |",
        "|---|---|---|",
        "| Tickets | 131,200 | 148,900 |",
    ]
    assert document.text.count("131,200") == 1


def test_broken_words_are_mended() -> None:
    document = read_pdf((SAMPLES / "annual-report-2025.pdf").read_bytes()).build("x")
    assert "found by the volunteer Margaret" in document.text
    assert "A well-known sight" in document.text
    assert document.removed["hyphenation"] == 3


def image_only() -> bytes:
    printer = FPDF()
    printer.add_page()
    printer.image(Image.new("RGB", (40, 40), "gray"))
    return bytes(printer.output())


def encrypted(user_password: str) -> bytes:
    printer = FPDF()
    printer.set_encryption(owner_password="owner", user_password=user_password)
    printer.add_page()
    printer.set_font("Times", size=11)
    printer.cell(0, 6, "for your eyes only")
    return bytes(printer.output())


def test_a_scan_has_no_text_layer() -> None:
    with pytest.raises(DocumentError, match="no text layer"):
        read_pdf(image_only())


def test_a_password_is_named() -> None:
    with pytest.raises(DocumentError, match="encrypted"):
        read_pdf(encrypted("secret"))


def test_a_file_that_only_forbids_printing_opens() -> None:
    assert read_pdf(encrypted("")).build("x").text == "for your eyes only"


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_file_gives_text_or_a_reason(share: float) -> None:
    data = (SAMPLES / "annual-report-2025.pdf").read_bytes()
    try:
        documents = parse(data[: int(share * len(data))], "x.pdf", max_unpacked_bytes=2**20)
    except DocumentError as error:
        assert error.message == "no text layer" or "not readable as pdf" in error.message
    else:
        summary(documents[0])


def test_what_is_no_pdf_is_named() -> None:
    with pytest.raises(DocumentError, match="not readable as pdf"):
        parse(io.BytesIO(b"hello" * 100).read(), "x.pdf", max_unpacked_bytes=2**20)
