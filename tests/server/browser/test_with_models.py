"""What takes models that read: citations that open at their span, drafts that are judged."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from readahead.config import Config, load_config
from readahead.lm.model import TransformersModel
from readahead.lm.weights import pull
from readahead.server.state import Service

pytestmark = pytest.mark.real

LAKE = """# Lakes 😀

😀😀 This page is about lakes.

Lake Baikal in Siberia is the deepest lake in the world. It is 1,642 meters deep.
"""
TOWER = "# Towers\n\nThe Eiffel Tower in Paris was finished in 1889.\n"
QUESTION = "How deep is Lake Baikal in Siberia?"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    pull("all-minilm-l6-v2")
    settings = {"kb": tmp_path / "kb", "models.target": "smollm2-135m"}
    return load_config(settings | {"generation.max_new_tokens": 32, "drafts.num_drafts": 2})


@pytest.fixture
def service(config: Config, smollm: TransformersModel, tmp_path: Path) -> Iterator[Service]:
    (tmp_path / "lakes.md").write_text(LAKE, encoding="utf-8")
    (tmp_path / "towers.md").write_text(TOWER, encoding="utf-8")
    service = Service(config, smollm)
    service.tenant().engine.load().knowledge.add([tmp_path / "lakes.md", tmp_path / "towers.md"])
    yield service
    service.close()


def test_a_citation_opens_at_its_span(page: Page, shoot: Callable[[Page, str], None]) -> None:
    page.set_default_timeout(60_000)
    page.locator("#question").press_sequentially(QUESTION, delay=60)
    expect(page.locator("#strip")).to_have_attribute("data-tokens", re.compile("[1-9]"))
    page.keyboard.press("Enter")
    page.locator(".facts").wait_for()
    page.locator(".show-timeline").click()
    page.locator(".timeline svg").wait_for()
    shoot(page, "cited")
    marker = page.locator(".cite").first
    expect(marker).to_have_text("1")
    cited = page.locator(".source .words").first.inner_text()
    marker.click()
    expect(page.locator("#viewer mark")).to_have_text(cited)
    expect(page.locator("#viewer mark")).to_contain_text("1,642 meters")
    expect(page.locator("#viewer-place")).to_contain_text("Lakes")
    expect(page.locator("#viewer mark")).to_be_focused()
    shoot(page, "opened")
    page.keyboard.press("Escape")
    expect(page.locator("#viewer")).not_to_be_visible()
    expect(marker).to_be_focused()


def test_drafts_stand_side_by_side(page: Page, shoot: Callable[[Page, str], None]) -> None:
    page.set_default_timeout(60_000)
    page.locator("#method").select_option("drafts")
    page.locator("#question").fill(QUESTION)
    page.keyboard.press("Enter")
    page.locator(".show-audit").click()
    expect(page.locator(".audit .candidate").first).to_be_visible()
    expect(page.locator(".audit .meter").first).to_contain_text("%")
    page.locator(".audit summary").click()
    expect(page.locator(".audit table").last.locator("tbody tr")).to_have_count(2)
    shoot(page, "audit")
