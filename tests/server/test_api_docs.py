"""What docs/api.md says is so: its tables are fresh, its examples run, its paths exist."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from readahead.config import Config
from readahead.lm.model import TransformersModel
from readahead.server.app import ROUTERS
from readahead.server.problems import _OWN, TYPES
from readahead.server.schemas.requests import Extension
from readahead.server.schemas.settings import SETTINGS
from readahead.server.state import Service
from tests.conftest import make_llama, make_tokenizer
from tests.retrieval.support import HashingEmbedder
from tests.server.conftest import make_config

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8321"
TARGET = "qwen2.5-coder-0.5b"
SAMPLES = ("visitor-information.html", "telescope-manual.md")
BLOCKS = re.findall(r"^```(bash|python)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
EXPECTED = {
    "/v1/chat/completions": r'"readahead":\{',
    "READAHEAD_KEY": TARGET,
    '"method": "plain"': r"\S",
    "stream=True": r"used: \d+\n$",
    "/v1/settings": "retrieval.k",
    "/typing": r"tokens ready.*\n[\d.e-]+ s to the first text\n$",
    "files=@": r'"status": "done".*"telescope-manual.md"',
    "-X DELETE": r'"text":".*"deleted":true',
    "/v1/search": r'"score":.*"object":"passage"',
    "/v1/traces": '"object":"list"',
    "client.completions": r"^ +-\d+\.\d\d  The dome opens in April\.\n +-\d",
    "client.embeddings": r"^\[32, 32\] \d+\n$",
    "BadRequestError": "^400 unsupported logprobs\n$",
    "/health": r'"ok".*"ready".*readahead_',
}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return make_config(tmp_path, retrieval__mode="hybrid")


@pytest.fixture
def service(config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A server over sample documents, asked from a folder that has them."""
    folder = tmp_path / "examples" / "documents"
    folder.mkdir(parents=True)
    for name in SAMPLES:
        shutil.copy(ROOT / "examples" / "documents" / name, folder)
    model = TransformersModel(make_llama().eval(), make_tokenizer(), name=TARGET)
    service = Service(config, model)
    service.loaded.embedder = HashingEmbedder()
    service.tenant().engine.knowledge.add([folder / SAMPLES[0]])
    monkeypatch.chdir(tmp_path)
    yield service
    service.close()


def run(kind: str, block: str, folder: Path) -> str:
    """Run an example as a reader would, and return what it prints; its exit status must be 0."""
    (folder / ".curlrc").write_text("silent\nshow-error\nfail-with-body\n")
    command = ["bash", "-euo", "pipefail", "-c"] if kind == "bash" else [sys.executable, "-c"]
    done = subprocess.run(
        [*command, block],
        cwd=folder,
        env={**os.environ, "CURL_HOME": str(folder), "READAHEAD_KEY": "any", "NO_PROXY": "*"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize(
    ("kind", "block"), BLOCKS, ids=[f"{i}-{b[0]}" for i, b in enumerate(BLOCKS)]
)
def test_an_example_does_what_it_says(kind: str, block: str, served: str, tmp_path: Path) -> None:
    if kind == "bash" and shutil.which("curl") is None:
        pytest.skip("there is no curl")
    (pattern,) = (EXPECTED[key] for key in EXPECTED if key in block)
    out = run(kind, block.replace(ADDRESS, served), tmp_path)
    assert re.search(pattern, out, re.DOTALL), out


def test_every_example_is_run() -> None:
    fences = re.findall(r"^```(\w+)$", PAGE, re.MULTILINE)
    assert len(BLOCKS) == len(EXPECTED)
    assert len(fences) == len(BLOCKS) + fences.count("console")
    assert PAGE.count(ADDRESS) > len(BLOCKS)


def test_the_tables_are_fresh() -> None:
    script = ROOT / "scripts" / "make_api_docs.py"
    subprocess.run([sys.executable, script, "--check"], check=True)


def test_what_a_request_says_is_described() -> None:
    table = PAGE.partition("### The request's `readahead`")[2].partition("###")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(Extension.model_fields)


def test_the_page_names_every_route_and_no_other() -> None:
    named = set(re.findall(r"`((?:GET|HEAD|POST|DELETE) /[^` ]*)`", PAGE))
    routes = {
        f"{method} {getattr(route, 'path', '').replace(':path', '')}"
        for module in ROUTERS
        for route in module.router.routes
        for method in getattr(route, "methods", ())
    }
    assert named == routes - {"GET /", "GET /static/{file}"}


def test_every_status_of_an_error_is_listed() -> None:
    table = PAGE.partition("<!-- errors: generated -->")[2].partition("<!-- errors: end -->")[0]
    listed = set(map(int, re.findall(r"^\| (\d+) \|", table, re.MULTILINE)))
    assert listed == set(TYPES) | {status for _, status, _ in _OWN}


def test_what_only_some_methods_read_is_listed_with_them() -> None:
    table = PAGE.partition("<!-- settings: generated -->")[2].partition("<!-- settings")[0]
    for methods in set(SETTINGS.values()):
        (row,) = re.findall(rf"^\| `{'`, `'.join(methods)}` \|.*", table, re.MULTILINE)
        own = {name for name in SETTINGS if SETTINGS[name] == methods}
        assert set(re.findall(r"`(\w+\.\w+)`", row)) == own


def test_every_code_of_an_error_is_listed() -> None:
    sources = (ROOT / "src" / "readahead" / "server").rglob("*.py")
    codes = {
        code
        for path in sources
        for code in re.findall(r'code="(\w+)"', path.read_text(encoding="utf-8"))
    }
    assert {"queue_full", "cross_site", "unsupported_file_type"} <= codes  # of several folders
    listed = set(re.findall(r"`(\w+)`", PAGE.partition("## Errors")[2].partition("## Limits")[0]))
    assert codes - listed == {"client_closed_request"}  # nobody is there to read it
