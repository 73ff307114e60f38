"""Clients that do what no library does: hang up, send on, or wait for what happens elsewhere."""

import json
import socket
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit


def connected(url: str, timeout_s: float = 20.0) -> socket.socket:
    """Return a connection to the server at ``url``."""
    address = urlsplit(url)
    return socket.create_connection((address.hostname or "", address.port or 0), timeout_s)


def head(url: str, path: str, **headers: object) -> bytes:
    """Return the head of a POST request; ``Content_Type`` stands for ``Content-Type``."""
    named = {"Host": urlsplit(url).netloc, **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in named.items()]
    return "\r\n".join([f"POST {path} HTTP/1.1", *lines, "", ""]).encode()


def sent(url: str, path: str, body: Mapping[str, object]) -> socket.socket:
    """Return the connection to which a request was sent; to close it is to leave."""
    content = json.dumps(body).encode()
    more = {"Content_Type": "application/json", "Content_Length": len(content)}
    connection = connected(url)
    connection.sendall(head(url, path, **more) + content)
    return connection


def wait_until(is_so: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """Return once something is so."""
    deadline_s = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline_s, "it never happened"
        time.sleep(0.002)
