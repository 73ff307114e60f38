"""Where the server listens, and by which names it may be called; knows no requests."""

from __future__ import annotations

import re
import socket
from collections.abc import Collection
from ipaddress import ip_address

from readahead.config import ServerConfig
from readahead.errors import ConfigError, InputError
from readahead.server.guard.keys import VARIABLE

_LOCALHOST = "localhost"
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s:/\[\]@]+))(?::\d{1,5})?")


def bind(config: ServerConfig, *, has_keys: bool) -> socket.socket:
    """Return a socket that has the address of the settings, and does not listen yet.

    Raises:
        ConfigError: Others could reach the address, and no key is needed.
        InputError: There is no such address, or it is in use.
    """
    family, address = _resolve(config)
    if not has_keys and not ip_address(address[0].partition("%")[0]).is_loopback:
        raise ConfigError(
            f"Others could reach {config.host} ({address[0]}), and there is no API key.",
            remedy=f"Make one: readahead keys add NAME, or set {VARIABLE}; or use 127.0.0.1.",
        )
    # With its protocol named: only then asyncio sends each piece of an answer at once. Without, the
    # second waits until the client has acknowledged the first, for up to 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise InputError(
            f"{config.host} port {config.port} cannot be used: {error.strerror}.",
            remedy="Choose another with --port; 0 is any free one.",
        ) from None
    return listener


def _resolve(config: ServerConfig) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """Return the first address of the settings' host: what is checked is what is bound."""
    try:
        if not config.host:
            raise OSError
        found = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise InputError(
            f"There is no address {config.host!r} to listen on.", remedy="Use: --host 127.0.0.1"
        ) from None
    family, _, _, _, address = found[0]
    return family, address  # type: ignore[return-value]


def url_of(listener: socket.socket) -> str:
    """Return how a browser on this machine calls the server."""
    host, port = listener.getsockname()[:2]
    if ip_address(host.partition("%")[0]).is_unspecified:
        host = "[::1]" if ":" in host else "127.0.0.1"
    elif ":" in host:
        host = f"[{host}]"
    return f"http://{host}:{port}"


def is_allowed(host: str, names: Collection[str]) -> bool:
    """Return whether a Host header may call the server.

    A page elsewhere can point a name of its own at this machine (DNS rebinding), and the browser
    takes both for one site; so only names that were told are answered. An address cannot be pointed
    anywhere.
    """
    if not (match := _HOST.fullmatch(host)):
        return False
    name = (match["v6"] or match["name"]).lower().rstrip(".")
    return name == _LOCALHOST or name in {other.lower() for other in names} or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
