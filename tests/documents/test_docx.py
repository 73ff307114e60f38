import pytest
from docx.document import Document as WordDocument
from docx.enum.style import WD_STYLE_TYPE
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls, qn

from readahead.documents.docx import read_docx
from readahead.documents.parse import parse
from readahead.errors import DocumentError
from readahead.types import Document
from tests.documents.conftest import SAMPLES, replace_member, save_docx, summary

LIMIT = 2**22
MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"


def read(word: WordDocument) -> Document:
    return read_docx(save_docx(word), max_unpacked_bytes=LIMIT).build("x.docx")


def test_headings_lists_tables_and_captions_in_body_order(word: WordDocument) -> None:
    word.add_heading("Handbook", 0)
    word.add_heading("Shifts", 1)
    word.add_paragraph("Text\nline")
    for text in ("one", "two"):
        word.add_paragraph(text, style="List Number")
    word.add_paragraph("inner", style="List Bullet 2")
    word.add_paragraph("Roles", style="Caption")
    table = word.add_table(2, 2)
    for cell, text in zip(table._cells, ("A", "B", "1", "2|3"), strict=True):
        cell.text = text
    word.add_heading("Part", 2)
    document = read(word)
    assert summary(document) == [
        ("title", "Handbook"),
        ("title", "Shifts"),
        ("paragraph", "Text\nline"),
        ("list", "1. one\n2. two\n- inner"),
        ("caption", "Roles"),
        ("table", "| A | B |\n|---|---|\n| 1 | 2\\|3 |"),
        ("title", "Part"),
    ]
    assert [block.level for block in document.blocks if block.level] == [1, 2, 3]
    assert document.blocks[-1].heading == ("Handbook", "Shifts", "Part")


def test_merged_cells_are_filled(word: WordDocument) -> None:
    table = word.add_table(3, 3)
    for number, cell in enumerate(table._cells):
        cell.text = str(number)
    table.cell(1, 0).merge(table.cell(2, 0))
    table.cell(0, 1).merge(table.cell(0, 2))
    assert summary(read(word))[0][1].split("\n") == [
        "| 0 | 1 2 |  |",
        "|---|---|---|",
        "| 3 6 | 4 | 5 |",
        "| 3 6 | 7 | 8 |",
    ]


def test_a_table_of_one_column_is_read_through(word: WordDocument) -> None:
    cell = word.add_table(1, 1).cell(0, 0)
    cell.text = "boxed"
    cell.add_paragraph("items", style="List Bullet")
    assert summary(read(word)) == [("paragraph", "boxed"), ("list", "- items")]


def test_inserted_text_is_read_and_deleted_or_hidden_text_is_not(word: WordDocument) -> None:
    paragraph = word.add_paragraph("kept ")
    paragraph.add_run("hidden").font.hidden = True
    for markup in (
        "<w:ins {}><w:r><w:t>inserted</w:t></w:r></w:ins>",
        "<w:del {}><w:r><w:delText>deleted</w:delText></w:r></w:del>",
    ):
        paragraph._p.append(parse_xml(markup.format(nsdecls("w"))))
    document = read(word)
    assert summary(document) == [("paragraph", "kept inserted")]
    assert document.removed == {"hidden": 1}


def test_text_that_a_style_hides_is_not_read(word: WordDocument) -> None:
    for kind in (WD_STYLE_TYPE.CHARACTER, WD_STYLE_TYPE.PARAGRAPH):
        base, derived, shown = (
            word.styles.add_style(f"{name} {kind}", kind) for name in ("Base", "Derived", "Shown")
        )
        derived.base_style = shown.base_style = base
        base.font.hidden, shown.font.hidden = True, False
        base.element.append(parse_xml(f'<w:basedOn {nsdecls("w")} w:val="{derived.style_id}"/>'))
        for style in (base, derived, shown):
            paragraph = word.add_paragraph("a")
            if kind == WD_STYLE_TYPE.PARAGRAPH:
                paragraph.style = style
                paragraph.add_run("own").font.hidden = False
            else:
                paragraph.add_run("b", style)
    document = read(word)
    assert [text for _, text in summary(document)] == ["a", "a", "ab", "own", "own", "aown"]
    assert document.removed == {"hidden": 4}


def test_two_styles_that_hide_cancel_each_other_out(word: WordDocument) -> None:
    outer = word.styles.add_style("Outer", WD_STYLE_TYPE.PARAGRAPH)
    inner = word.styles.add_style("Inner", WD_STYLE_TYPE.CHARACTER)
    outer.font.hidden = inner.font.hidden = True
    word.add_paragraph("hidden", outer).add_run("shown", inner)
    assert summary(read(word)) == [("paragraph", "shown")]


def test_the_default_style_may_hide(word: WordDocument) -> None:
    word.styles["Normal"].font.hidden = True
    word.add_paragraph("hidden").add_run("shown").font.hidden = False
    assert summary(read(word)) == [("paragraph", "shown")]


def test_hiding_may_be_switched_off(word: WordDocument) -> None:
    run = word.add_paragraph().add_run("shown")
    run.font.hidden = True
    run.element.get_or_add_rPr()[0].set(qn("w:val"), "off")
    assert summary(read(word)) == [("paragraph", "shown")]


def test_a_text_box_is_read_once(word: WordDocument) -> None:
    box = "<w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent>"
    namespace = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    markup = (
        f"<w:r {nsdecls('w')} {namespace}><mc:AlternateContent>"
        f'<mc:Choice Requires="wps">{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback>'
        "</mc:AlternateContent></w:r>"
    )
    word.add_paragraph("host")._p.append(parse_xml(markup))
    assert summary(read(word)) == [("paragraph", "host\nboxed")]


CELL = "<w:tc><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc>"
CONTROL = "<w:sdt><w:sdtContent>{}</w:sdtContent></w:sdt>"


def test_cells_and_rows_in_content_controls_are_read(word: WordDocument) -> None:
    fee = CONTROL.format(CONTROL.format(CELL.format("30")))
    rows = (
        f"<w:tr>{CELL.format('Name')}{CELL.format('Fee')}</w:tr>",
        f"<w:tr>{CELL.format('Adult')}{fee}</w:tr>",
        CONTROL.format(f"<w:tr>{CELL.format('Child')}{CELL.format('9')}</w:tr>"),
    )
    markup = f"<w:tbl {nsdecls('w')}>{''.join(rows)}</w:tbl>"
    word.element.body.insert(0, parse_xml(markup))
    assert summary(read(word)) == [
        ("table", "| Name | Fee |\n|---|---|\n| Adult | 30 |\n| Child | 9 |")
    ]


def test_moved_text_stands_where_it_was_moved_to(word: WordDocument) -> None:
    run = "<w:r><w:t>moved</w:t></w:r>"
    for place, tag in (("from here: ", "moveFrom"), ("to here: ", "moveTo")):
        markup = f"<w:{tag} {nsdecls('w')}>{run}</w:{tag}>"
        word.add_paragraph(place)._p.append(parse_xml(markup))
    document = read(word)
    assert document.text == "from here:\n\nto here: moved"


@pytest.mark.parametrize(
    ("markup", "kind"),
    [
        ('<w:r {}><w:footnoteReference w:id="2"/></w:r>', "note"),
        ('<w:r {}><w:endnoteReference w:id="2"/></w:r>', "note"),
        (f'<m:oMath xmlns:m="{MATH}" {{}}><m:r><m:t>a=b</m:t></m:r></m:oMath>', "formula"),
    ],
)
def test_what_is_not_read_is_counted(word: WordDocument, markup: str, kind: str) -> None:
    word.add_paragraph("text")._p.append(parse_xml(markup.format(nsdecls("w"))))
    document = read(word)
    assert summary(document) == [("paragraph", "text")]
    assert document.removed == {kind: 1}


def test_a_content_control_is_read_and_a_table_of_contents_is_not(word: WordDocument) -> None:
    control = "<w:sdt {}>{}<w:sdtContent><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:sdtContent></w:sdt>"
    gallery = '<w:docPartGallery w:val="Table of Contents"/>'
    contents = f"<w:sdtPr><w:docPartObj>{gallery}</w:docPartObj></w:sdtPr>"
    for properties, text in (("", "inside"), (contents, "1 Shifts ... 3")):
        markup = control.format(nsdecls("w"), properties, text)
        word.element.body.insert(0, parse_xml(markup))
    document = read(word)
    assert summary(document) == [("paragraph", "inside")]
    assert document.removed == {"navigation": 1}


def test_page_headers_are_not_part_of_the_body() -> None:
    data = (SAMPLES / "volunteer-handbook.docx").read_bytes()
    assert "edition 4" not in read_docx(data, max_unpacked_bytes=LIMIT).build("x").text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"PK\x03\x04 and nothing more", "broken zip"),
        (b"hello", "broken zip"),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00" * 600,
            "encrypted, or in the old .doc format",
        ),
    ],
)
def test_what_is_no_archive_is_named(data: bytes, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        read_docx(data, max_unpacked_bytes=LIMIT)


def test_half_an_archive_is_a_broken_zip(word: WordDocument) -> None:
    data = save_docx(word)
    with pytest.raises(DocumentError, match="broken zip"):
        read_docx(data[: len(data) // 2], max_unpacked_bytes=LIMIT)


def test_a_zip_bomb_is_refused_before_it_unpacks(word: WordDocument) -> None:
    bomb = replace_member(save_docx(word), "word/document.xml", b" " * 50 * 2**20)
    assert len(bomb) < 2**20
    with pytest.raises(DocumentError, match="unpacks to more than 4 MiB"):
        read_docx(bomb, max_unpacked_bytes=LIMIT)


@pytest.mark.parametrize(
    "xml",
    [
        b"<not><closed>",
        b"",
        b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;">]><x>&b;</x>',
        b"<a>" * 100_000,
    ],
)
def test_broken_xml_is_a_reason(word: WordDocument, xml: bytes) -> None:
    data = replace_member(save_docx(word), "word/document.xml", xml)
    with pytest.raises(DocumentError, match="not readable as docx|no text"):
        parse(data, "x.docx", max_unpacked_bytes=LIMIT)


def test_a_damaged_member_is_a_reason(word: WordDocument) -> None:
    word.add_paragraph("text " * 1000)
    data = bytearray(save_docx(word))
    data[300:2000] = bytes(1700)
    with pytest.raises(DocumentError, match="not readable as docx|broken zip"):
        parse(bytes(data), "x.docx", max_unpacked_bytes=LIMIT)
