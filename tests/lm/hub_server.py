"""A model hub in a thread: enough of its protocol for the real client to list and download."""

import hashlib
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from huggingface_hub import constants

COMMIT = "c" * 40


def _info(repo: str, files: Mapping[str, bytes]) -> dict[str, object]:
    siblings = [{"rfilename": name, "size": len(data)} for name, data in files.items()]
    return {"id": repo, "sha": COMMIT, "siblings": siblings, "cardData": {"license": "mit"}}


def _tree(files: Mapping[str, bytes]) -> list[dict[str, object]]:
    return [
        {"type": "file", "oid": "0" * 40, "path": name, "size": len(data)}
        for name, data in files.items()
    ]


@contextmanager
def serve_hub(repos: Mapping[str, Mapping[str, bytes]]) -> Iterator[str]:
    """Serve ``repos`` (id to files); yield the address. Ids that hold ``gated`` are forbidden."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def log_message(self, format: str, *args: object) -> None:
            pass

        def _answer(self, *, body: bool) -> None:
            path = self.path.partition("?")[0].strip("/")
            is_api = path.startswith("api/models/")
            owner, name, *rest = path.removeprefix("api/models/").split("/")
            files = repos.get(f"{owner}/{name}")
            if files is None or "gated" in name:
                code = "RepoNotFound" if files is None else "GatedRepo"
                self._send(404 if files is None else 403, b"", {"X-Error-Code": code}, body=body)
            elif is_api:
                info = _tree(files) if rest[:1] == ["tree"] else _info(f"{owner}/{name}", files)
                kind = {"Content-Type": "application/json"}
                self._send(200, json.dumps(info).encode(), kind, body=body)
            else:
                content = files["/".join(rest[2:])]
                etag = hashlib.sha256(content).hexdigest()
                headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{etag}"'}
                self._send(200, content, headers, body=body)

        def _send(
            self, status: int, content: bytes, headers: Mapping[str, str], *, body: bool
        ) -> None:
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def use_hub(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``address`` the hub of this test; the client has read its environment already."""
    monkeypatch.setattr(constants, "ENDPOINT", address)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


def refusing_address() -> str:
    """Return an address at which nothing listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}"
