"""Headers of every response, and an answer to every fault: nothing leaves without them."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from readahead.server.problems import problem_of

SECURE = {
    # All that the page uses is its own: text of documents that gets into it as markup does nothing.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; font-src 'self'; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
NOT_KEPT = "no-store"
_PAGE = "/static/"  # its files say themselves how long they may be kept


class Headers:
    """Middleware: sets the headers, and turns what nobody caught into an error's envelope."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                _set(MutableHeaders(scope=message), scope["path"])
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            if has_begun:  # too late for another answer; the connection is cut
                raise
            await problem_of(error).response(scope, receive, send_with_headers)


def _set(headers: MutableHeaders, path: str) -> None:
    headers.update(SECURE)
    if not (path.startswith(_PAGE) and "cache-control" in headers):
        headers["Cache-Control"] = NOT_KEPT
