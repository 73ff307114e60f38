"""Whether one can read all of it: contrast of what is drawn, and width on a phone."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.server.browser.conftest import PHONE, WIDE, Opens, answer_with
from tests.server.browser.test_audit import SHOW, made
from tests.server.browser.test_chatting import QUESTION, ask

# Each text with the contrast of its colour to what lies behind it, both as they are drawn.
FAINT = """() => {
    const parse = (text) => {
        const [r, g, b, a = 1] = text.match(/[\\d.]+(?:e-?\\d+)?/g).map(Number);
        return text.startsWith("color(") ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
    };
    const over = (top, below) => [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3]));
    const behind = (node) => {
        if (!node) return [255, 255, 255];
        const own = parse(getComputedStyle(node).backgroundColor);
        return own[3] === 1 ? own : over(own, behind(node.parentElement));
    };
    const light = (colour) => {
        const [r, g, b] = colour.map((value) => {
            const share = value / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
    };
    const faint = [];
    let numTexts = 0;
    for (const node of document.querySelectorAll("body *")) {
        const text = node.placeholder || [...node.childNodes]
            .filter((child) => child.nodeType === 3).map((child) => child.data.trim()).join("");
        const seen = { opacityProperty: true, visibilityProperty: true };
        if (!text || !node.checkVisibility(seen)) continue;
        if (node.closest(".sr, option, noscript")) continue;
        const style = getComputedStyle(node, node.placeholder ? "::placeholder" : null);
        const shape = node.matches(".run") && node.parentElement.querySelector(".shape");
        const below = shape ? parse(getComputedStyle(shape).fill)
            : behind(node instanceof SVGElement ? node.closest("div") : node);
        const colour = parse(node instanceof SVGElement ? style.fill : style.color);
        const [one, other] = [light(over(colour, below)), light(below)].sort((a, b) => b - a);
        numTexts += 1;
        if (one / other < 4.5) faint.push(`${text.slice(0, 30)}: ${(one / other).toFixed(2)}`);
    }
    return [numTexts, faint];
}"""

# What reaches beyond the window, but in what scrolls by itself.
BEYOND = """() => [...document.querySelectorAll("#main *")].filter((node) => {
    const { left, right, width } = node.getBoundingClientRect();
    if (!width || node.closest(".sr, .scroll, .strip, svg")) return false;
    return left < 0 || right > innerWidth;
}).map((node) => `${node.tagName}.${node.className}: ${node.textContent.slice(0, 30)}`)"""


def check_contrast(page: Page, least: int) -> None:
    num_texts, faint = page.evaluate(FAINT)
    assert num_texts >= least
    assert faint == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out(
    opens: Opens, scheme: str, shoot: Callable[[Page, str], None]
) -> None:
    page = opens(WIDE, color_scheme=scheme, reduced_motion="reduce")
    ask(page, "zzz qqq xxx")
    page.locator(".abstained").wait_for()
    ask(page)
    page.locator(".facts b").first.wait_for()
    page.locator(".show-timeline").last.click()
    page.locator(".timeline svg .item").first.wait_for()
    page.evaluate("""async () => (await import("/static/dom.js")).complain("It broke.")""")
    shoot(page, f"{scheme}-timeline")
    check_contrast(page, 40)
    page.evaluate(SHOW, made(threshold=0.01, also=0.99))
    shoot(page, f"{scheme}-audit")
    check_contrast(page, 20)
    page.keyboard.press("Alt+l")
    page.locator(".doc").first.wait_for()
    shoot(page, f"{scheme}-library")
    check_contrast(page, 15)
    page.keyboard.press("Alt+s")
    page.locator("#view-settings summary").click()
    shoot(page, f"{scheme}-settings")
    check_contrast(page, 50)
    page.keyboard.press("Alt+k")
    check_contrast(page, 60)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_faults_and_what_one_points_at_stand_out(
    opens: Opens, scheme: str, shoot: Callable[[Page, str], None]
) -> None:
    page = opens(WIDE, color_scheme=scheme, reduced_motion="reduce")
    page.locator("#method").select_option("plain")
    refused = {"error": {"message": "It is refused."}}
    page.route("**/v1/chat/completions", lambda route: route.fulfill(status=400, json=refused))
    ask(page)
    page.locator(".failed").wait_for()
    lake = {"document": "lake.md", "document_id": "1", "start": 0, "end": 4, "text": "other"}
    page.unroute("**/v1/chat/completions")
    answer_with(page, "It is deep. [1]", [lake])
    ask(page)
    for place in (".cite", ".source", ".tools .quiet", "#past button", "#new-chat", "#send"):
        page.locator(place).first.hover()
        check_contrast(page, 20)
    page.locator(".cite").click()
    page.locator("#viewer .changed").wait_for()
    shoot(page, f"{scheme}-changed")
    check_contrast(page, 20)
    page.keyboard.press("Escape")
    page.keyboard.press("Alt+l")
    for place in (".doc .name", ".doc .icon-button", "#choose"):
        page.locator(place).first.hover()
        check_contrast(page, 15)
    page.keyboard.press("Alt+s")
    page.locator("[id='setting-retrieval.k']").fill("0")
    page.keyboard.press("Tab")
    page.locator(".setting .bad").wait_for()
    check_contrast(page, 30)


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_a_phone_shows_all_of_it(
    opens: Opens, locale: str, shoot: Callable[[Page, str], None]
) -> None:
    page = opens(PHONE, locale=locale)

    def check(name: str) -> None:
        shoot(page, f"phone-{locale[:2]}-{name}")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], name
        beyond = page.evaluate(BEYOND)
        assert beyond == [], name

    page.locator("#question").press_sequentially(QUESTION, delay=30)
    check("strip")
    page.keyboard.press("Enter")
    page.locator(".show-timeline").click()
    page.locator(".timeline svg .item").first.wait_for()
    check("timeline")
    page.evaluate(SHOW, made(threshold=0.01, also=0.99))
    check("audit")
    for place in ("library", "settings"):
        page.evaluate("place => { location.hash = place; }", place)
        expect(page.locator(f"#view-{place} h1")).to_be_visible()
        check(place)
    page.locator("#view-settings summary").click()
    check("all-settings")
