"""Where the focus goes when what had it goes, and what a screen reader hears of an answer."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from readahead.server.served import ServedSession
from readahead.server.state import Service
from tests.server.browser.conftest import PHONE, Opens
from tests.server.browser.test_chatting import QUESTION, ask
from tests.server.browser.test_documents_page import OPEN
from tests.server.browser.test_reader import slow

__all__ = ["slow"]  # a fixture
HEAR = """() => {
    window.heard = [];
    const live = "[aria-live]:not([aria-live=off]), [role=alert], [role=status]";
    new MutationObserver((changes) => {
        for (const { target } of changes) {
            const place = (target.nodeType === 1 ? target : target.parentElement)?.closest(live);
            if (place && place.textContent) window.heard.push(place.textContent.trim());
        }
    }).observe(document.body, { childList: true, characterData: true, subtree: true });
}"""


def add(service: Service, folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    service.tenant().engine.knowledge.add([folder / name for name in texts])


@pytest.mark.usefixtures("slow")
def test_stopping_leads_back_to_asking(page: Page) -> None:
    page.locator("#question").fill(QUESTION)
    page.locator("#send").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#stop")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".noted")).to_have_text("Stopped.")
    expect(page.locator("#send")).to_be_focused()
    page.get_by_role("button", name="Ask again").press("Enter")
    page.locator(".waiting").wait_for()
    expect(page.locator("#turns")).to_be_focused()


def test_a_suggestion_that_is_pressed_leads_to_the_answers(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(page)
    page.locator(".facts").wait_for()
    monkeypatch.setattr(ServedSession, "suggestions", ("How tall is the Eiffel Tower?",))
    page.locator("#suggestions button").press("Enter")
    expect(page.locator(".asked")).to_have_count(2)
    expect(page.locator("#turns")).to_be_focused()


def test_removing_from_the_history_leads_to_the_next(page: Page) -> None:
    page.locator("#method").select_option("plain")
    for question in ("How deep is the lake?", "How tall is the tower?"):
        ask(page, question)
        page.locator(".facts").wait_for()
        page.keyboard.press("Alt+n")
    expect(page.locator("#past li")).to_have_count(2)
    page.get_by_role("button", name="Remove from the history: How tall").press("Enter")
    left = page.get_by_role("button", name="Remove from the history: How deep")
    expect(left).to_be_focused()
    left.press("Enter")
    expect(page.locator("#new-chat")).to_be_focused()


def test_the_drawer_of_a_phone_gives_the_focus_back(opens: Opens) -> None:
    page = opens(PHONE)
    page.locator("#menu").press("Enter")
    expect(page.locator("#new-chat")).to_be_focused()
    page.locator("#side").get_by_role("link", name="Library").press("Enter")
    expect(page.locator("#view-library")).to_be_visible()
    expect(page.locator("#menu")).to_be_focused()


def test_more_documents_lead_to_the_first_of_them(
    page: Page, service: Service, tmp_path: Path
) -> None:
    add(service, tmp_path, {f"note{n:02}.md": f"# Note {n}\n\nIt is {n}.\n" for n in range(52)})
    page.keyboard.press("Alt+l")
    expect(page.locator(".doc")).to_have_count(50)
    page.get_by_role("button", name="More", exact=True).press("Enter")
    expect(page.locator(".doc")).to_have_count(55)
    expect(page.locator(".doc .name").nth(50)).to_be_focused()


def test_more_of_a_document_moves_nothing(page: Page, service: Service, tmp_path: Path) -> None:
    paragraphs = [f"Paragraph {n} of a long text." for n in range(200)]
    add(service, tmp_path, {"long.txt": "\n\n".join(paragraphs)})
    (listed,) = page.request.get(f"{page.url}v1/documents?query=long").json()["data"]
    text = page.request.get(f"{page.url}v1/documents/{listed['id']}").json()["text"]
    start = text.index("Paragraph 100")
    page.evaluate(OPEN, [listed["id"], {"start": start, "end": start + 13}])
    earlier = page.get_by_role("button", name="Show what comes before")
    earlier.scroll_into_view_if_needed()
    below = page.get_by_text("Paragraph 71 of")
    before = below.bounding_box()
    earlier.press("Enter")
    expect(page.get_by_text("Paragraph 20 of")).to_be_attached()
    after = below.bounding_box()
    assert before and after and abs(before["y"] - after["y"]) < 60  # the button's own height
    expect(page.locator(".viewer-text")).to_be_focused()
    page.get_by_role("button", name="Show what follows").press("Enter")
    expect(page.get_by_text("Paragraph 199 of")).to_be_attached()
    expect(page.locator(".viewer-text")).to_be_focused()


def test_settings_go_back_and_the_focus_stays(page: Page) -> None:
    page.keyboard.press("Alt+s")
    setting = page.locator("[id='setting-retrieval.k']")
    setting.fill("5")
    setting.press("Enter")
    expect(page.locator(".setting.changed")).to_have_count(1)
    page.locator("#reset").press("Enter")
    expect(page.locator(".setting.changed")).to_have_count(0)
    expect(page.locator("#reset")).to_be_focused()


def test_a_complaint_that_is_closed_leaves_the_focus_on_the_page(page: Page) -> None:
    page.evaluate("""async () => (await import("/static/dom.js")).complain("It broke.")""")
    page.locator("#toast-close").press("Enter")
    expect(page.locator("#main")).to_be_focused()


def test_skipping_leads_to_the_question_from_everywhere(page: Page) -> None:
    page.keyboard.press("Alt+l")
    page.locator(".skip").press("Enter")
    expect(page.locator("#question")).to_be_focused()


def test_an_answer_is_heard_once(page: Page) -> None:
    """Neither the strip nor the stream is read aloud: the beginning is, and the whole answer."""
    page.evaluate(HEAR)
    page.locator("#question").press_sequentially(QUESTION, delay=40)
    page.keyboard.press("Enter")
    page.locator(".facts").wait_for()
    said = page.locator(".said").inner_text().split()
    begun, answered, *more = page.evaluate("window.heard")
    assert begun == "Reading the passages"
    assert answered.split()[-1] == said[-1]
    assert not more


def test_what_is_said_twice_is_heard_twice(page: Page) -> None:
    """A region whose text does not change is not read aloud again."""
    said = """async () => {
        const { say } = await import("/static/dom.js");
        return ["Copied.", "Copied.", "Copied."].map((text) => {
            say(text);
            return document.getElementById("said").textContent;
        });
    }"""
    one, two, three = page.evaluate(said)
    assert one != two != three
    assert {one.strip(), two.strip(), three.strip()} == {"Copied."}
