"""Who may ask: the name that is called, the key that is sent, the page that it comes from."""

from __future__ import annotations

import base64
import binascii
import logging
from contextlib import ExitStack

from fastapi import FastAPI
from starlette.datastructures import Headers as RequestHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from readahead.errors import StoreError
from readahead.server.guard.bodies import Bodies
from readahead.server.guard.headers import Headers
from readahead.server.guard.hosts import is_allowed
from readahead.server.guard.keys import Key
from readahead.server.guard.unread import Unread
from readahead.server.observability.logs import RequestLog
from readahead.server.problems import Problem, ended
from readahead.server.state import Caller, Service

OPEN = "/health"  # the one path that needs no key
CHALLENGE = 'Basic realm="readahead", charset="UTF-8"'
_SAFE = ("GET", "HEAD", "OPTIONS")
_METHODS = ("GET", "POST", "DELETE")
_TYPING = "/typing"  # a request a stroke: none of those that are counted
_SPENDING = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings")
_OWN_SITE = (None, "same-origin", "none")  # none: typed by a person
_log = logging.getLogger("readahead.server")


def install(app: FastAPI, service: Service) -> None:
    """Let no request reach ``app`` but through the guard, and none leave without its headers."""
    config = service.config.server
    app.add_middleware(Bodies, config=config)
    app.add_middleware(Guard, service=service)
    if config.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=config.cors_origins,
            allow_methods=_METHODS,
            allow_headers=("*",),  # those that are asked for: clients send some of their own
            expose_headers=("X-Request-Id", "Retry-After"),
            allow_credentials=False,  # a page elsewhere brings a key of its own
        )
    app.add_middleware(RequestLog, failed=service.metrics.failed)
    app.add_middleware(Headers)
    app.add_middleware(Unread)


class Guard:
    """Middleware: hands on what may be asked, with its caller in the scope's state."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # there is no such route
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            scope.setdefault("state", {})["caller"] = self._caller(scope)
        except Problem as problem:
            await problem.response(scope, receive, send)
            return
        if scope["method"] in _SAFE:
            await self._app(scope, receive, send)
        else:
            await self._serve_counted(scope, receive, send)

    async def _serve_counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, which is one that runs from when its body is there."""
        with ExitStack() as stack:

            async def counting() -> Message:
                message = await receive()
                if message["type"] == "http.request" and not message.get("more_body", False):
                    stack.enter_context(self._service.draining.running())
                return message

            await self._app(scope, counting, send)

    def _caller(self, scope: Scope) -> Caller:
        """Return who asks.

        Raises:
            Problem: Nobody who may.
        """
        headers = RequestHeaders(scope=scope)
        self._check_host(headers)
        if scope["path"] == OPEN:
            return Caller()
        key = self._key(headers)
        if scope["method"] not in _SAFE:
            self._check_origin(headers)
        if self._service.draining.has_begun:
            raise ended()
        if key is None:
            return Caller()
        self._check_budgets(key, scope)
        return Caller(key.name, key.tenant)

    def _check_host(self, headers: RequestHeaders) -> None:
        config = self._service.config.server
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not is_allowed(hosts[0], (config.host, *config.allowed_hosts)):
            raise Problem(
                403,
                f"This server is not called {(hosts or [''])[0]!r}. Add the name to the setting "
                "server.allowed_hosts, or use an address.",
                code="host_not_allowed",
            )

    def _key(self, headers: RequestHeaders) -> Key | None:
        """Return the key that was sent, None where none is needed."""
        secret, keys = _secret(headers), self._service.keys
        try:
            if not keys.are_needed():
                return None
            key = keys.find(secret) if secret else None
        except StoreError as error:  # it names a folder: nothing for whoever asks
            _log.error("no request is answered: %s", error)
            raise Problem(503, "The keys cannot be read; the log says why.", code="fault") from None
        if key is None:
            what = "This key is not known" if secret else "A key is needed"
            raise Problem(
                401,
                f"{what}. Send it as: Authorization: Bearer KEY",
                code="invalid_api_key",
                headers={"WWW-Authenticate": CHALLENGE},
            )
        return key

    def _check_origin(self, headers: RequestHeaders) -> None:
        """Refuse what a page of another site makes a browser send, with the key that it keeps."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is None:
            is_own = site in _OWN_SITE
        else:
            is_own = origin.partition("://")[2].lower() == headers["host"].lower()
        if not is_own and origin not in self._service.config.server.cors_origins:
            raise Problem(
                403,
                "This request comes from a page of another site. Add its origin to the setting "
                "server.cors_origins if it may.",
                code="cross_site",
            )

    def _check_budgets(self, key: Key, scope: Scope) -> None:
        path, budgets = scope["path"], self._service.budgets
        is_typing = path.endswith(_TYPING)
        if is_typing or path in _SPENDING:
            budgets.check_tokens(key)
        if scope["method"] not in _SAFE and not is_typing:
            budgets.count_request(key)


def _secret(headers: RequestHeaders) -> str:
    """Return the key in the headers: a bearer's, or the password that a browser asked for."""
    sent = headers.getlist("authorization")
    if len(sent) != 1:
        return ""
    scheme, _, value = sent[0].partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer":
        return value
    if scheme.lower() == "basic":
        return _password(value)
    return ""


def _password(encoded: str) -> str:
    try:
        return base64.b64decode(encoded, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        return ""
