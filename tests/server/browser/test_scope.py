"""The limit to one document: it stays until the reader lifts it, and reading ahead heeds it."""

import re

import httpx2
from playwright.sync_api import Page, expect

from tests.server.browser.test_chatting import QUESTION, ask

CHANGED = """() => document.dispatchEvent(new CustomEvent("documents"))"""
LISTED = re.compile(r"/v1/documents\?limit=200")


def test_a_list_that_cannot_be_had_lifts_no_limit(page: Page) -> None:
    page.locator("#scope").select_option(label="lake.md")
    page.route(LISTED, lambda route: route.abort())
    with page.expect_event("requestfailed"):
        page.evaluate(CHANGED)
    page.evaluate("() => new Promise(requestAnimationFrame)")
    page.unroute(LISTED)
    with page.expect_request("**/v1/sessions") as asked:
        ask(page)
    body = asked.value.post_data_json
    assert body and len(body["documents"]) == 1
    expect(page.locator(".turn .scope")).to_have_text("Only in lake.md")


def test_another_limit_is_read_ahead_for_at_once(page: Page, served: str) -> None:
    both = f"{QUESTION} Or the Eiffel Tower?"
    page.locator("#question").press_sequentially(both)
    expect(page.locator("#strip")).to_have_attribute("data-tokens", re.compile("[1-9]"))
    with page.expect_request("**/v1/sessions") as made:
        page.locator("#scope").select_option(label="tower.md")
    body = made.value.post_data_json
    assert body and len(body["documents"]) == 1
    expect(page.locator(".strip-titles")).to_contain_text("Eiffel Tower")
    expect(page.locator(".strip-titles")).not_to_contain_text("Lake Baikal")


def test_other_settings_are_read_ahead_with_at_once(page: Page) -> None:
    page.locator("#question").press_sequentially(QUESTION)
    expect(page.locator("#strip")).to_have_attribute("data-tokens", re.compile("[1-9]"))
    page.keyboard.press("Alt+s")
    with page.expect_request("**/v1/sessions") as made:
        page.locator("[id='setting-retrieval.k']").fill("1")
        page.keyboard.press("Enter")
    body = made.value.post_data_json
    assert body and body["settings"] == {"retrieval.k": 1}


def test_a_document_that_is_gone_lifts_the_limit_aloud(page: Page, served: str) -> None:
    page.locator("#scope").select_option(label="lake.md")
    id = page.locator("#scope").input_value()
    httpx2.delete(f"{served}/v1/documents/{id}").raise_for_status()
    page.evaluate(CHANGED)
    expect(page.locator("#toast")).to_contain_text("lake.md is gone; all documents are asked")
    expect(page.locator("#scope")).to_have_value("")


def test_a_limit_to_none_of_the_newest_documents_stays(page: Page) -> None:
    page.locator("#scope").select_option(label="lake.md")
    id = page.locator("#scope").input_value()
    listed = {"data": [{"id": "99", "name": "new.md"}], "has_more": True}
    page.route(LISTED, lambda route: route.fulfill(json=listed))
    page.evaluate(CHANGED)
    options = page.locator("#scope option")
    shown = ["All documents", "new.md", "lake.md", "Only the newest 200 are listed"]
    expect(options).to_have_text(shown)
    expect(options.last).to_be_disabled()
    expect(page.locator("#scope")).to_have_value(id)
