"""The Chinese page speaks Chinese throughout, also where the server says something itself."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.server.browser.conftest import PHONE, Opens
from tests.server.browser.test_audit import SHOW, made
from tests.server.browser.test_chatting import QUESTION, ask
from tests.server.routes.test_page_told import complaints, descriptions, samples

TOLD = """async (texts) => {
    const { told } = await import("/static/told.js");
    return texts.map((text) => told(text));
}"""
HAN = re.compile("[\u4e00-\u9fff]")


@pytest.fixture
def chinese(opens: Opens) -> Page:
    return opens(locale="zh-CN")


def test_every_text_of_the_server_is_put_into_chinese(chinese: Page) -> None:
    texts = [*samples(), *dict(complaints()), *descriptions().values()]
    for text, words in zip(texts, chinese.evaluate(TOLD, texts), strict=True):
        assert HAN.search(words), text
        left = re.findall(r"[A-Za-z]+ [a-z]+ [a-z]+", words)  # names stay, sentences do not
        assert not left, (text, words)


def test_values_and_what_is_not_known_stay(chinese: Page) -> None:
    for text, words in {
        "fewer than 3 words": "还不到 3 个词",
        "The question is blank. Ask something.": "问题是空的。请提出问题。",
        "The question is blank. Try 'x'.": "问题是空的。Try 'x'.",
        "There is no document 'empty'.": "没有文档 'empty'。",
        "Answered plainly, because drafting failed: out of memory.": (
            "改用普通回答，因为起草失败：out of memory。"
        ),
        "line 2: not a JSON object": "第 2 行：不是 JSON 对象",
        "date: 1902 against 1885": "日期：“1902”与“1885”",
        "Nothing that is known.": "Nothing that is known.",
        "": "",
    }.items():
        assert chinese.evaluate(TOLD, [text]) == [words]


def test_the_english_page_says_what_the_server_says(page: Page) -> None:
    texts = list(samples())
    assert page.evaluate(TOLD, texts) == texts


def test_settings_are_described_in_chinese(
    chinese: Page, shoot: Callable[[Page, str], None]
) -> None:
    chinese.keyboard.press("Alt+s")
    chinese.locator("#view-settings summary").click()
    settings, seen = chinese.locator("#view-settings .setting"), set()
    for method in ("prefetch", "plain", "drafts", "rapid"):
        chinese.locator(f"#method-{method}").check()
        seen |= set(settings.locator(".mono").all_inner_texts())
        for text in settings.locator("label, p:not(.mono)").all_inner_texts():
            assert HAN.search(text), text
    assert {line.partition(" ")[0] for line in seen} == set(descriptions())
    shoot(chinese, "chinese-settings")


def test_what_went_wrong_is_told_in_chinese(chinese: Page, tmp_path: Path) -> None:
    chinese.keyboard.press("Alt+l")
    for name, data in (("empty.md", b" "), ("bad.jsonl", b"[1]\n")):
        (tmp_path / name).write_bytes(data)
    files = [tmp_path / "empty.md", tmp_path / "bad.jsonl"]
    chinese.locator("#files").set_input_files(files)
    job = chinese.locator(".job")
    expect(job).to_have_attribute("data-status", "failed")
    expect(job).to_contain_text("empty.md: 空文件")
    expect(job).to_contain_text("bad.jsonl: 第 1 行：不是 JSON 对象")
    expect(job).to_contain_text("没有一个文件可以读取。")
    (tmp_path / "picture.exe").write_bytes(b"MZ")
    chinese.locator("#files").set_input_files(tmp_path / "picture.exe")
    expect(chinese.locator("#toast")).to_contain_text("不认识 'picture.exe' 的格式")
    chinese.route("**/v1/documents*", lambda route: route.abort())
    chinese.locator("#find").fill("lake")
    expect(chinese.locator("#toast")).to_contain_text("无法连接服务器。")


def test_notes_and_reasons_are_told_in_chinese(
    chinese: Page, shoot: Callable[[Page, str], None]
) -> None:
    chinese.locator("#question").press_sequentially("Ho", delay=30)
    expect(chinese.locator(".strip-line")).to_have_attribute("title", HAN)
    chinese.locator("#question").fill("")
    ask(chinese, "zzz qqq xxx")
    expect(chinese.locator(".abstained")).to_contain_text("知识库中没有与问题相符的段落。")
    ask(chinese, QUESTION)
    expect(chinese.locator(".noted")).to_contain_text("回答在 40 个词元处被截断")
    shoot(chinese, "chinese-notes")


def test_the_audit_is_told_in_chinese(chinese: Page, shoot: Callable[[Page, str], None]) -> None:
    chinese.evaluate(SHOW, made(threshold=0.01, also=0.99))
    other = chinese.locator(".candidate").last
    expect(other).to_contain_text("可能性太小，不在更好的回答之外再给出")
    expect(other).to_contain_text("日期：“1902”与“1885”")
    shoot(chinese, "chinese-audit")
    chinese.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    assert chinese.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
