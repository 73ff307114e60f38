"""A real Chromium on a real server; screenshots are kept as artefacts of the run."""

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import torch
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Route,
    expect,
    sync_playwright,
)

from readahead.config import Config
from readahead.lm.base import Cache
from readahead.server.state import Service
from tests.server.conftest import make_config

ARTIFACTS = Path(__file__).parents[2] / "artifacts"
ARGUMENTS = ("--headless", "--no-sandbox", "--disable-background-networking")
WIDE = {"width": 1280, "height": 860}
PHONE = {"width": 375, "height": 740}
expect.set_options(timeout=20_000)  # a busy machine takes its time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder, and skip them where there is no Chromium, but never in CI."""
    is_absent = shutil.which("chromium") is None and "CI" not in os.environ
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if is_absent:
                item.add_marker(pytest.mark.skip(reason="chromium is not installed"))


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    # For this folder only: while it runs, no other test could begin an event loop of its own.
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=ARGUMENTS
        )
        yield browser
        browser.close()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    # So many draft tokens, however busy the machine is.
    return make_config(tmp_path, generation__max_new_tokens=40, tokens__num_draft_tokens=4)


Opens = Callable[..., Page]


@pytest.fixture
def opens(browser: Browser, served: str) -> Iterator[Opens]:
    """Return what opens the page in a fresh context; it fails on any fault that a page has."""
    faults: list[str] = []
    contexts: list[BrowserContext] = []

    def hear(told: ConsoleMessage) -> None:
        # A status that is no success is told there, too; pages are asked for some on purpose.
        if told.type == "error" and not told.text.startswith("Failed to load resource"):
            faults.append(told.text)

    def open_page(size: dict[str, int] = WIDE, **options: object) -> Page:
        context = browser.new_context(viewport=size, **options)  # type: ignore[arg-type]
        contexts.append(context)
        context.set_default_timeout(20_000)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", hear)
        page.goto(served)
        page.locator("#method option").first.wait_for(state="attached")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not faults


@pytest.fixture
def page(opens: Opens) -> Page:
    return opens()


@pytest.fixture
def shoot() -> Callable[[Page, str], None]:
    """Return what keeps a screenshot under a name."""
    ARTIFACTS.mkdir(exist_ok=True)

    def keep(page: Page, name: str) -> None:
        page.screenshot(path=ARTIFACTS / f"{name}.png")

    return keep


@pytest.fixture
def unhurried(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let an answer take seconds, until the event is set: one can do something meanwhile."""
    hurry = threading.Event()
    forward = service.loaded.target.forward

    def slowed(token_ids: torch.Tensor, cache: Cache) -> torch.Tensor:
        hurry.wait(0.25)
        return forward(token_ids, cache)

    monkeypatch.setattr(service.loaded.target, "forward", slowed)
    yield hurry
    hurry.set()


def answer_with(
    page: Page, text: str, citations: Sequence[Mapping[str, object]] = (), **fields: object
) -> None:
    """Let the page be answered with a text; the tiny model writes none that anything supports."""
    cited = [{"marker": at, **one} for at, one in enumerate(citations, start=1)]
    answer = {
        "method": "plain",
        "citations": cited,
        "timing": {"ttft_s": 0.1},
        "usage": {"completion_tokens": 1},
        **fields,
    }
    told = [{"readahead": {"citation": one}} for one in cited]
    pieces = [{"choices": [{"delta": {"content": piece}}]} for piece in text.split("|")]
    last = {"choices": [{"delta": {}, "finish_reason": "stop"}], "readahead": answer}
    frames = [json.dumps(part) for part in (*told, *pieces, last)]
    body = "".join(f"data: {frame}\n\n" for frame in (*frames, "[DONE]"))

    def fulfil(route: Route) -> None:
        route.fulfill(body=body, content_type="text/event-stream")

    page.route("**/v1/chat/completions", fulfil)
