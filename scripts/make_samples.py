"""Write the binary sample documents, the annual report (PDF) and the handbook (DOCX).

The other samples are text files and are kept as they are. Run it after a change here:

    python scripts/make_samples.py [FOLDER]

The output does not depend on the day it is made.
"""

from __future__ import annotations

import io
import re
import sys
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import docx
from docx.document import Document as WordDocument
from docx.shared import Pt
from fpdf import FPDF
from fpdf.fonts import FontFace

FOLDER = Path(__file__).parent.parent / "examples" / "documents"
MADE_AT = datetime(2026, 2, 2, 9, 0, tzinfo=UTC)
PAGE_SIZE_MM = (148, 210)
SOFT_HYPHEN = "\u00ad"
# Where the typesetter may break a word: between two consonants with a vowel on either side.
BREAK = re.compile(
    r"(?<=[a-z]{2}[aeiou][bcdfgklmnprstv])(?=[bcdfgklmnprstv][aeiou][a-z])"
    r"|(?<=[a-z]{3}[aeiou])(?=[bcdfglmnprstv][aeiou][a-z]{2})"
)

Section = tuple[str, Sequence[str]]

REPORT_SUMMARY: Sequence[Section] = (
    (
        "1. The year in brief",
        (
            "In 2025 the observatory welcomed 18,462 visitors, 11 per cent more than in the "
            "previous year and the highest number since it was reopened in 1987. Of these, 2,916 "
            "came to one of the 81 observing nights, and 4,207 were pupils who came with their "
            "schools. The busiest day was the open day at the summer solstice, with 640 visitors.",
            "Clouds were less kind than our visitors. Only 46 of the 81 observing nights had a "
            "clear sky for at least an hour; on the others the evening was moved to the lecture "
            "room. We handed out 1,190 vouchers for a second night, and 702 of them have been "
            "used.",
            "The trustees thank the 74 active volunteers, who gave 9,350 hours of their time. "
            "Without them the observatory could open on two days a week at most.",
        ),
    ),
    (
        "2. The dome",
        (
            "The refurbishment of the main dome was the largest task of the year. Its copper "
            "skin, laid in 1923, had begun to leak at the northern seam. Between 30 June and 19 "
            "September the firm Aldous Roofing replaced 62 of the 96 copper panels. The work cost "
            "118,400 pounds, 6,400 pounds more than planned, because the wooden ribs below the "
            "seam had to be treated for rot. A well-known sight, the green streak above the "
            "door, is gone; the weather vane was gilded again and put back on 11 October.",
            "During the work the Marlowe refractor was covered, but it was not dismounted. The "
            "daily views of the Sun were given with a portable telescope on the lawn, and the "
            "Heron reflector in the sliding-roof hut went on with its research.",
        ),
    ),
)
REPORT_RESEARCH: Sequence[Section] = (
    (
        "3. Research",
        (
            "Observations with the Heron reflector led to the discovery of three variable stars in "
            "the constellation Lynx. They were found by the volunteer Margaret Oyelaran in "
            "archived frames of 2021 to 2024 and confirmed by photometry on eleven nights. The "
            "results were submitted to the national register of variable stars in October.",
            "The team timed 61 asteroid occultations, of which 17 showed the asteroid pass in "
            "front of the star. On 8 February the asteroid (481) Emita hid its star for 7.3 "
            "seconds, the longest occultation ever timed at Larkfield.",
        ),
    ),
    (
        "4. Education",
        (
            "One hundred and twelve school classes visited the exhibition. The spectroscopy "
            "lesson, new in 2025, was booked by 58 of them. The education officer, Hannah "
            "Vries, also took the portable planetarium to nine village halls.",
        ),
    ),
)
FINANCES = (
    ("Item", "2024 (pounds)", "2025 (pounds)"),
    ("Tickets", "131,200", "148,900"),
    ("Shop and cafe", "38,700", "44,300"),
    ("Donations and grants", "61,000", "139,500"),
    ("Total income", "230,900", "332,700"),
    ("Staff", "142,600", "149,800"),
    ("Dome refurbishment", "4,100", "118,400"),
    ("Maintenance and electricity", "41,300", "39,600"),
    ("Total expenditure", "188,000", "307,800"),
)
REPORT_FINANCES: Sequence[Section] = (
    (
        "5. Finances",
        (
            "Income rose to 332,700 pounds. The increase is due to the grant of 75,000 pounds that "
            "the Tarrant Trust made towards the dome, and to the higher number of visitors. The "
            "year ended with a surplus of 24,900 pounds, which was added to the reserves.",
        ),
    ),
)
REPORT_OUTLOOK: Sequence[Section] = (
    (
        "6. Outlook",
        (
            "In 2026 the remaining 34 copper panels will be replaced, at an expected cost of "
            "57,000 pounds, of which 30,000 pounds have been raised. The control desk of the "
            "Marlowe refractor will get a new encoder for right ascension, so that the error "
            "known as E12 should become a thing of the past. An additional observing night, on "
            "Thursdays in December, will be tried out.",
            "Signed for the trustees by the chair, Rosalind Achterberg, on 2 February 2026.",
        ),
    ),
)


class Report(FPDF):
    """Pages with a running header and a page number."""

    def header(self) -> None:
        """Print the running header."""
        self.set_font("Times", "I", 9)
        self.cell(0, 6, "Larkfield Observatory Trust - Annual Report 2025", align="C")
        self.ln(12)

    def footer(self) -> None:
        """Print the page number."""
        self.set_y(-15)
        self.set_font("Times", size=9)
        self.cell(0, 6, f"Page {self.page_no()} of {{nb}}", align="C")


def main() -> None:
    """Write both files."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    (folder / "annual-report-2025.pdf").write_bytes(annual_report())
    (folder / "volunteer-handbook.docx").write_bytes(handbook())


def annual_report() -> bytes:
    """Return the annual report as PDF."""
    report = Report(format=PAGE_SIZE_MM)
    report.set_creation_date(MADE_AT)
    report.set_title("Annual Report 2025")
    report.set_margins(17, 12)
    report.set_auto_page_break(True, margin=20)
    report.add_page()
    _title(report, "Annual Report 2025", size=20)
    _sections(report, REPORT_SUMMARY)
    report.add_page()
    _sections(report, REPORT_RESEARCH)
    report.add_page()
    _sections(report, REPORT_FINANCES)
    _finances(report)
    _sections(report, REPORT_OUTLOOK)
    return bytes(report.output())


def _title(report: FPDF, text: str, *, size: int) -> None:
    report.set_font("Times", "B", size)
    report.multi_cell(0, size * 0.5, text, new_x="LMARGIN", new_y="NEXT")
    report.ln(2)


def _sections(report: FPDF, sections: Sequence[Section]) -> None:
    for title, paragraphs in sections:
        _title(report, title, size=14)
        report.set_font("Times", size=11)
        for paragraph in paragraphs:
            text = _hyphenate(paragraph)
            report.multi_cell(0, 5.5, text, align="L", new_x="LMARGIN", new_y="NEXT")
            report.ln(3)


def _hyphenate(text: str) -> str:
    return BREAK.sub(SOFT_HYPHEN, text)


def _finances(report: FPDF) -> None:
    report.set_font("Times", "I", 10)
    report.cell(0, 6, "Table 1: Income and expenditure", new_x="LMARGIN", new_y="NEXT")
    report.set_font("Times", size=10)
    plain = FontFace(emphasis="")
    with report.table(col_widths=(50, 30, 30), headings_style=plain, line_height=6) as table:
        for cells in FINANCES:
            table.row(cells)
    report.ln(4)


def handbook() -> bytes:
    """Return the volunteer handbook as DOCX."""
    document = docx.Document()
    document.styles["Normal"].font.size = Pt(11)
    document.core_properties.created = document.core_properties.modified = MADE_AT
    document.core_properties.author = "Larkfield Observatory Trust"
    document.core_properties.title = "Volunteer handbook"
    document.sections[0].header.paragraphs[0].text = "Volunteer handbook, edition 4"
    document.add_heading("Volunteer handbook", level=0)
    document.add_paragraph(
        "Thank you for giving your time to Larkfield Observatory. This handbook tells you what we "
        "expect from you and what you can expect from us. Your contact is the volunteer "
        "coordinator, Priya Nandan, who is in the office behind the shop on Wednesdays and "
        "Saturdays."
    )
    _joining(document)
    _shifts(document)
    _safety(document)
    _expenses(document)
    return _with_fixed_times(document)


def _joining(document: WordDocument) -> None:
    document.add_heading("Joining", level=1)
    document.add_paragraph(
        "Volunteers must be at least 16 years old; those under 18 need the written consent of a "
        "parent and do not work after 21:00. Everyone begins with a trial period of eight weeks, "
        "at the end of which you and the coordinator decide together whether to go on."
    )
    document.add_heading("Training", level=2)
    document.add_paragraph("Before your first shift alone you complete four modules:")
    for module in (
        "Welcome and history of the observatory (two hours)",
        "Safety in the dark, with a walk through the dome without light (90 minutes)",
        "First aid, renewed every three years (one day)",
        "The Marlowe refractor: starting up, pointing, closing (three evenings)",
    ):
        document.add_paragraph(module, style="List Number")
    document.add_paragraph(
        "The Heron reflector is taught separately, and only to volunteers who have worked at least "
        "40 hours in the dome. You may not operate a telescope on the strength of having watched."
    )


def _shifts(document: WordDocument) -> None:
    document.add_heading("Shifts", level=1)
    document.add_paragraph(
        "A shift lasts four hours, with a break of twenty minutes. We ask for at least two "
        "shifts a month. Please sign up by the 20th of the month before; if you cannot come, "
        "tell the coordinator at least 24 hours ahead, so that someone can take your place."
    )
    document.add_paragraph("Roles on an observing night", style="Caption")
    rows = (
        ("Role", "People", "Arrive at", "Main task"),
        ("Host", "2", "18:45", "check tickets, explain the rules of the dome"),
        ("Telescope operator", "1", "18:15", "open the dome, point the Marlowe refractor"),
        ("Stair guide", "1", "19:00", "stand at the 31 steps with a red torch"),
        ("Car park warden", "1", "18:45", "keep headlights dipped, count free spaces"),
    )
    table = document.add_table(rows=0, cols=4, style="Table Grid")
    for row in rows:
        for cell, text in zip(table.add_row().cells, row, strict=True):
            cell.text = text
    document.add_paragraph(
        "With more than 25 visitors a third host is called in. The duty astronomer decides whether "
        "the dome opens; nobody else may overrule the weather limits, not even the trustees."
    )


def _safety(document: WordDocument) -> None:
    document.add_heading("Safety", level=1)
    document.add_heading("In the dome", level=2)
    for rule in (
        "Use red light only. Spare red torches hang beside the door; return them after the shift.",
        "Never leave visitors alone on the observing floor.",
        "Keep hands off the dome track while the dome turns.",
    ):
        document.add_paragraph(rule, style="List Bullet")
    document.add_heading("Emergencies", level=2)
    document.add_paragraph(
        "In an emergency switch on the white lights with the yellow switch at the top of the "
        "stairs, stop the dome with the red button, and lead visitors to the assembly point at the "
        "flagpole. The first-aid box and the defibrillator are in the entrance hall, left of the "
        "ticket desk. The postcode for the ambulance is written on the inside of the door."
    )
    document.add_heading("Lost children", level=2)
    document.add_paragraph(
        "Stay with the child at the place where you found it, and send a second volunteer to the "
        "ticket desk. Two volunteers stay with the child until the family is found. Do not "
        "announce the name of the child over the loudspeaker."
    )


def _expenses(document: WordDocument) -> None:
    document.add_heading("Expenses and thanks", level=1)
    document.add_paragraph(
        "We refund bus fares in full and 0.38 pounds for each kilometre driven, up to 60 "
        "kilometres a shift. Hand in receipts within three months. After 50 hours you receive a "
        "free annual pass for two people, and after 500 hours you may name one of the chairs in "
        "the lecture room. The volunteers' supper is held on the first Friday of December."
    )


def _with_fixed_times(document: WordDocument) -> bytes:
    """Return the file with the date of every archive member set to ``MADE_AT``."""
    saved, fixed = io.BytesIO(), io.BytesIO()
    document.save(saved)
    with zipfile.ZipFile(saved) as source, zipfile.ZipFile(fixed, "w") as target:
        for name in source.namelist():
            member = zipfile.ZipInfo(name, MADE_AT.timetuple()[:6])
            member.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(member, source.read(name))
    return fixed.getvalue()


if __name__ == "__main__":
    main()
