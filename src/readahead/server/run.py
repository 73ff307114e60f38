"""Starting and ending a server over one knowledge base; knows no command line."""

from __future__ import annotations

import asyncio
import fcntl
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType

import uvicorn

from readahead.config import Config
from readahead.errors import InputError
from readahead.server.app import create_app
from readahead.server.guard.hosts import bind, url_of
from readahead.server.observability.logs import written
from readahead.server.state import Service

LOCK = ".serve.lock"
_CUT_OFF_S = 1  # for what does not end by itself, once there is nothing to wait for
Tell = Callable[[str], None]
Started = Callable[[str, Service], None]
"""Is told the address once requests are answered."""


def run(config: Config, *, tell: Tell, started: Started) -> None:
    """Serve until a signal; the first one drains, the second ends the process at once.

    What may be wrong is found out before a model is loaded.

    Raises:
        ConfigError: Others could reach the address, and no key is needed.
        InputError: The address cannot be used, or another server has this knowledge base.
        NotFound: A model was not pulled.
        StoreError: The knowledge base cannot be opened.
    """
    # From here on the service needs a key if there was one: nothing can be opened meanwhile.
    with closing(Service(config)) as service:
        has_keys = service.keys.are_needed()
        with (
            closing(bind(config.server, has_keys=has_keys)) as listener,
            only_server(config.kb, url_of(listener)),
        ):
            tell(f"Loading {config.models.target} …")
            service.tenant().engine.load()
            _ = service.loaded.drafter, service.loaded.judge
            with written(with_text=config.server.log_text):
                _Server(service, tell, lambda: started(url_of(listener), service)).run([listener])


@contextmanager
def only_server(kb: Path, url: str) -> Iterator[None]:
    """Let no other server have the knowledge base during the ``with`` body.

    Two would count one key's budget apart, and index the same uploads. Commands may go on using it.

    Raises:
        InputError: Another server has it.
    """
    kb.mkdir(parents=True, exist_ok=True)
    with (kb / LOCK).open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise InputError(
                f"Another server has {kb} already: {lock.read().strip()}.",
                remedy="Stop it, or choose another folder with --kb.",
            ) from None
        lock.truncate(0)
        lock.write(url)
        lock.flush()
        yield


class _Server(uvicorn.Server):
    """Uvicorn, but on a signal it goes on listening, to say 503, until all answers are done."""

    def __init__(self, service: Service, tell: Tell, on_started: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                create_app(service),
                ws="none",
                log_config=None,
                access_log=False,
                proxy_headers=False,  # no address of a client matters here
                server_header=False,
                timeout_graceful_shutdown=_CUT_OFF_S,
            )
        )
        self._draining = service.draining
        self._drain_s = service.config.server.drain_s
        self._tell = tell
        self._on_started = on_started

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve, and note the loop that does."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and say so."""
        await super().startup(sockets)
        if self.started:
            self._on_started()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain, or end at once if that has begun."""
        if self._draining.has_begun:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        self._draining.has_begun = True
        self._loop.call_soon_threadsafe(self._begin_to_drain)

    def _begin_to_drain(self) -> None:
        if self._draining.num_running:
            self._tell("Running answers finish; a second signal ends them.")
        self._task = self._loop.create_task(self._drain())

    async def _drain(self) -> None:
        await self._draining.finish(self._drain_s)
        self.should_exit = True
