"""An answer as it is written, copied and printed."""

from playwright.sync_api import Page, expect

from tests.server.browser.conftest import Opens, answer_with
from tests.server.browser.test_chatting import ask

NO_CLIPBOARD = """Object.defineProperty(navigator, "clipboard", { value: undefined });"""
COUNTED = """() => {
    const turns = document.getElementById("turns");
    const { get } = Object.getOwnPropertyDescriptor(Element.prototype, "scrollHeight");
    window.numLooks = 0;
    Object.defineProperty(turns, "scrollHeight", {
        get() {
            window.numLooks += 1;
            return get.call(this);
        },
    });
}"""
AT_END = """() => {
    const { scrollHeight, scrollTop, clientHeight } = document.getElementById("turns");
    return scrollHeight - scrollTop - clientHeight < 120;
}"""


def test_an_answer_is_copied(opens: Opens) -> None:
    page = opens(permissions=["clipboard-read", "clipboard-write"])
    answer_with(page, "It is| deep [1].", [])
    ask(page)
    page.get_by_role("button", name="Copy").click()
    expect(page.locator("#said")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == "It is deep [1]."


def test_where_the_page_may_not_copy_the_reader_can(opens: Opens) -> None:
    page = opens()
    page.add_init_script(NO_CLIPBOARD)
    page.reload()
    answer_with(page, "It is deep.")
    ask(page)
    page.get_by_role("button", name="Copy").click()
    expect(page.locator("#toast")).to_contain_text("The answer is selected: copy it with Ctrl + C")
    page.keyboard.press("Control+c")
    page.locator("#question").focus()
    page.keyboard.press("Control+v")
    expect(page.locator("#question")).to_have_value("It is deep.")


def test_the_page_goes_along_with_the_text_once_a_frame(page: Page) -> None:
    page.locator("#method").select_option("plain")
    answer_with(page, "|".join(f"word{n} " for n in range(3000)))
    page.evaluate(COUNTED)
    ask(page)
    page.locator(".facts").wait_for()
    page.wait_for_function(AT_END)
    assert page.evaluate("numLooks") < 1000


def test_one_who_reads_back_is_left_there(page: Page) -> None:
    page.locator("#method").select_option("plain")
    answer_with(page, "word " * 3000)
    ask(page)
    page.locator(".facts").wait_for()
    page.wait_for_function(AT_END)
    back = """() => import("/static/follower.js").then(async ({ Follower }) => {
        const turns = document.getElementById("turns");
        const follower = new Follower(turns);
        turns.scrollTo({ top: 0, behavior: "instant" });
        await new Promise((resolve) => turns.addEventListener("scroll", resolve, { once: true }));
        follower.follow();
        await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
        return turns.scrollTop;
    })"""
    assert page.evaluate(back) == 0


def test_all_of_a_conversation_is_printed(page: Page) -> None:
    page.locator("#method").select_option("plain")
    answer_with(page, "word " * 2000)
    for number in (1, 2):
        ask(page)
        expect(page.locator(".facts")).to_have_count(number)
    page.emulate_media(media="print")
    clipped = """() => ["turns", "view-chat", "main"].filter((id) => {
        const { scrollHeight, clientHeight } = document.getElementById(id);
        return scrollHeight > clientHeight + 1;
    })"""
    assert page.evaluate(clipped) == []
    whole = (
        "document.documentElement.scrollHeight >= document.getElementById('turn-list').scrollHeight"
    )
    assert page.evaluate(whole)
    ink = "getComputedStyle(document.body).color"
    light = page.evaluate(ink)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert page.evaluate(ink) == light  # paper is white
    for away in ("#side", ".dock", ".tools"):
        expect(page.locator(away).first).to_be_hidden()


def test_a_long_question_is_taken_whole(page: Page) -> None:
    page.locator("#method").select_option("plain")
    answer_with(page, "It is so.")
    question = "a" * 9000 + " Where is the end?"
    page.locator("#question").focus()
    page.keyboard.insert_text(question)
    page.keyboard.press("Enter")
    expect(page.locator(".asked")).to_have_text(question)
