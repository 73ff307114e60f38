import socket
from contextlib import closing
from pathlib import Path

import pytest

from readahead.errors import ConfigError, InputError, NotFound
from readahead.server import run as running
from readahead.server.guard.keys import Keys
from readahead.server.state import Service
from tests.server.conftest import make_config


def never(url: str, service: Service) -> None:
    raise AssertionError("it must not start")


def run(folder: Path, **settings: object) -> list[str]:
    """Run a server that cannot start, and return what it told before it said why."""
    told: list[str] = []
    running.run(make_config(folder, **settings), tell=told.append, started=never)
    return told


def test_what_is_wrong_is_found_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Others could reach"):
        run(tmp_path, server__host="0.0.0.0")
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match="cannot be used"):
            run(tmp_path, server__port=port)
    assert list(tmp_path.iterdir()) == []  # not even a folder was made


def test_a_model_that_is_not_here_ends_it(tmp_path: Path) -> None:
    for setting in ("models__target", "models__drafter"):
        with pytest.raises(NotFound, match="nothing-of-the-kind"):
            run(tmp_path, server__port=0, **{setting: "nothing-of-the-kind"})
    with running.only_server(tmp_path / "kb", "again"):
        pass  # the lock and the store were given back


def test_a_knowledge_base_has_one_server(tmp_path: Path) -> None:
    with running.only_server(tmp_path / "kb", "http://127.0.0.1:1"):
        with pytest.raises(InputError, match=r"Another server has .*: http://127\.0\.0\.1:1\."):
            run(tmp_path, server__port=0)
        with running.only_server(tmp_path / "other", "http://127.0.0.1:2"):
            pass
    with running.only_server(tmp_path / "kb", "http://127.0.0.1:3"):
        assert (tmp_path / "kb" / running.LOCK).read_text() == "http://127.0.0.1:3"


def test_with_a_key_it_may_be_reached(tmp_path: Path) -> None:
    Keys(tmp_path / "kb").add("ann")
    with pytest.raises(NotFound, match="nothing-of-the-kind"):  # it came as far as the models
        run(tmp_path, server__host="0.0.0.0", server__port=0, models__target="nothing-of-the-kind")
