"""By keyboard: what a key means while one composes or types, and all of the page by Tab alone."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.server.browser.conftest import WIDE, Opens, answer_with
from tests.server.browser.test_chatting import QUESTION, ask
from tests.server.browser.test_kept import hit_of

PRESS = "(line, init) => line.dispatchEvent(new KeyboardEvent('keydown', init))"
SETTLED = "() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))"
NEXT = """(id) => {
    const controls = [...document.querySelectorAll("#view-settings :is(input, select):enabled")];
    const at = controls.findIndex((control) => control.id === id);
    return at >= 0 && controls[at + 1] === document.activeElement;
}"""
MAC = """Object.defineProperty(navigator, "platform", { get: () => "MacIntel" });"""


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("composing", [{"isComposing": True}, {"keyCode": 229}])
def test_escape_of_a_composition_stops_no_answer(page: Page, composing: dict[str, object]) -> None:
    page.locator("#method").select_option("plain")
    ask(page)
    page.locator(".said.writing").wait_for()
    line = page.locator("#question")
    line.evaluate(PRESS, {"key": "Escape", "bubbles": True, **composing})
    page.evaluate(SETTLED)
    expect(page.locator("#stop")).to_be_visible()
    expect(page.locator(".noted")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator(".noted")).to_have_text("Stopped.")


@pytest.mark.parametrize("composing", [{"isComposing": True}, {"keyCode": 229}])
def test_enter_of_a_composition_asks_nothing(page: Page, composing: dict[str, object]) -> None:
    line = page.locator("#question")
    line.fill(QUESTION)
    line.evaluate(PRESS, {"key": "Enter", "bubbles": True, **composing})
    page.evaluate(SETTLED)
    expect(page.locator(".asked")).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page.locator(".asked")).to_have_text(QUESTION)


def test_option_writes_letters_on_a_mac(opens: Opens) -> None:
    page = opens()
    page.add_init_script(MAC)
    page.reload()
    page.locator("#question").focus()
    page.keyboard.press("Alt+l")
    page.evaluate(SETTLED)
    expect(page.locator("#view-chat")).to_be_visible()
    page.locator("#turns").focus()
    page.keyboard.press("Alt+l")
    expect(page.locator("#view-library")).to_be_focused()
    page.keyboard.press("Alt+k")
    expect(page.locator("#keys")).to_contain_text("On a Mac, Alt is Option")


def test_a_place_that_a_key_leads_to_has_the_focus(page: Page) -> None:
    page.locator("#question").focus()
    for key, place in (("Alt+l", "library"), ("Alt+s", "settings"), ("Alt+s", "settings")):
        page.keyboard.press(key)
        expect(page.locator(f"#view-{place}")).to_be_focused()


def test_a_number_that_is_set_leaves_the_focus_to_the_reader(page: Page) -> None:
    page.keyboard.press("Alt+s")
    field = page.locator("[id='setting-retrieval.k']")
    field.fill("7")
    page.keyboard.press("Tab")
    expect(page.locator(".setting.changed")).to_contain_text("retrieval.k = 7")
    assert page.evaluate(NEXT, "setting-retrieval.k") is True
    field.fill("9")
    page.locator("#method-plain").click()
    expect(page.locator("#method-plain")).to_be_focused()
    expect(page.locator("#method-plain")).to_be_checked()
    expect(field).to_have_value("9")
    field.fill("")
    page.keyboard.press("Tab")
    expect(page.locator(".setting.changed")).to_have_count(0)
    expect(field).not_to_have_value("")  # the server's own


def tab_to(page: Page, selector: str, *, backwards: bool = False) -> None:
    """Press Tab until something of the kind has the focus."""
    for _ in range(80):
        page.keyboard.press("Shift+Tab" if backwards else "Tab")
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(selector)


def test_all_of_it_by_tab_alone(page: Page, served: str, tmp_path: Path) -> None:
    file = tmp_path / "quokka.md"
    file.write_text("# Quokkas\n\nA quokka is small.\n", encoding="utf-8")
    tab_to(page, "#question")
    answer_with(page, "It is 1,642 metres deep. [1]", [hit_of(served, "deepest lake")])
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    page.locator(".facts").wait_for()
    tab_to(page, ".cite", backwards=True)
    page.keyboard.press("Enter")
    expect(page.locator("#viewer mark").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".cite")).to_be_focused()
    page.unroute("**/v1/chat/completions")
    tab_to(page, "#question")
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    page.locator(".show-timeline").wait_for()
    tab_to(page, ".show-timeline", backwards=True)
    page.keyboard.press("Enter")
    page.locator(".timeline .item").first.wait_for()
    tab_to(page, ".timeline .item")
    before = page.locator(".explain").inner_text()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".explain")).not_to_have_text(before)
    tab_to(page, "a[href='#library']", backwards=True)
    page.keyboard.press("Enter")
    expect(page.locator(".doc")).to_have_count(3)
    with page.expect_file_chooser() as chosen:
        tab_to(page, "#choose")  # meanwhile the browser learns to hand its dialog over
        page.keyboard.press("Enter")
    chosen.value.set_files(file)
    expect(page.locator(".doc")).to_have_count(4)
    page.locator("#find").focus()  # the list was drawn anew
    tab_to(page, "[aria-label='Delete quokka.md']")
    page.keyboard.press("Enter")
    tab_to(page, "#confirm .danger")
    page.keyboard.press("Enter")
    expect(page.locator(".doc")).to_have_count(3)
    expect(page.locator("#find")).to_be_focused()


def test_a_tablet_that_is_turned_goes_on(opens: Opens) -> None:
    page = opens({"width": 768, "height": 1024})
    page.locator("#menu").click()
    expect(page.locator("#new-chat")).to_be_focused()
    page.set_viewport_size({"width": 1024, "height": 768})
    expect(page.locator("#main")).not_to_have_attribute("inert", "")
    page.locator("#question").click()
    expect(page.locator("#question")).to_be_focused()
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]
