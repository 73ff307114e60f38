"""What the browser keeps of conversations: nothing of them is lost, and what must go goes."""

import threading
from collections.abc import Callable

import httpx2
import pytest
from playwright.sync_api import Page, expect

from tests.server.browser.conftest import Opens, answer_with
from tests.server.browser.test_chatting import QUESTION, ask, turns_of_sessions, until

KEPT = """() => JSON.parse(localStorage.getItem("readahead.chats") ?? "[]")
    .map((chat) => chat.turns.map((turn) => turn.question))"""
FULL = """() => { Storage.prototype.setItem = () => { throw new DOMException("full"); }; }"""
# A connection that is lost after three words.
CUT = """() => {
    const { fetch } = window;
    window.fetch = (path, options) => {
        if (!path.endsWith("completions")) return fetch(path, options);
        const part = JSON.stringify({ choices: [{ delta: { content: "word " } }] });
        const bytes = new TextEncoder().encode(`data: ${part}\\n\\n`);
        let numLeft = 3;
        return Promise.resolve(new Response(new ReadableStream({
            pull(stream) {
                if (numLeft) stream.enqueue(bytes);
                else stream.error(new TypeError("network error"));
                numLeft -= 1;
            },
        })));
    };
    window.heal = () => { window.fetch = fetch; };
}"""


@pytest.fixture
def plain(page: Page) -> Page:
    page.locator("#method").select_option("plain")
    return page


def ask_plainly(page: Page, question: str, number: int) -> None:
    ask(page, question)
    expect(page.locator(".facts")).to_have_count(number)


@pytest.mark.usefixtures("unhurried")
def test_the_open_chat_is_gone_back_to_while_its_answer_is_written(plain: Page) -> None:
    answer_with(plain, "It is tall.")
    ask_plainly(plain, "How tall?", 1)
    plain.unroute("**/v1/chat/completions")
    ask(plain)
    plain.locator(".said.writing").wait_for()
    plain.keyboard.press("Alt+l")
    plain.locator("#past button").first.click()
    expect(plain.locator("#stop")).to_be_visible()
    expect(plain.locator(".asked")).to_have_text(["How tall?", QUESTION])
    plain.keyboard.press("Escape")
    expect(plain.locator(".noted")).to_have_text("Stopped.")
    assert plain.evaluate(KEPT) == [["How tall?", QUESTION]]
    answer_with(plain, "It is tall.")
    ask_plainly(plain, "Third?", 2)
    assert plain.evaluate(KEPT) == [["How tall?", QUESTION, "Third?"]]


def test_two_pages_write_on_in_one_chat(plain: Page, served: str) -> None:
    answer_with(plain, "It is so.")
    ask_plainly(plain, "First?", 1)
    other = plain.context.new_page()
    other.goto(served)
    answer_with(other, "It is so.")
    other.locator("#past li").wait_for()
    ask_plainly(plain, "Second?", 2)
    other.locator("#past button").first.click()
    expect(other.locator(".asked")).to_have_text(["First?", "Second?"])
    ask_plainly(other, "Third?", 3)
    expect(plain.locator(".asked")).to_have_text(["First?", "Second?", "Third?"])
    assert plain.evaluate(KEPT) == [["First?", "Second?", "Third?"]]


def test_what_another_page_adds_meanwhile_is_joined(plain: Page, served: str) -> None:
    answer_with(plain, "It is so.")
    ask_plainly(plain, "First?", 1)
    other = plain.context.new_page()
    other.goto(served)
    answer_with(other, "It is so.")
    other.locator("#past button").first.click()
    plain.unroute("**/v1/chat/completions")
    with plain.expect_request("**/v1/chat/completions"):
        plain.route("**/v1/chat/completions", lambda route: None)  # it waits for ever
        ask(plain, "Second?")
    ask_plainly(other, "Third?", 2)
    plain.keyboard.press("Escape")
    expect(plain.locator(".asked")).to_have_text(["First?", "Third?", "Second?"])
    assert other.evaluate(KEPT) == [["First?", "Third?", "Second?"]]


def test_a_full_browser_forgets_nothing_on_the_page(plain: Page) -> None:
    plain.evaluate(FULL)
    answer_with(plain, "It is so.")
    for number, question in enumerate(("One?", "Two?", "Three?"), start=1):
        with plain.expect_request("**/v1/chat/completions") as asked:
            ask_plainly(plain, question, number)
        body = asked.value.post_data_json
        assert body
        assert len(body["messages"]) == 2 * number - 1
    plain.locator("#language").click()
    expect(plain.locator(".asked")).to_have_text(["One?", "Two?", "Three?"])


def test_a_connection_that_is_lost_is_told_and_its_question_stays(opens: Opens) -> None:
    page = opens(locale="zh-CN")
    page.locator("#method").select_option("plain")
    page.evaluate(CUT)
    ask(page)
    failed = page.locator(".failed")
    expect(failed).to_have_text("连接在回答中途断开。")
    page.locator("#language").click()
    expect(failed).to_have_text("The connection ended in mid-answer.")
    expect(page.locator(".asked")).to_have_text(QUESTION)
    expect(page.locator(".said")).to_contain_text("word word")
    page.reload()
    page.locator("#past button").first.click()
    expect(failed).to_have_text("The connection ended in mid-answer.")
    answer_with(page, "It is so.")
    page.get_by_role("button", name="Ask again").click()
    expect(page.locator(".facts")).to_have_count(1)
    expect(failed).to_have_count(0)
    assert page.evaluate(KEPT) == [[QUESTION]]


def test_what_the_server_refused_stays_in_both_languages(plain: Page) -> None:
    error = {"error": {"message": "The question is blank. Ask something.", "code": "blank"}}
    refuse = "**/v1/chat/completions"
    plain.route(refuse, lambda route: route.fulfill(status=400, json=error))
    ask(plain)
    expect(plain.locator(".failed")).to_have_text("The question is blank. Ask something.")
    plain.locator("#language").click()
    expect(plain.locator(".failed")).to_have_text("问题是空的。请提出问题。")


def test_what_was_stopped_is_not_followed(
    page: Page, served: str, unhurried: threading.Event
) -> None:
    ask(page)
    page.locator(".said.writing").wait_for()
    page.keyboard.press("Escape")
    expect(page.locator(".noted")).to_have_text("Stopped.")
    unhurried.set()
    page.get_by_role("button", name="Ask again").click()
    page.locator(".facts").wait_for()
    until(lambda: turns_of_sessions(served) == [1])


def test_what_was_cut_is_not_followed(page: Page, served: str) -> None:
    page.evaluate(CUT)
    with page.expect_request("**/v1/sessions"):
        ask(page)
    page.locator(".failed").wait_for()
    page.evaluate("heal()")
    with page.expect_request("**/v1/sessions"):  # it may know a half answer
        page.get_by_role("button", name="Ask again").click()
    page.locator(".facts").wait_for()
    until(lambda: turns_of_sessions(served) == [1])


def test_what_another_method_answered_is_known_ahead(page: Page, served: str) -> None:
    ask_plainly(page, QUESTION, 1)
    ask_plainly(page, "And how wide is it?", 2)
    until(lambda: turns_of_sessions(served) == [2])  # one session, as long as it knows all
    page.locator("#method").select_option("plain")
    ask_plainly(page, "When was the Eiffel Tower finished?", 3)
    page.locator("#method").select_option("prefetch")
    with page.expect_request("**/v1/sessions") as made:
        ask(page, "And where does it stand?")
    body = made.value.post_data_json
    assert body
    asked = [one["content"] for one in body["messages"] if one["role"] == "user"]
    assert asked == [QUESTION, "And how wide is it?", "When was the Eiffel Tower finished?"]
    expect(page.locator(".facts")).to_have_count(4)


def test_asking_again_leaves_the_line_alone(plain: Page) -> None:
    ask_plainly(plain, QUESTION, 1)
    plain.locator("#question").press_sequentially("A long next question")
    plain.get_by_role("button", name="Ask again").click()
    expect(plain.locator(".facts")).to_have_count(2)
    expect(plain.locator("#question")).to_have_value("A long next question")
    strokes = "JSON.parse(localStorage['readahead.chats'])[0].turns.map((turn) => turn.strokes)"
    assert plain.evaluate(strokes)[1] == []


def hit_of(served: str, query: str) -> dict[str, object]:
    found = httpx2.post(f"{served}/v1/search", json={"query": query, "k": 1}).json()
    hit: dict[str, object] = found["hits"][0]
    return hit


def test_answers_that_cite_a_deleted_document_go(
    plain: Page, served: str, shoot: Callable[[Page, str], None]
) -> None:
    hit = hit_of(served, "deepest lake")
    answer_with(plain, "It is 1,642 metres deep. [1]", [hit])
    ask_plainly(plain, QUESTION, 1)
    plain.locator("#new-chat").click()
    ask_plainly(plain, QUESTION, 1)
    answer_with(plain, "It is in Paris.", [hit_of(served, "Eiffel Tower Paris")])
    ask_plainly(plain, "Where is it?", 2)
    plain.keyboard.press("Alt+l")
    plain.get_by_role("button", name="Delete lake.md").click()
    expect(plain.locator("#confirm")).to_contain_text("go from this browser’s history")
    shoot(plain, "delete")
    plain.locator("#confirm .danger").click()
    expect(plain.locator("#past li")).to_have_count(1)
    assert plain.evaluate(KEPT) == [["Where is it?"]]
    assert "1,642" not in plain.evaluate("localStorage['readahead.chats']")
    plain.keyboard.press("Alt+c")
    expect(plain.locator(".asked")).to_have_text("Where is it?")


DROPPED = """async ([chats, id, name]) => {
    localStorage.setItem("readahead.chats", JSON.stringify(chats));
    const { chats: kept, dropCiting } = await import("/static/store.js");
    dropCiting(id, name);
    return kept().map((chat) => chat.id);
}"""


def test_audits_hold_text_of_documents_too(page: Page) -> None:
    def chat(id: str, **answer: object) -> dict[str, object]:
        return {"id": id, "title": id, "at": 0, "turns": [{"question": "q", "answer": answer}]}

    evidence = {"candidates": [{"evidence": [{"document": "lake.md"}]}]}
    read = {"drafts": [{"passages": ["1.1.0", "2.1.0"]}]}
    chats = [
        chat("none", text="t"),
        chat("evidence", audit=evidence),
        chat("draft", audit=read),
        chat("step", audit={"steps": [{"steps": [evidence]}]}),
        chat("other", audit={"drafts": [{"passages": ["11.1.0"]}]}),
    ]
    assert page.evaluate(DROPPED, [chats, "1", "lake.md"]) == ["none", "other"]
