"""Ask, read ahead, stop, cite: the conversation in a real browser."""

import re
import threading
import time
from collections.abc import Callable

import httpx2
import pytest
import torch
from playwright.sync_api import Page, Route, expect

from readahead.lm.base import Cache
from readahead.server.state import Service
from tests.server.browser.conftest import PHONE, Opens

# Or in the browser's own bars, from where the next Tab leads back.
IN_DIALOG = """() => {
    const { activeElement: active, body } = document;
    return active === body || active.closest("#keys") !== null;
}"""
QUESTION = "How deep is Lake Baikal, the deepest lake?"


def until(holds: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def turns_of_sessions(served: str) -> list[int]:
    return [one["num_turns"] for one in httpx2.get(f"{served}/v1/sessions").json()["data"]]


def ask(page: Page, question: str = QUESTION) -> None:
    page.locator("#question").fill(question)
    page.locator("#send").wait_for()  # an answer is shown just before its stream ends
    page.keyboard.press("Enter")


def test_a_question_is_answered_and_kept(page: Page, shoot: Callable[[Page, str], None]) -> None:
    ask(page)
    expect(page.locator(".asked")).to_have_text(QUESTION)
    page.locator(".facts").wait_for()
    answer = page.locator(".said").inner_text()
    assert answer.strip()
    expect(page.locator("#said")).to_contain_text(answer[:5].strip() or "Answered")
    expect(page.locator("#past li")).to_have_count(1)
    shoot(page, "answer")
    page.reload()
    page.locator("#past button").first.click()
    expect(page.locator(".asked")).to_have_text(QUESTION)
    expect(page.locator(".facts")).to_be_visible()
    for _ in range(2):
        expect(page.locator(".said")).to_have_text(answer)
        expect(page.locator(".waiting")).to_have_count(0)
        page.locator("#language").click()


def test_the_strip_moves_before_enter(page: Page, shoot: Callable[[Page, str], None]) -> None:
    page.locator("#question").press_sequentially(QUESTION, delay=40)
    expect(page.locator("#strip")).to_have_class(re.compile("on"))
    expect(page.locator("#strip")).to_have_attribute("data-tokens", re.compile("[1-9]"))
    expect(page.locator(".strip-titles li").first).to_contain_text("Lake Baikal")
    expect(page.locator(".asked")).to_have_count(0)
    shoot(page, "strip")
    page.keyboard.press("Enter")
    page.locator(".facts").wait_for()
    expect(page.locator("#strip")).not_to_have_class(re.compile("on"))
    expect(page.locator(".facts")).to_contain_text("prompt tokens were ready")


def test_the_timeline_tells_of_typing_and_of_plain_rag(
    page: Page, shoot: Callable[[Page, str], None]
) -> None:
    page.locator("#question").press_sequentially(QUESTION, delay=40)
    expect(page.locator("#strip")).to_have_attribute("data-tokens", re.compile("[1-9]"))
    page.keyboard.press("Enter")
    page.locator(".show-timeline").click()
    panel = page.locator(".timeline")
    for lane in ("Typing", "Gate", "Retrieval", "Prefill", "Decode"):
        expect(panel.get_by_text(lane, exact=True).first).to_be_visible()
    assert panel.locator(".lane-typing.item").count() >= len(QUESTION) - 5
    panel.locator(".item[tabindex='0']").focus()
    expect(panel.locator(".explain")).to_contain_text("Typing")
    page.keyboard.press("ArrowDown")
    expect(panel.locator(".explain")).to_contain_text("Gate")
    expect(panel.locator(".versus .bar-row")).to_have_count(2)
    expect(panel).to_contain_text("Hatched: an estimate")
    shoot(page, "timeline")


def test_a_question_is_not_taken_while_an_answer_is_written(
    page: Page, unhurried: threading.Event
) -> None:
    ask(page)
    page.locator("#stop").wait_for()
    page.locator("#question").fill("How high is it?")
    page.keyboard.press("Enter")
    expect(page.locator("#toast-text")).to_contain_text("An answer is being written")
    expect(page.locator("#question")).to_have_value("How high is it?")
    unhurried.set()
    page.locator("#send").wait_for()
    page.keyboard.press("Enter")
    expect(page.locator(".asked")).to_have_count(2)


def test_stop_ends_the_answer_on_the_server(
    page: Page, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = service.loaded.target
    forward = target.forward

    def slowed(token_ids: torch.Tensor, cache: Cache) -> torch.Tensor:
        time.sleep(0.1)
        return forward(token_ids, cache)

    monkeypatch.setattr(target, "forward", slowed)
    page.locator("#method").select_option("plain")
    ask(page)
    page.locator(".said").wait_for()
    page.keyboard.press("Escape")
    expect(page.locator(".noted")).to_have_text("Stopped.")
    expect(page.locator(".noted")).to_be_in_viewport()
    expect(page.locator("#send")).to_be_visible()
    store = service.tenant().engine.knowledge.store
    until(lambda: len(store.traces()) == 1)
    assert store.traces()[0]["attributes"]["finish_reason"] == "cancelled"  # type: ignore[index]
    until(lambda: service.admission.num_running == 0)
    monkeypatch.undo()
    page.get_by_role("button", name="Ask again").click()
    page.locator(".facts").wait_for()
    expect(page.locator(".turn")).to_have_count(1)


def test_a_session_that_is_gone_is_made_anew(page: Page, served: str) -> None:
    ask(page)
    page.locator(".facts").wait_for()
    for session in httpx2.get(f"{served}/v1/sessions").json()["data"]:
        httpx2.delete(f"{served}/v1/sessions/{session['id']}").raise_for_status()
    ask(page, "And how tall is the tower?")
    expect(page.locator(".facts")).to_have_count(2)
    # The server notes a turn just after its last word has gone out.
    until(lambda: turns_of_sessions(served) == [1])


def test_every_method_can_be_chosen(page: Page) -> None:
    for number, method in enumerate(("plain", "drafts", "rapid"), start=1):
        page.locator("#method").select_option(method)
        page.locator("#scope").select_option(label="lake.md")
        ask(page)
        expect(page.locator(".tools .show-timeline")).to_have_count(number)
        page.locator(".show-timeline").last.click()
        expect(page.locator(".timeline svg .item").last).to_be_visible()
        expect(page.locator(".timeline")).to_have_count(number)
    drafted = page.locator(".timeline").last.locator(".lane-draft.item")
    expect(drafted).not_to_have_count(0)  # each timeline is drawn once its trace has come
    expect(page.locator(".show-audit")).to_have_count(1)
    page.locator(".show-audit").click()
    expect(page.locator(".audit .candidate").first).to_be_visible()


def test_an_answer_that_abstains_says_so(page: Page, shoot: Callable[[Page, str], None]) -> None:
    ask(page, "zzz qqq xxx")
    box = page.get_by_role("region", name="No answer")
    expect(box).to_contain_text("The documents do not answer this")
    expect(page.locator("#said")).to_contain_text("The documents do not answer this")
    shoot(page, "abstained")


def test_by_keyboard_alone(page: Page) -> None:
    page.keyboard.press("Alt+q")
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    page.locator(".facts").wait_for()
    page.keyboard.press("Alt+k")
    dialog = page.locator("#keys")
    expect(dialog).to_be_visible()
    for _ in range(3):
        page.keyboard.press("Tab")
        assert page.evaluate(IN_DIALOG)
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()
    page.keyboard.press("Alt+l")
    expect(page.locator("#view-library h1")).to_be_visible()
    page.keyboard.press("Alt+c")
    expect(page.locator("#question")).to_be_focused()
    page.keyboard.press("Alt+n")
    expect(page.locator("#question")).to_be_focused()
    expect(page.locator(".welcome")).to_be_visible()


def test_a_phone_scrolls_in_one_direction(opens: Opens, shoot: Callable[[Page, str], None]) -> None:
    page = opens(PHONE)
    ask(page)
    page.locator(".show-timeline").click()
    page.locator(".timeline svg").wait_for()
    for place in ("chat", "library", "settings"):
        page.evaluate("place => { location.hash = place; }", place)
        page.locator(f"#view-{place}").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        shoot(page, f"phone-{place}")
    page.locator("#menu").click()
    expect(page.locator("#side")).to_have_class(re.compile("open"))
    page.keyboard.press("Escape")
    expect(page.locator("#side")).not_to_have_class(re.compile("open"))
    expect(page.locator("#menu")).to_be_focused()


def test_the_interface_speaks_chinese(opens: Opens, shoot: Callable[[Page, str], None]) -> None:
    page = opens(locale="zh-CN")
    assert page.evaluate("document.documentElement.lang") == "zh-Hans"
    expect(page.locator("#send")).to_have_text("提问")
    page.get_by_role("button", name="English").click()
    assert page.evaluate("document.documentElement.lang") == "en"
    expect(page.locator("#send")).to_have_text("Ask")
    page.get_by_role("button", name="中文").click()
    ask(page, "水在多少度沸腾？")
    page.locator(".show-timeline").click()
    expect(page.locator(".timeline h3")).to_have_text("时间线")
    shoot(page, "chinese")


def test_both_themes(opens: Opens) -> None:
    page = opens(color_scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(colour)
    page.get_by_role("button", name="Theme").click()
    light = page.evaluate(colour)
    assert dark != light
    expect(page.locator("#theme")).to_have_text("Theme: light")
    page.reload()
    assert page.evaluate(colour) == light
    page.locator("#language").click()
    expect(page.locator("#theme")).to_have_text("主题：浅色")


def test_the_browser_asks_for_the_key_and_sends_it(
    opens: Opens, service: Service, served: str
) -> None:
    key = service.keys.add("ann")
    assert httpx2.get(served).status_code == 401
    page = opens(http_credentials={"username": "", "password": key, "origin": served})
    ask(page)
    page.locator(".facts").wait_for()
    page.keyboard.press("Alt+l")
    expect(page.locator(".doc")).to_have_count(3)


def test_a_session_that_is_gone_while_a_stroke_is_on_its_way(page: Page, served: str) -> None:
    ask(page)
    page.locator(".facts").wait_for()
    for session in httpx2.get(f"{served}/v1/sessions").json()["data"]:
        httpx2.delete(f"{served}/v1/sessions/{session['id']}").raise_for_status()
    strokes: list[Route] = []
    questions: list[Route] = []

    def hold(route: Route) -> None:
        held = strokes if route.request.url.endswith("typing") else questions
        if held:
            route.continue_()
        held.append(route)

    page.route(re.compile("typing$|completions$"), hold)
    page.locator("#question").press_sequentially("How tall?")
    page.wait_for_timeout(300)
    page.keyboard.press("Enter")
    page.wait_for_timeout(300)
    with page.expect_response("**/typing") as stroke:
        strokes[0].continue_()
    assert stroke.value.status == 404
    page.wait_for_timeout(200)
    questions[0].continue_()
    expect(page.locator(".facts")).to_have_count(2)
    assert len(httpx2.get(f"{served}/v1/sessions").json()["data"]) == 1
