"""README's promise that nothing leaves the machine: real models, every connection is noted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from readahead.lm.weights import pull

# Python imports it before anything else. What is refused may be swallowed; what is noted is not.
WATCH = """
import os, sys

def watch(event, args):
    if event in ("socket.connect", "socket.sendto"):
        address = args[1]
        host = address[0] if isinstance(address, tuple) else "localhost"
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = args[0]
    else:
        return
    if host not in (None, "localhost", "127.0.0.1", "::1"):
        with open(os.environ["REACHED"], "a") as file:
            file.write(f"{event} {host}\\n")
        raise OSError(f"{host} is not this machine")

sys.addaudithook(watch)
"""
SERVE = """
from starlette.testclient import TestClient
from readahead.config import load_config
from readahead.server.app import create_app
from readahead.server.state import Service

service = Service(load_config({"generation.max_new_tokens": 4}))
with TestClient(create_app(service), base_url="http://127.0.0.1") as client:
    session = client.post("/v1/sessions").json()["id"]
    client.post(f"/v1/sessions/{session}/typing", json={"text": "How deep is the lake?"})
    messages = [{"role": "user", "content": "How deep is the lake?"}]
    for more in ({"session": session}, {"method": "plain"}):
        body = {"model": "readahead", "messages": messages, "readahead": more}
        answer = client.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
    assert client.get("/").status_code == 200
"""
LEAK = "import socket; socket.getaddrinfo('example.com', 443)"


@pytest.mark.real
def test_nothing_leaves_the_machine(tmp_path: Path) -> None:
    for name in ("smollm2-135m", "all-minilm-l6-v2"):
        pull(name)
    (tmp_path / "sitecustomize.py").write_text(WATCH, encoding="utf-8")
    (tmp_path / "lake.md").write_text("# Lake\n\nThe lake is 60 m deep.\n", encoding="utf-8")
    reached = tmp_path / "reached"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HF_")},
        "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
        "READAHEAD_KB": str(tmp_path / "kb"),
        "READAHEAD_MODELS__TARGET": "smollm2-135m",
        "REACHED": str(reached),
    }

    def run(*arguments: str) -> int:
        done = subprocess.run(
            [sys.executable, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        print(done.stderr)
        return done.returncode

    assert run("-m", "readahead", "add", str(tmp_path / "lake.md")) == 0
    assert run("-m", "readahead", "ask", "How deep is the lake?") == 0
    assert run("-c", SERVE) == 0
    assert not reached.exists(), reached.read_text()
    assert run("-c", LEAK) != 0  # or nothing above was watched
    assert reached.read_text() == "socket.getaddrinfo example.com\n"
