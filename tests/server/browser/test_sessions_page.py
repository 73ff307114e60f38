"""The session behind a chat: made once, for that chat only, and waited for while one wants it."""

import re
from collections.abc import Callable

import httpx2
import pytest
from playwright.sync_api import Page, Request, Route, expect

from tests.server.browser.test_chatting import QUESTION, ask, turns_of_sessions, until
from tests.server.browser.test_reader import slow

__all__ = ["slow"]  # a fixture
MAKING = re.compile("/v1/sessions$")


@pytest.fixture
def making(page: Page) -> list[Route]:
    """Hold the first request for a session, and return it once it has come, as further ones."""
    routes: list[Route] = []

    def hold(route: Route) -> None:
        routes.append(route)
        if len(routes) > 1:
            route.continue_()

    page.route(MAKING, hold)
    return routes


def settle(page: Page, holds: Callable[[], bool]) -> None:
    """Let the page go on until something holds."""
    for _ in range(200):
        if holds():
            return
        page.wait_for_timeout(50)
    raise AssertionError


def test_a_session_that_cannot_be_made_is_not_asked_for_in_a_loop(page: Page) -> None:
    refused: list[Request] = []

    def refuse(route: Route) -> None:
        refused.append(route.request)
        route.fulfill(status=429, json={"error": {"message": "Too many."}})

    page.route(MAKING, refuse)
    page.locator("#question").press_sequentially(QUESTION, delay=20)
    page.wait_for_timeout(2500)
    assert 1 <= len(refused) <= 3


def test_a_new_chat_does_not_take_over_the_session_of_the_old_one(
    page: Page, served: str, making: list[Route]
) -> None:
    page.locator("#question").press_sequentially("How deep?")
    settle(page, lambda: len(making) == 1)
    page.locator("#new-chat").click()
    page.locator("#question").press_sequentially(" Which lake?", delay=20)
    settle(page, lambda: len(making) == 2)  # the new chat does not wait for the old one
    making[0].continue_()
    ask(page)
    page.locator(".facts").wait_for()
    until(lambda: turns_of_sessions(served) == [1])
    assert len(making) == 2


def test_stop_works_while_the_session_is_made(page: Page, served: str, making: list[Route]) -> None:
    ask(page)
    settle(page, lambda: len(making) == 1)
    page.locator("#stop").click()
    expect(page.locator(".noted")).to_have_text("Stopped.")
    expect(page.locator("#send")).to_be_visible()
    making[0].continue_()
    page.get_by_role("button", name="Ask again").click()
    page.locator(".facts").wait_for()
    assert len(making) == 1  # the chat's session is there by now
    until(lambda: turns_of_sessions(served) == [1])


def test_a_new_chat_can_ask_while_the_session_of_the_old_one_is_made(
    page: Page, served: str, making: list[Route]
) -> None:
    ask(page, "How deep?")
    settle(page, lambda: len(making) == 1)
    page.locator("#new-chat").click()
    expect(page.locator("#send")).to_be_visible()
    ask(page)
    page.locator(".facts").wait_for()
    making[0].continue_()
    settle(page, lambda: len(httpx2.get(f"{served}/v1/sessions").json()["data"]) == 1)
    assert turns_of_sessions(served) == [1]


@pytest.mark.usefixtures("slow")
def test_typing_in_another_scope_lets_the_answer_be_written(page: Page, served: str) -> None:
    ask(page)
    page.locator(".waiting").wait_for()
    until(lambda: len(httpx2.get(f"{served}/v1/sessions").json()["data"]) == 1)
    (session,) = httpx2.get(f"{served}/v1/sessions").json()["data"]
    page.locator("#scope").select_option(label="lake.md")
    page.locator("#question").press_sequentially("And how tall?")
    page.wait_for_timeout(300)
    (left,) = httpx2.get(f"{served}/v1/sessions").json()["data"]
    assert left["id"] == session["id"]
    page.keyboard.press("Escape")


def test_plain_retrieves_again_at_the_first_question_only(page: Page) -> None:
    page.keyboard.press("Alt+s")
    page.locator("#inject").check()
    page.keyboard.press("Alt+c")
    page.locator("#method").select_option("plain")
    injects: list[object] = []
    for number in (1, 2):
        with page.expect_request("**/v1/chat/completions") as asked:
            ask(page)
        body = asked.value.post_data_json
        assert body
        injects.append(body["readahead"].get("inject"))
        expect(page.locator(".facts")).to_have_count(number)
    assert injects == [True, None]
