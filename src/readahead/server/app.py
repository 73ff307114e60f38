"""The server: routes, what guards them, and how it begins and ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from readahead import __version__
from readahead.server import problems
from readahead.server.guard import middleware
from readahead.server.observability import metrics
from readahead.server.routes import (
    catalogue,
    chat,
    completions,
    documents,
    embeddings,
    health,
    page,
    search,
    sessions,
    traces,
)
from readahead.server.schemas import openapi
from readahead.server.state import Service
from readahead.server.upkeep import expire_sessions, give_back_memory

ROUTERS = (
    chat,
    completions,
    embeddings,
    catalogue,
    documents,
    search,
    sessions,
    traces,
    health,
    metrics,
    page,
)
UPKEEP = (expire_sessions, give_back_memory)


def create_app(service: Service) -> FastAPI:
    """Return the application over ``service``, which is closed when the server ends."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(service.resume)
        tasks = [asyncio.create_task(keep(service)) for keep in UPKEEP]
        yield
        for task in tasks:
            task.cancel()
        # Answers that are cut off end by a step of this loop, so it must not wait for them itself.
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="readahead",
        version=__version__,
        docs_url=None,  # it loads scripts from elsewhere
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
        lifespan=lifespan,
    )
    app.state.service = service
    problems.install(app, [route for module in ROUTERS for route in module.router.routes])
    middleware.install(app, service)
    for module in ROUTERS:
        app.include_router(module.router)
    openapi.install(app)
    return app
