import asyncio
import socket
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.config import ServerConfig
from readahead.errors import ConfigError, InputError, ReadaheadError
from readahead.server.guard import hosts


def config(host: str, port: int = 0) -> ServerConfig:
    return ServerConfig(host=host, port=port)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.9.9.9", "127.1", "2130706433"])
def test_this_machine_is_served_without_a_key(host: str) -> None:
    with closing(hosts.bind(config(host), has_keys=False)) as listener:
        assert listener.getsockname()[0].startswith(("127.", "::1"))
        assert hosts.url_of(listener).startswith(("http://127.", "http://[::1]:"))


def test_pieces_of_an_answer_are_sent_at_once() -> None:
    async def accepted() -> int:
        is_off = asyncio.get_running_loop().create_future()

        async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            own = writer.get_extra_info("socket")
            is_off.set_result(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listener = hosts.bind(config("127.0.0.1"), has_keys=False)
        async with await asyncio.start_server(note, sock=listener):
            _, client = await asyncio.open_connection(*listener.getsockname())
            told = int(await is_off)
            client.close()
            return told

    assert asyncio.run(accepted()) == 1


@pytest.mark.parametrize("host", ["0.0.0.0", "0", "::", "::ffff:0.0.0.0", "192.0.2.1"])
def test_others_are_not_served_without_a_key(host: str) -> None:
    with pytest.raises(ConfigError, match="Others could reach") as caught:
        hosts.bind(config(host), has_keys=False)
    assert "readahead keys add" in caught.value.remedy


def test_a_name_is_judged_by_what_it_means(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = socket.getaddrinfo
    elsewhere = {"localhost": "0.0.0.0", "here.example": "127.0.0.1"}
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *a, **k: resolve(elsewhere.get(host, host), *a, **k)
    )
    with pytest.raises(ConfigError, match=r"localhost \(0\.0\.0\.0\)"):
        hosts.bind(config("localhost"), has_keys=False)
    hosts.bind(config("here.example"), has_keys=False).close()


def test_with_a_key_any_address_may_be_served() -> None:
    with closing(hosts.bind(config("0.0.0.0"), has_keys=True)) as listener:
        port = listener.getsockname()[1]
        assert hosts.url_of(listener) == f"http://127.0.0.1:{port}"


def test_an_address_that_cannot_be_used_is_named() -> None:
    with closing(hosts.bind(config("127.0.0.1"), has_keys=False)) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(InputError, match=f"127.0.0.1 port {port} cannot be used: Address"):
            hosts.bind(config("127.0.0.1", port), has_keys=False)
    with pytest.raises(InputError, match=r"192\.0\.2\.1 port 0 cannot be used"):
        hosts.bind(config("192.0.2.1"), has_keys=True)


@given(st.one_of(st.text(max_size=20), st.sampled_from(["", "nowhere.invalid", "x" * 300, "a\0b"])))
def test_no_address_is_a_fault(host: str) -> None:
    try:
        hosts.bind(config(host), has_keys=False).close()
    except ReadaheadError as error:
        assert error.exit_status == 2


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8321", "127.0.0.1:1", "[::1]:8321", "192.0.2.7", "Docs.Example:80"],
)
def test_known_names_and_addresses_are_answered(host: str) -> None:
    assert hosts.is_allowed(host, ["docs.example"])


@pytest.mark.parametrize(
    "host",
    [
        *("", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "localhost@evil"),
        *("[::1", "::1", "localhost:", "localhost:x", "a b", "x.docs.example", "[docs.example]"),
    ],
)
def test_other_names_are_not(host: str) -> None:
    assert not hosts.is_allowed(host, ["docs.example"])
