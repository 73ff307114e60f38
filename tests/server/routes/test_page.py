"""The page's files: what is served, what they may not contain, and whether one can read them."""

import json
import re
from itertools import product

import pytest
from starlette.testclient import TestClient

from readahead.server.routes.page import FILES, STATIC, TYPES
from readahead.server.schemas.settings import LIMITS, SETTINGS

SCRIPTS = sorted(name for name in FILES if name.endswith(".js"))
STYLES = sorted(name for name in FILES if name.endswith(".css"))
MAX_LINES = 250
TABLES = ("en.js", "zh.js", "zhserver.js")
BACKGROUNDS = ("paper", "card", "sunk")
TEXTS = [
    *product(("ink", "soft", "accent"), BACKGROUNDS),
    ("on-accent", "accent"),
    ("accent", "tint"),
    ("on-mark", "mark"),
    ("warn", "warn-tint"),
    ("ink", "warn-tint"),
    ("bad", "bad-tint"),
    ("bad", "card"),
    ("card", "bad"),
    ("soft", "tint"),
]
LANES = [
    f"lane-{name}" for name in ("typing", "gate", "retrieval", "wait", "prefill", "draft", "decode")
]


def text_of(name: str) -> str:
    return FILES[name].read_text(encoding="utf-8")


def words_of(name: str) -> dict[str, str]:
    """Return the texts of a language, read as the JSON that they nearly are."""
    quoted = r'"(?:[^"\\]|\\.)*"'
    pairs = re.findall(
        rf'^\s+"?([\w.+-]+)"?:\s+((?:{quoted}[\s+]*)+),$', text_of(name), re.MULTILINE
    )
    return {key: "".join(map(json.loads, re.findall(quoted, texts))) for key, texts in pairs}


def test_the_page_is_served(client: TestClient) -> None:
    response = client.get("/")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "script-src 'self'" in response.headers["content-security-policy"]
    for path in re.findall(r'(?:src|href)="(/static/[^"]+)"', response.text):
        assert client.get(path).status_code == 200, path


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_has_its_type_and_is_sent_once(client: TestClient, name: str) -> None:
    response = client.get(f"/static/{name}")
    assert response.status_code == 200
    assert response.headers["content-type"] == TYPES[FILES[name].suffix]
    assert response.content == FILES[name].read_bytes()
    again = client.get(f"/static/{name}", headers={"If-None-Match": response.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = client.get(f"/static/{name}", headers={"If-None-Match": '"other"'})
    assert other.status_code == 200


@pytest.mark.parametrize(
    "name", ["nothing.js", "..%2fpage.py", "%2e%2e/page.py", "page.py", "..\\page.py", "a%00.js"]
)
def test_nothing_else_is_served(client: TestClient, name: str) -> None:
    response = client.get(f"/static/{name}")
    assert response.status_code == 404
    assert response.json()["error"]["type"] == "not_found_error"


def test_all_files_of_the_folder_are_meant_to_be_served() -> None:
    assert {path.name for path in STATIC.iterdir()} == set(FILES)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_make_no_markup_of_text(name: str) -> None:
    text = text_of(name)
    for forbidden in (
        *("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser"),
        *("eval(", "new Function", "createContextualFragment", "srcdoc", "setHTML", "https://"),
    ):
        assert forbidden not in text, forbidden
    if name not in TABLES:
        assert len(text.splitlines()) <= MAX_LINES


def test_the_page_has_nothing_inline_and_nothing_from_elsewhere() -> None:
    page = text_of("index.html")
    assert not re.search(r"\sstyle=|\son\w+=|<style|<script(?![^>]*\ssrc=)", page)
    for name in (*STYLES, "index.html"):
        assert not re.search(r"(?:https?:)?//(?!www\.w3\.org)\w", text_of(name)), name
        assert "@import" not in text_of(name)


def test_imports_and_icons_exist() -> None:
    icons = set(re.findall(r'<symbol id="([\w-]+)"', text_of("icons.svg")))
    assert set(re.findall(r'data-icon="([\w-]+)"', text_of("index.html"))) <= icons
    for name in SCRIPTS:
        assert set(re.findall(r'from "\./([\w.]+)"', text_of(name))) <= set(SCRIPTS), name
        assert set(re.findall(r'\bicon\("([\w-]+)"\)', text_of(name))) <= icons, name


def test_both_languages_have_the_same_texts_with_the_same_values() -> None:
    english, chinese = words_of("en.js"), words_of("zh.js")
    assert len(english) > 200
    assert set(english) == set(chinese)
    for key, text in english.items():
        names = set(re.findall(r"\{\w+\}", text))
        assert set(re.findall(r"\{\w+\}", chinese[key])) == names, key


def test_every_text_that_is_used_exists_and_none_is_idle() -> None:
    english = words_of("en.js")
    texts = [text_of(name) for name in SCRIPTS if name not in TABLES]
    page = text_of("index.html")
    used = set(re.findall(r'data-(?:t|label|placeholder)="([^"]+)"', page))
    used |= {key for text in texts for key in re.findall(r'\bt\("([^"]+)"', text)}
    assert used <= set(english)
    # What is put together from parts is matched by its beginning.
    begun = {key for text in texts for key in re.findall(r"\bt\(`([^`$]+)\$\{", text)}
    begun |= {f"{key}." for text in texts for key in re.findall(r'\bnamed\("(\w+)"', text)}
    quoted = {key for text in texts for key in re.findall(r'"([\w.+-]+)"', text)}
    idle = set(english) - used - quoted
    assert {key for key in idle if not key.startswith(tuple(begun))} == set()


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, as WCAG 2 defines it."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_texts_stand_out(theme: int) -> None:
    pairs = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", text_of("base.css"))
    colours = {name: values[theme] for name, *values in pairs}
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    for front, back in TEXTS:
        assert contrast(colours[front], colours[back]) >= 4.5, (front, back)
    for lane in LANES:  # shapes need less
        assert contrast(colours[lane], colours["card"]) >= 3, lane
    assert contrast(colours["edge"], colours["card"]) >= 3


def test_colours_of_texts_are_those_that_are_checked() -> None:
    known = {front for front, _ in TEXTS} | set(LANES)
    for name in STYLES:
        used = re.findall(r"(?<![\w-])color: var\(--([\w-]+)\)", text_of(name))
        assert set(used) <= known, name


def test_settings_in_use_are_told(client: TestClient) -> None:
    told = client.get("/v1/settings").json()
    assert told["target"] == "tiny"
    settings = {setting["name"]: setting for setting in told["data"]}
    assert list(settings) == list(SETTINGS)
    assert settings["retrieval.k"]["value"] == 3
    assert settings["retrieval.k"]["schema"]["maximum"] == LIMITS["retrieval.k"]
    assert settings["drafts.preset"]["schema"]["enum"] == ["fast", "accurate"]
    for name, setting in settings.items():
        assert setting["methods"] == list(SETTINGS[name])
        for method in ("prefetch", "rapid"):
            documents = ["1"] if method == "rapid" else []
            body = {"method": method, "documents": documents, "settings": {name: setting["value"]}}
            response = client.post("/v1/sessions", json=body)
            assert response.status_code == (200 if method in setting["methods"] else 400), name
