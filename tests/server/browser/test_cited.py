"""Documents opened where something cites them: at the span, or with a word that it has changed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from readahead.server.state import Service
from tests.documents.conftest import print_pages
from tests.server.browser.conftest import answer_with
from tests.server.browser.test_audit import DRAFTS, made
from tests.server.browser.test_chatting import QUESTION, ask
from tests.server.browser.test_documents_page import OPEN
from tests.server.browser.test_kept import hit_of
from tests.server.conftest import TEXTS

OPENED = """async (audit) => {
    const { auditPanel } = await import("/static/audit.js");
    const { openDocument } = await import("/static/viewer.js");
    const open = (citation) => openDocument(citation.document_id, citation);
    document.getElementById("turn-list").replaceChildren(auditPanel(audit, open));
}"""
CHANGED = "The document has changed since it was cited; it no longer says this here."


def replace_lake(service: Service, folder: Path, before: str) -> None:
    title, text = TEXTS["lake.md"].split("\n\n", 1)
    (folder / "lake.md").write_text(f"{title}\n\n{before}\n\n{text}", encoding="utf-8")
    service.tenant().engine.knowledge.add([folder / "lake.md"])


@pytest.mark.parametrize("before", ["A page of another site.", "😀" * 20])
def test_a_document_that_was_replaced_marks_nothing(
    page: Page, service: Service, served: str, tmp_path: Path, before: str
) -> None:
    hit = hit_of(served, "deepest lake 1,642")
    page.evaluate(OPEN, [hit["document_id"], hit])
    expect(page.locator("#viewer mark").first).to_be_visible()
    expect(page.locator("#viewer .changed")).to_have_count(0)
    replace_lake(service, tmp_path, before)
    page.evaluate(OPEN, [hit["document_id"], hit])
    expect(page.locator("#viewer .changed")).to_have_text(CHANGED)
    expect(page.locator("#viewer mark")).to_have_count(0)
    expect(page.locator("#viewer")).to_contain_text(before)
    conflict = {name: hit[name] for name in ("passage_id", "start", "end")}  # it has no text
    page.evaluate(OPEN, [hit["document_id"], conflict])
    expect(page.locator("#viewer .changed")).to_have_text(CHANGED)


def test_what_contradicts_opens_at_its_span(page: Page, served: str) -> None:
    hit = hit_of(served, "deepest lake 1,642")
    start = hit["start"]
    assert isinstance(start, int)
    span = {"passage_id": hit["passage_id"], "start": start, "end": start + 4}
    page.evaluate(OPEN, [hit["document_id"], span])
    expect(page.locator("#viewer mark")).to_have_count(1)
    expect(page.locator("#viewer .changed")).to_have_count(0)


def test_a_citation_of_a_pdf_names_its_page(
    page: Page, service: Service, served: str, tmp_path: Path, shoot: Callable[[Page, str], None]
) -> None:
    words = "The observatory opens its dome when the sky is clear. "
    pages = [["# Report", words * 3], [words * 2], ["# Quokkas", "A quokka weighs five kilograms."]]
    footed = print_pages(pages, footer=lambda page: f"Page {page} of 3")
    (tmp_path / "report.pdf").write_bytes(footed)
    service.tenant().engine.knowledge.add([tmp_path / "report.pdf"])
    hit = hit_of(served, "quokka weighs")
    answer_with(page, "Five kilograms. [1]", [hit])
    ask(page, "What does a quokka weigh?")
    expect(page.locator(".source .place")).to_contain_text("report.pdf · page 3")
    expect(page.locator(".cite")).to_have_attribute("aria-label", f"Source 1: {place_of(page)}")
    page.locator(".cite").click()
    expect(page.locator("#viewer mark").last).to_contain_text("five kilograms")
    expect(page.locator("#viewer-place")).to_contain_text("page 3")
    expect(page.locator(".page-mark")).to_have_text(["page 1", "page 2", "page 3"])
    expect(page.locator("#viewer .viewer-head")).to_contain_text("Cleaned away: page numbers 3")
    shoot(page, "pdf")


def place_of(page: Page) -> str:
    return page.locator(".source .place").inner_text()


def test_what_was_cleaned_away_is_told(page: Page, service: Service, tmp_path: Path) -> None:
    html = "<nav><a href='/'>Home</a></nav><h1>Bats</h1><script>1</script><p>Bats sleep.</p>"
    (tmp_path / "bats.html").write_text(html, encoding="utf-8")
    service.tenant().engine.knowledge.add([tmp_path / "bats.html"])
    page.keyboard.press("Alt+l")
    row = page.locator(".doc", has_text="bats.html")
    expect(row).to_contain_text("Cleaned away: navigation 1, scripts 1")
    expect(page.locator(".doc", has_text="lake.md")).not_to_contain_text("Cleaned away")
    page.locator("#language").click()
    expect(row).to_contain_text("导航")


def test_evidence_of_the_audit_opens(page: Page, served: str) -> None:
    hit = hit_of(served, "deepest lake 1,642")
    shown = made(threshold=0.01, also=0.99)
    candidates = shown["candidates"]
    drafts = shown["drafts"]
    assert isinstance(candidates, list) and isinstance(drafts, list) and len(DRAFTS) == len(drafts)
    candidates[0] |= {"answer": "1,642 Metres", "evidence": [hit]}
    drafts[0]["rationale"] = "It says: <b>1,642 metres</b>."
    page.evaluate(OPENED, shown)
    best = page.locator(".candidate").first
    expect(best.locator("blockquote")).to_have_text("It says: <b>1,642 metres</b>.")
    expect(best.locator("blockquote")).to_have_attribute("aria-label", "Rationale")
    expect(best.locator(".evidence mark")).to_have_text("1,642 metres")
    expect(best.locator(".evidence .place")).to_contain_text("lake.md")
    best.locator(".evidence").click()
    expect(page.locator("#viewer mark").last).to_contain_text("1,642 metres deep")


def test_an_abstention_shows_what_was_looked_at(
    page: Page, shoot: Callable[[Page, str], None]
) -> None:
    page.locator("#method").select_option("drafts")
    ask(page)
    box = page.get_by_role("region", name="No answer")
    expect(box).to_contain_text("What follows was read, and the answer was not found in it.")
    expect(page.locator(".sources-title")).to_have_text("What was looked at")
    source = page.locator(".source").first
    expect(source).to_contain_text("lake.md")
    expect(source).to_contain_text("1,642 metres deep")
    shoot(page, "looked-at")
    source.click()
    expect(page.locator("#viewer mark").last).to_contain_text("1,642 metres deep")


def test_pointing_at_the_timeline_explains(page: Page) -> None:
    page.locator("#method").select_option("plain")
    ask(page, QUESTION)
    page.locator(".show-timeline").click()
    explain = page.locator(".explain")
    before = explain.inner_text()
    page.locator(".timeline .lane-decode.item").first.hover()
    expect(explain).not_to_have_text(before)
    expect(explain).to_contain_text("Decode")
    page.locator(".timeline .lane-retrieval.item").first.hover()
    expect(explain).not_to_contain_text("Decode")
