"""What a reader must not be left to guess: limits, support, what was read, what was stopped."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page, expect

from readahead.lm.base import Cache
from readahead.server.served import ServedSession
from readahead.server.state import Service
from tests.server.browser.conftest import WIDE, Opens
from tests.server.browser.test_chatting import QUESTION, ask


@pytest.fixture
def slow(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each forward pass take so long that nothing is written before one stops it."""
    forward = service.loaded.target.forward

    def slowed(token_ids: torch.Tensor, cache: Cache) -> torch.Tensor:
        time.sleep(1.0)
        return forward(token_ids, cache)

    monkeypatch.setattr(service.loaded.target, "forward", slowed)


def test_an_answer_that_nothing_supports_says_so(
    page: Page, shoot: Callable[[Page, str], None]
) -> None:
    expect(page.locator(".welcome")).to_contain_text("or says that none does")
    expect(page.locator(".welcome")).to_contain_text("lake.md")
    ask(page)
    expect(page.locator(".unsupported")).to_have_text("No source supports this answer")
    expect(page.locator("#said")).to_contain_text("No source supports this answer")
    shoot(page, "unsupported")
    page.locator("#language").click()
    expect(page.locator(".unsupported")).to_have_text("没有来源支持这个回答")


def test_the_limit_to_a_document_is_seen_and_does_not_stay(page: Page) -> None:
    scope = page.locator("#scope")
    for leave in (lambda: page.locator("#new-chat").click(), page.reload):
        scope.select_option(label="lake.md")
        expect(scope).to_have_class(re.compile("limited"))
        ask(page)
        expect(page.locator(".turn .scope")).to_have_text("Only in lake.md")
        page.locator(".facts").wait_for()
        leave()
        expect(scope).to_have_value("")
        expect(scope).not_to_have_class(re.compile("limited"))
    page.locator("#past button").first.click()
    expect(page.locator(".turn .scope")).to_have_text("Only in lake.md")


def test_rapid_says_which_document_it_read(page: Page) -> None:
    page.locator("#method").select_option("rapid")
    ask(page)
    expect(page.locator(".read-whole")).to_have_text("Read whole: lake.md")


@pytest.mark.usefixtures("slow")
def test_what_was_stopped_before_a_word_stays(page: Page) -> None:
    page.locator("#method").select_option("plain")
    ask(page)
    page.locator(".waiting").wait_for()
    page.locator("#stop").click()
    expect(page.locator(".noted")).to_be_in_viewport()
    page.locator("#language").click()
    expect(page.locator(".asked")).to_have_text(QUESTION)
    expect(page.locator(".noted")).to_have_text("已停止。")
    page.reload()
    page.locator("#past button").first.click()
    expect(page.locator(".noted")).to_have_text("已停止。")


@pytest.mark.usefixtures("slow")
def test_an_answer_that_is_left_stays_in_its_own_chat(page: Page) -> None:
    page.locator("#method").select_option("plain")
    ask(page)
    page.locator(".waiting").wait_for()
    page.locator("#new-chat").click()
    expect(page.locator("#past li")).to_have_count(1)
    expect(page.locator(".welcome")).to_be_visible()
    page.locator("#past button").first.click()
    expect(page.locator(".asked")).to_have_text(QUESTION)


def test_suggestions_are_buttons_that_ask(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(page)
    page.locator(".facts").wait_for()
    monkeypatch.setattr(ServedSession, "suggestions", ("How tall is the Eiffel Tower?",))
    page.get_by_role("button", name="How tall is the Eiffel Tower?").click()
    expect(page.locator(".asked").last).to_have_text("How tall is the Eiffel Tower?")


def test_documents_of_one_name_are_told_apart(page: Page, service: Service, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    file = tmp_path / "other" / "lake.md"
    file.write_text("# Lake Geneva\n\nLake Geneva lies in Switzerland.\n", encoding="utf-8")
    service.tenant().engine.knowledge.add([file])
    page.reload()
    paths = {str(file), str(tmp_path / "lake.md")}
    for path in paths:
        expect(page.locator("#scope option", has_text=path)).to_have_count(1)
    expect(page.locator("#scope option").get_by_text("tower.md", exact=True)).to_have_count(1)
    page.keyboard.press("Alt+l")
    page.locator(".doc").first.wait_for()
    names = page.locator(".doc .name").all_inner_texts()
    assert set(names) == paths | {"tower.md", "水.md"}


def test_a_complaint_can_be_closed_and_goes_with_the_view(opens: Opens) -> None:
    page = opens(WIDE)
    complain = """async () => (await import("/static/dom.js")).complain("It broke.")"""
    toast = page.locator("#toast")
    for by_key in (False, True):
        page.evaluate(complain)
        expect(toast).to_have_text("It broke.")
        if by_key:
            page.keyboard.press("Alt+s")
        else:
            toast.get_by_role("button", name="Close").click()
        expect(toast).to_be_hidden()
