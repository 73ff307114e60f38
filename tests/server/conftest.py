"""A server over a few documents with the tiny random model: in process, and on a real port."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import uvicorn
from apsw import Connection
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from readahead.config import Config, load_config
from readahead.lm.model import TransformersModel
from readahead.retrieval.database import Database
from readahead.server.app import create_app
from readahead.server.state import Service

TEXTS = {
    "lake.md": "# Lake Baikal\n\nLake Baikal is the deepest lake. It is 1,642 metres deep.\n",
    "tower.md": "# Eiffel Tower\n\nThe Eiffel Tower was finished in 1889. It stands in Paris.\n",
    "水.md": "# 水\n\n水在一百摄氏度沸腾。\n",
}
Full = Callable[[], AbstractContextManager[None]]


def make_config(folder: Path, **more: object) -> Config:
    """Return settings for a fast server; ``more`` are dotted names with __ for the dot."""
    settings: dict[str, object] = {
        "kb": folder / "kb",
        "retrieval.mode": "lexical",
        "generation.max_new_tokens": 12,
    }
    return load_config(settings | {name.replace("__", "."): more[name] for name in more})


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return make_config(tmp_path)


@pytest.fixture
def service(config: Config, model: TransformersModel, tmp_path: Path) -> Iterator[Service]:
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    service = Service(config, model)
    service.tenant().engine.knowledge.add([tmp_path / name for name in TEXTS])
    yield service
    service.close()


@pytest.fixture
def client(service: Service) -> Iterator[TestClient]:
    with TestClient(create_app(service), base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture
def served(service: Service) -> Iterator[str]:
    """Serve on a free port of the loopback interface and give the address."""
    with listening(create_app(service)) as address:
        yield address


@contextmanager
def listening(app: ASGIApp) -> Iterator[str]:
    """Serve ``app`` during the ``with`` body."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = uvicorn.Config(app, port=port, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Full:
    """Let no database grow during a ``with`` body, as on a disk that is full."""
    connection = Database._connection

    def limited(database: Database) -> Connection:
        found = connection(database)
        found.pragma("max_page_count", 1)  # or as many as it has by now
        return found

    def unlimited(database: Database) -> Connection:
        found = connection(database)
        found.pragma("max_page_count", 2**32 - 2)
        return found

    @contextmanager
    def fill() -> Iterator[None]:
        monkeypatch.setattr(Database, "_connection", limited)
        yield
        monkeypatch.setattr(Database, "_connection", unlimited)

    return fill
