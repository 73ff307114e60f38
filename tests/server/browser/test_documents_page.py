"""The library and the viewer in a real browser; what documents hold is shown as text alone."""

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Page, Route, expect

from readahead.knowledge import KnowledgeBase
from readahead.retrieval.index import AddReport
from readahead.server.state import Service

HOSTILE = """<img src="http://192.0.2.1/track.png" onerror="window.pwned=1">

<script>window.pwned = 1</script> A pwned paragraph about quokkas &amp; <b>bold</b>.

<a href="javascript:window.pwned=1">link</a> and <svg onload="window.pwned=1"></svg>
"""
JOBS = re.compile(r"/v1/jobs\?limit")
ELEMENTS = "img, script, a, b:not(.facts *), svg:not(.icon)"
OPEN = """async ([id, span]) => {
    const { openDocument } = await import("/static/viewer.js");
    await openDocument(id, span);
}"""


def test_upload_find_read_delete(
    page: Page, tmp_path: Path, shoot: Callable[[Page, str], None]
) -> None:
    file = tmp_path / "quokka.md"
    file.write_text("# Quokkas\n\nA quokka weighs up to five kilograms.\n", encoding="utf-8")
    page.goto(page.url.split("#")[0] + "#library")
    page.locator("#files").set_input_files(file)
    expect(page.locator(".job")).to_have_attribute("data-status", "done")
    expect(page.locator(".job")).to_contain_text("quokka.md")
    expect(page.locator(".doc")).to_have_count(4)
    page.locator("#find").fill("quokka")
    expect(page.locator(".doc")).to_have_count(1)
    expect(page.locator("#hits")).to_contain_text("five kilograms")
    shoot(page, "library")
    page.locator("#hits button").first.click()
    expect(page.locator("#viewer mark").last).to_contain_text("five kilograms")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Delete quokka.md").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".doc")).to_have_count(1)
    page.get_by_role("button", name="Delete quokka.md").click()
    page.locator("#confirm .danger").click()
    expect(page.locator(".doc")).to_have_count(0)
    page.locator("#find").fill("")
    expect(page.locator(".doc")).to_have_count(3)


def test_a_name_and_a_passage_without_spaces_stay_inside(
    page: Page, service: Service, tmp_path: Path
) -> None:
    file = tmp_path / f"{'W' * 180}.md"
    file.write_text(f"# Cherries\n\nCherries {'x' * 900} end.\n", encoding="utf-8")
    service.tenant().engine.knowledge.add([file])
    page.goto(page.url.split("#")[0] + "#library")
    page.locator("#find").fill("cherries")
    expect(page.locator("#hits button").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("#find").fill("WWW")
    page.locator(".doc .icon-button").first.click()
    assert page.locator("#confirm").evaluate("node => node.scrollWidth <= node.clientWidth")


def test_a_file_that_is_dropped_is_taken(page: Page) -> None:
    page.goto(page.url.split("#")[0] + "#library")
    page.evaluate(
        """() => {
            const data = new DataTransfer();
            data.items.add(new File(["# Wombats\\n\\nWombats dig.\\n"], "wombat.md"));
            const area = document.getElementById("drop");
            area.dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
        }"""
    )
    expect(page.locator(".job")).to_have_attribute("data-status", "done")
    expect(page.get_by_role("button", name="wombat.md", exact=True)).to_be_visible()


def test_a_file_that_is_refused_says_why(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "picture.exe"
    file.write_bytes(b"MZ")
    page.goto(page.url.split("#")[0] + "#library")
    with page.expect_response("**/v1/documents") as answered:
        page.locator("#files").set_input_files(file)
    assert answered.value.status in (400, 415)
    expect(page.locator("#toast")).to_contain_text("exe")


def test_a_document_is_shown_as_text_alone(page: Page, service: Service, tmp_path: Path) -> None:
    file = tmp_path / "<b>hostile<b>.txt"  # plain text: all of it stays
    file.write_text(HOSTILE, encoding="utf-8")
    service.tenant().engine.knowledge.add([file])
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page.url.split("#")[0] + "#library")
    page.locator("#find").fill("quokkas")
    expect(page.locator("#hits")).to_contain_text("<script>")
    for opener in ("#hits button", ".doc .name"):
        if opener == ".doc .name":
            page.locator("#find").fill("hostile")
        page.locator(opener).first.click()
        for text in ("<img src=", "<script>window", "&amp; <b>bold</b>", "<svg onload="):
            expect(page.locator(".viewer-text")).to_contain_text(text)
        assert page.locator(f"#viewer :is({ELEMENTS})").count() == 0
        page.keyboard.press("Escape")
    assert page.locator(f"#view-library :is({ELEMENTS})").count() == 0
    page.evaluate("location.hash = 'chat'")
    page.locator("#question").fill("What about the pwned quokkas?")
    page.keyboard.press("Enter")
    page.locator(".facts").wait_for()
    assert page.evaluate("window.pwned") is None
    assert page.locator(f".turn :is({ELEMENTS})").count() == 0
    assert all("192.0.2.1" not in url for url in asked)


def test_a_span_is_counted_in_code_points(page: Page, service: Service, tmp_path: Path) -> None:
    text = "# 😀 Smiles\n\n😀😀 come before 🇫🇷. The span is here. And 😀 after it.\n"
    file = tmp_path / "smiles.md"
    file.write_text(text, encoding="utf-8")
    service.tenant().engine.knowledge.add([file])
    origin = page.url.split("#")[0].rstrip("/")
    listed = httpx2.get(f"{origin}/v1/documents", params={"query": "smiles"}).json()["data"]
    stored = httpx2.get(f"{origin}/v1/documents/{listed[0]['id']}").json()["text"]
    start = stored.index("The span is here.")
    span = {"start": start, "end": start + len("The span is here.")}
    page.evaluate(OPEN, [listed[0]["id"], span])
    expect(page.locator("#viewer mark")).to_have_text("The span is here.")
    expect(page.locator("#viewer mark")).to_be_in_viewport()
    expect(page.locator("#viewer-place")).to_contain_text("Smiles")


def upload(page: Page, file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    page.locator("#files").set_input_files(file)


def test_why_an_upload_failed_stays_in_other_places_and_languages(
    page: Page, tmp_path: Path
) -> None:
    page.keyboard.press("Alt+l")
    upload(page, tmp_path / "bad.jsonl", "[1]\n")
    job = page.locator(".job")
    expect(job).to_contain_text("bad.jsonl: line 1: not a JSON object")
    page.keyboard.press("Alt+s")
    expect(page.locator("#view-settings h1")).to_be_visible()
    page.keyboard.press("Alt+l")
    expect(job).to_contain_text("bad.jsonl: line 1: not a JSON object")
    page.locator("#language").click()
    expect(job).to_contain_text("bad.jsonl: 第 1 行：不是 JSON 对象")
    expect(job).to_have_count(1)


@pytest.fixture
def indexing(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let uploads wait until the event is set."""
    go_on = threading.Event()
    add_file = KnowledgeBase.add_file

    def waiting(knowledge: KnowledgeBase, *args: Any, **options: Any) -> AddReport:
        go_on.wait(20)
        return add_file(knowledge, *args, **options)

    monkeypatch.setattr(KnowledgeBase, "add_file", waiting)
    yield go_on
    go_on.set()


def test_an_upload_is_followed_through_places_and_reloads(
    page: Page, tmp_path: Path, indexing: threading.Event
) -> None:
    page.keyboard.press("Alt+l")
    upload(page, tmp_path / "quokka.md", "# Quokkas\n\nA quokka is small.\n")
    job = page.locator(".job")
    for leave in (lambda: page.keyboard.press("Alt+s"), page.reload):
        expect(job).to_have_attribute("data-status", "running")
        leave()
        page.evaluate("location.hash = 'chat'")
        page.keyboard.press("Alt+l")
    expect(job).to_have_attribute("data-status", "running")
    expect(page.locator(".doc")).to_have_count(3)
    indexing.set()
    expect(job).to_have_attribute("data-status", "done")
    expect(page.locator(".doc")).to_have_count(4)
    expect(page.locator("#scope option", has_text="quokka.md")).to_have_count(1)


def test_many_uploads_leave_room_for_a_question(
    page: Page, tmp_path: Path, indexing: threading.Event
) -> None:
    """A browser has six connections to a server, whatever they carry."""
    page.keyboard.press("Alt+l")
    for number in range(1, 7):
        upload(page, tmp_path / f"note{number}.md", f"# Note\n\nNote {number}.\n")
        expect(page.locator(".job")).to_have_count(number)
    page.keyboard.press("Alt+c")
    page.locator("#method").select_option("plain")
    page.locator("#question").fill("How deep is Lake Baikal?")
    page.keyboard.press("Enter")
    page.locator(".facts").wait_for()
    assert not indexing.is_set()
    indexing.set()
    page.keyboard.press("Alt+l")
    expect(page.locator(".job[data-status=done]")).to_have_count(6, timeout=20_000)


def test_an_upload_is_asked_after_again_where_that_failed(
    page: Page, tmp_path: Path, indexing: threading.Event
) -> None:
    asked: list[Route] = []

    def ask_after(route: Route) -> None:
        asked.append(route)
        if len(asked) == 2:
            indexing.set()
        if len(asked) == 1:
            route.abort()
        else:
            route.continue_()

    page.route(JOBS, ask_after)
    page.keyboard.press("Alt+l")
    upload(page, tmp_path / "quokka.md", "# Quokkas\n\nA quokka is small.\n")
    expect(page.locator(".job")).to_have_attribute("data-status", "done", timeout=20_000)
    assert len(asked) >= 2
    expect(page.locator(".doc")).to_have_count(4)


def test_an_upload_tells_how_far_it_is_within_a_file(
    page: Page, tmp_path: Path, indexing: threading.Event
) -> None:
    def tell(route: Route) -> None:
        (job,) = route.fetch().json()["data"]
        now = {**job, "status": "running", "to_encode": 1400, "encoded": 350}
        route.fulfill(json={"data": [now]})

    page.keyboard.press("Alt+l")
    page.route(JOBS, tell)
    upload(page, tmp_path / "quokka.md", "# Quokkas\n\nA quokka is small.\n")
    expect(page.locator(".job")).to_contain_text("350 of 1,400 passages")
    assert page.locator(".job progress").evaluate("bar => bar.position") == 0.25
    page.unroute(JOBS)
    indexing.set()
    expect(page.locator(".job")).to_have_attribute("data-status", "done")


def test_an_upload_that_the_server_has_forgotten_goes(page: Page, tmp_path: Path) -> None:
    asked: list[Route] = []
    page.route(JOBS, lambda route: asked.append(route))
    page.keyboard.press("Alt+l")
    with page.expect_request(JOBS):
        upload(page, tmp_path / "quokka.md", "# Quokkas\n\nA quokka is small.\n")
    expect(page.locator(".job")).to_have_count(1)
    asked[0].fulfill(json={"data": []})
    expect(page.locator(".job")).to_have_count(0)


def test_more_documents_that_cannot_be_had_are_complained_of(
    page: Page, service: Service, tmp_path: Path
) -> None:
    files = [tmp_path / f"note{number:02}.md" for number in range(52)]
    for file in files:
        file.write_text(f"# Note\n\nIt is {file.stem}.\n", encoding="utf-8")
    service.tenant().engine.knowledge.add(files)
    page.keyboard.press("Alt+l")
    more = page.get_by_role("button", name="More", exact=True)
    more.wait_for()
    page.route("**/v1/documents*", lambda route: route.abort())
    more.click()
    expect(page.locator("#toast")).to_contain_text("cannot be reached")
    page.unroute("**/v1/documents*")
    more.click()
    expect(page.locator(".doc")).to_have_count(55)
