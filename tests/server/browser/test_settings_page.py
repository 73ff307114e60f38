"""What may be set on the page: within its range, and for the methods that read it."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from readahead.server.schemas.settings import SETTINGS
from tests.server.browser.conftest import Opens
from tests.server.browser.test_chatting import ask

KEPT = "JSON.parse(localStorage.getItem('readahead.choice')).settings"
ACCEPTS = """async ([schema, values]) => {
    const { accepts } = await import("/static/preferences.js");
    return values.filter((value) => accepts(schema, value));
}"""
IDS = "(found) => found.map((one) => one.id)"
METHODS = ["prefetch", "plain", "drafts", "rapid"]
SENT = """async ([settings, methods]) => {
    const { choose, loadOffered, scopeAndSettings } = await import("/static/preferences.js");
    await loadOffered();
    return methods.map((method) => {
        choose({ method, settings });
        return Object.keys(scopeAndSettings().settings ?? {});
    });
}"""


def fill(page: Page, name: str, value: str) -> None:
    field = page.locator(f"[id='setting-{name}']")
    field.fill(value)
    field.press("Enter")


@pytest.fixture
def settings(page: Page) -> Page:
    page.keyboard.press("Alt+s")
    page.locator("#view-settings summary").click()
    return page


@pytest.mark.parametrize(
    ("method", "name", "value", "told"),
    [
        ("prefetch", "generation.repetition_penalty", "0", "Give a number: ≥ 0.01, ≤ 100."),
        ("prefetch", "generation.repetition_penalty", "101", "Give a number: ≥ 0.01, ≤ 100."),
        ("plain", "retrieval.k", "0", "Give a whole number: ≥ 1, ≤ 100."),
        ("prefetch", "retrieval.k", "2.5", "Give a whole number: ≥ 1, ≤ 100."),
        ("drafts", "drafts.also", "1.5", "Give a number: ≥ 0, ≤ 1."),
    ],
)
def test_a_number_out_of_range_is_not_kept(
    settings: Page, method: str, name: str, value: str, told: str
) -> None:
    settings.locator(f"#method-{method}").check()
    fill(settings, name, value)
    field = settings.locator(f"[id='setting-{name}']")
    row = settings.locator(".setting").filter(has=field)
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(row.get_by_role("alert")).to_have_text(told)
    assert settings.evaluate(KEPT) == {}
    fill(settings, name, "1")
    expect(field).not_to_have_attribute("aria-invalid", "true")
    expect(row.get_by_role("alert")).to_have_count(0)
    fill(settings, name, "")
    assert settings.evaluate(KEPT) == {}


def test_bounds_that_are_no_part_of_a_range(
    opens: Opens, shoot: Callable[[Page, str], None]
) -> None:
    page = opens()
    schema = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 2}
    setting = {"name": "retrieval.k", "value": 1, "methods": ["prefetch"], "schema": schema}
    offered = {"target": "t", "drafter": "d", "embedder": "e", "mode": "lexical", "data": [setting]}
    page.route("**/v1/settings", lambda route: route.fulfill(json=offered))
    page.reload()
    page.keyboard.press("Alt+s")
    alert = page.locator("#view-settings").get_by_role("alert")
    for value in ("0", "2"):
        fill(page, "retrieval.k", value)
        expect(alert).to_have_text("Give a number: > 0, < 2.")
        assert page.evaluate(KEPT) == {}
    shoot(page, "refused-setting")
    fill(page, "retrieval.k", "0.5")
    expect(alert).to_have_count(0)
    assert page.evaluate(KEPT) == {"retrieval.k": 0.5}


def test_what_was_kept_out_of_range_is_let_go(page: Page) -> None:
    kept = {"generation.repetition_penalty": 0, "retrieval.k": 2, "tokens.mode": "exakt"}
    page.wait_for_load_state("networkidle")  # else what it keeps itself comes later
    page.evaluate(
        """(settings) => localStorage.setItem("readahead.choice", JSON.stringify({ settings }))""",
        kept,
    )
    page.reload()
    page.keyboard.press("Alt+s")
    expect(page.locator(".setting.changed")).to_have_count(1)
    assert page.evaluate(KEPT) == {"retrieval.k": 2}
    page.keyboard.press("Alt+c")
    ask(page)
    page.locator(".facts").wait_for()


def test_schemas_say_which_values_they_take(page: Page) -> None:
    maybe = {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "null"}]}
    named = {"anyOf": [{"type": "string", "enum": ["strict"]}, {"type": "number"}]}
    for schema, values, taken in (
        ({"type": "integer", "exclusiveMinimum": 0}, [-1, 0, 1, 1.5, "1", None], [1]),
        (maybe, [None, 0, 0.5, 1, 1.1, "x", False], [None, 0, 0.5, 1]),
        (named, ["strict", "x", 0.3], ["strict", 0.3]),
        ({"type": "boolean"}, [True, 0, None], [True]),
    ):
        assert page.evaluate(ACCEPTS, [schema, values]) == taken


def read_by(method: str) -> list[str]:
    return [name for name, methods in SETTINGS.items() if method in methods]


def test_settings_go_with_the_methods_that_read_them(page: Page) -> None:
    """So each question is taken: a setting of another method would be refused."""
    offered = page.request.get(f"{page.url.partition('#')[0]}v1/settings").json()["data"]
    chosen = {setting["name"]: setting["value"] for setting in offered}
    for method, sent in zip(METHODS, page.evaluate(SENT, [chosen, METHODS]), strict=True):
        assert sorted(sent) == sorted(read_by(method))
    for number, method in enumerate(METHODS, start=1):
        page.locator("#method").select_option(method)
        ask(page)
        expect(page.locator(".facts")).to_have_count(number)
    expect(page.locator(".failed")).to_have_count(0)


def test_the_page_shows_what_the_method_reads(settings: Page) -> None:
    shown = settings.locator("#view-settings [id^='setting-']")
    fill(settings, "retrieval.k", "2")
    for method in (*METHODS[1:], "prefetch"):
        settings.locator(f"#method-{method}").check()
        expect(shown).to_have_count(len(read_by(method)))
        expect(settings.locator(f"#method-{method}")).to_be_focused()
        expect(settings.locator("#view-settings summary ~ .setting").first).to_be_visible()
        names = [name.removeprefix("setting-") for name in shown.evaluate_all(IDS)]
        assert sorted(names) == sorted(read_by(method))
        may_inject = "inject.threshold" in names
        expect(settings.locator("#inject")).to_have_count(int(may_inject))
    expect(settings.locator("[id='setting-retrieval.k']")).to_have_value("2")


def test_settings_that_do_not_go_together_break_their_own_method_only(page: Page) -> None:
    page.evaluate(SENT, [{"tokens.mode": "augmented"}, ["prefetch"]])
    for number, method in enumerate(("prefetch", "plain", "drafts"), start=1):
        page.locator("#method").select_option(method)
        ask(page)
        expect(page.locator(".facts")).to_have_count(number)
    page.locator("#method").select_option("rapid")
    ask(page)
    expect(page.locator(".failed")).to_contain_text("Set tokens.drafter to rag")
