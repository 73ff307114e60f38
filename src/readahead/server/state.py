"""What the routes share: engines by tenant, one set of models, and who is asking."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Request

from readahead.config import Config
from readahead.engine import Engine
from readahead.errors import StoreError
from readahead.knowledge import KnowledgeBase
from readahead.lm.model import TransformersModel
from readahead.loading import Loaded
from readahead.server.admission import Admission
from readahead.server.conversing import Sessions
from readahead.server.draining import Draining
from readahead.server.guard.budgets import Budgets
from readahead.server.guard.keys import Keys
from readahead.server.jobs import Jobs
from readahead.server.observability import logs
from readahead.server.observability.metrics import Metrics
from readahead.server.observability.telemetry import open_telemetry
from readahead.server.spool import UPLOADS, Spool
from readahead.trace import Trace

TENANTS = "tenants"  # the folder of their knowledge bases
MAX_SHORT_TASKS = 8
MAX_BRIEF = 8
MAX_PROBES = 4
_log = logging.getLogger("readahead.server")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request.

    Attributes:
        key: The name of the API key, "" where none is needed.
        tenant: Whose documents and memory it may use, "" for those of the server itself.
    """

    key: str = ""
    tenant: str = ""

    @property
    def name(self) -> str:
        """Return with whom it takes turns: a tenant's keys are one."""
        return self.tenant or self.key


class Tenant:
    """One tenant's documents, and what was read of them; shared with nobody.

    The prefix tree belongs to the engine, and each tenant has an engine of its own: no time to
    first token tells what another one has read.
    """

    def __init__(self, name: str, engine: Engine) -> None:
        self.name = name
        self.engine = engine
        self.jobs = Jobs(engine)
        server = engine.config.server
        self.sessions = Sessions(
            server.max_sessions, server.session_idle_s, budget_bytes=self._session_bytes
        )

    def close(self) -> None:
        """Close what is open, without the models."""
        self.jobs.close()
        self.sessions.close()
        self.engine.forget()
        self.engine.knowledge.close()

    def _session_bytes(self) -> int:
        """Return the memory that what its sessions have read may take."""
        own = self.engine.config.server.session_bytes
        return self.engine.reader.tree.budget_bytes if own is None else own


@dataclass(slots=True)
class _Spending:
    """Who pays for the choices of one request; their prompt counts once, as in its ``usage``."""

    caller: Caller
    is_prompt_paid: bool = False

    def num_tokens(self, trace: Trace) -> int:
        """Return how many tokens the next choice costs."""
        num_read = 0 if self.is_prompt_paid else trace.counters.get("prompt_tokens", 0)
        self.is_prompt_paid = True
        return num_read + trace.counters.get("completion_tokens", 0)


class Service:
    """All that outlives a request.

    Args:
        config: Settings; ``kb`` holds the server's own documents, and below it those of tenants.
        target: Instead of the model that ``config`` names.

    Raises:
        ConfigError: Telemetry is asked for, and its extra is not installed.
    """

    def __init__(self, config: Config, target: TransformersModel | None = None) -> None:
        self.config = config
        self.started_at = time.time()
        self.loaded = Loaded(config, target)
        self.admission = Admission(config.server.max_running, config.server.max_queued)
        self.brief = Admission(MAX_BRIEF, config.server.max_queued)  # what writes nothing
        self.keys = Keys.of(config.kb)
        self.budgets = Budgets(config.kb, config.server)
        self.draining = Draining()
        self._of_thread = threading.local()
        self.threads = ThreadPoolExecutor(config.server.max_running, "answer")
        self.short_tasks = CapacityLimiter(MAX_SHORT_TASKS)  # threads that wait for no model
        self.probes = CapacityLimiter(MAX_PROBES)  # threads that nobody else takes
        self._tenants: dict[str, Tenant] = {}
        self._lock = threading.Lock()
        self.metrics = Metrics(self)
        self._spans = open_telemetry(config.server)

    def check_budget(self, caller: Caller) -> None:
        """Raise Problem, 429, if the caller's key has used its tokens of today by now."""
        for key in self.keys.all() if caller.key else ():
            if key.name == caller.key:
                self.budgets.check_tokens(key)

    @contextmanager
    def spending(self, caller: Caller) -> Iterator[None]:
        """Count the tokens of answers that end on this thread meanwhile, also if they are cut.

        They are the choices of one request.
        """
        self._of_thread.spending = _Spending(caller)
        try:
            yield
        finally:
            del self._of_thread.spending

    def saw(self, trace: Trace) -> None:
        """Count, log and report a finished answer; none of that may cost the answer."""
        if isinstance(error := sys.exception(), Exception):  # that ends it, and passes by here
            trace.attributes |= {"finish_reason": "failed", "error": type(error).__name__}
        if spending := getattr(self._of_thread, "spending", None):
            self.budgets.spend(spending.caller, spending.num_tokens(trace))
        try:
            logs.saw(trace, with_text=self.config.server.log_text)
            self.metrics.saw(trace)
            if self._spans is not None:
                self._spans.saw(trace)
        except Exception:
            _log.exception("a trace could not be counted")

    def tenant(self, name: str = "") -> Tenant:
        """Return a tenant, opened at its first request.

        Raises:
            StoreError: Its knowledge base cannot be opened.
        """
        if (known := self._tenants.get(name)) is not None:  # no lock: another may be opened now
            return known
        with self._lock:
            if name not in self._tenants:
                config = self.config.model_copy(update={"kb": self.folder(name)})
                knowledge = KnowledgeBase.open(config, load=lambda: self.loaded.embedder)
                knowledge.on_trace = self.saw
                self._tenants[name] = Tenant(name, Engine(knowledge, loaded=self.loaded))
            return self._tenants[name]

    def resume(self) -> None:
        """Open the tenants whose uploads wait to be indexed, which goes on then."""
        folder = self.config.kb / TENANTS
        names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        for name in ("", *names):
            if Spool(self.folder(name) / UPLOADS).is_waiting:
                try:
                    self.tenant(name)
                except StoreError as error:
                    _log.error("the uploads of tenant %r wait: %s", name, error)

    def open_tenants(self) -> list[Tenant]:
        """Return the tenants that have asked something; waits for nothing."""
        return list(self._tenants.values())

    def folder(self, name: str) -> Path:
        """Return the folder of a tenant's knowledge base."""
        return self.config.kb / TENANTS / name if name else self.config.kb

    def close(self) -> None:
        """Close all tenants and end the thread that has the models."""
        self.threads.shutdown()
        with self._lock:
            for tenant in self._tenants.values():
                tenant.close()
            self._tenants.clear()
            self.loaded.turns.close()
        if self._spans is not None:
            self._spans.close()


def service_of(request: Request) -> Service:
    """Return what the server's routes share."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


def caller_of(request: Request) -> Caller:
    """Return who sent the request, as the guard found."""
    caller = getattr(request.state, "caller", None)
    return caller if isinstance(caller, Caller) else Caller()


# Asynchronous: else each took one of the threads that may all be waiting for the model, and nobody
# would come as far as the queue.
async def _service(request: Request) -> Service:
    return service_of(request)


async def _caller(request: Request) -> Caller:
    return caller_of(request)


async def _tenant(request: Request) -> Tenant:
    service, name = service_of(request), caller_of(request).tenant
    return await to_thread.run_sync(service.tenant, name, limiter=service.short_tasks)


async def _brief(request: Request) -> AsyncIterator[None]:
    service, caller = service_of(request), caller_of(request)
    async with service.brief.place(caller.name):
        yield


ServiceOf = Annotated[Service, Depends(_service)]
CallerOf = Annotated[Caller, Depends(_caller)]
TenantOf = Annotated[Tenant, Depends(_tenant)]
"""Whose documents the request may use."""
BRIEF = [Depends(_brief, scope="function")]  # not while a slow client reads
"""For routes whose thread may wait for a model: a few at a time, and beyond a bound 429."""
