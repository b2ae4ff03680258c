"""Web server of the explorer, for this machine only.

A browser lets any page send requests to 127.0.0.1. A secret token in the address, a check of Host
(DNS rebinding) and a check of Origin (WebSockets of other pages) keep these out.

textual-serve behind a token, on the loopback address only.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shlex
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from html import escape

from aiohttp import web
from aiohttp.typedefs import Middleware
from textual_serve.server import Server

from fa_core.errors import UsageError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HEADERS: Mapping[str, str] = {
    # the page's font is on another host: not loaded, so that no address with a token is sent there
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; font-src 'self' data:; connect-src 'self' ws://{host}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


_HEAD = """<title>{title}</title>
<link rel="icon" href="data:image/svg+xml,\
<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'>\
<path d='M1 14V9h3v5M6 14V5h3v9M11 14V1h3v13' fill='%23d9822b'/></svg>">
<style>.intro-dialog {{ display: none !important; }}</style></head>"""
"""Changes to textual-serve's page: title, icon, no splash screen."""


def guard(host: str, title: str) -> Middleware:
    """Middleware that refuses requests with another Host or Origin, and marks responses as private.

    Args:
        host: the server's address and port, as in the address that is printed.
        title: of the pages.
    """
    ours = f"http://{host}"
    headers = {name: value.format(host=host) for name, value in HEADERS.items()}

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        # browsers send Origin with every WebSocket, but not with an opened page
        origin = request.headers.get("Origin", "" if request.path.endswith("/ws") else ours)
        if request.host != host or origin != ours:
            raise web.HTTPForbidden(
                text=f"Open the address as it was printed: {ours}/...\n", headers=headers
            )
        if request.path.endswith("/") and "/static/" in request.path:
            raise web.HTTPNotFound(headers=headers)  # no directory listings
        try:
            response = await handler(request)
        except web.HTTPException as error:
            error.headers.update(headers)
            raise
        if not response.prepared:
            response.headers.update(headers)
            if (
                isinstance(response, web.Response)
                and response.content_type == "text/html"
                and response.text
            ):
                response.text = response.text.replace(
                    "</head>", _HEAD.format(title=escape(title)), 1
                )
        return response

    return check


LOOPBACK = "127.0.0.1"


class TokenServer(Server):
    """Serves a program in browsers, under a secret address.

    Args:
        command: the program's arguments, quoted here for textual-serve's shell.
        port: the port; 0 = a free one.
        title: of the page.

    Raises:
        UsageError: the port is taken or not allowed.
    """

    def __init__(self, command: Sequence[str], port: int, title: str) -> None:
        self._socket = _listen(port)
        bound: int = self._socket.getsockname()[1]
        self.token = secrets.token_urlsafe(24)
        # without the token, which the routes below add
        address = f"http://{LOOPBACK}:{bound}"
        super().__init__(
            shlex.join(command), host=LOOPBACK, port=bound, title=title, public_url=address
        )

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        return f"{self.public_url}/{self.token}/"

    async def make_app(self) -> web.Application:
        """The guarded application; all routes are under the token."""
        app = web.Application(middlewares=[guard(f"{LOOPBACK}:{self.port}", self.title)])
        app.add_subapp(f"/{self.token}", await self._make_app())
        return app

    async def on_startup(self, app: web.Application) -> None:
        """Print nothing: the caller prints the address."""

    def serve(self, debug: bool = False, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until interrupted or terminated.

        Args:
            debug: as in textual-serve.
            ready: called once the server accepts connections.
        """
        self.debug = debug
        asyncio.run(self._serve(ready))

    async def _serve(self, ready: Callable[[], None]) -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # Windows
                loop.add_signal_handler(number, ended.set)
        # no access log: it would print the token
        runner = web.AppRunner(await self.make_app(), access_log=None, handle_signals=False)
        await runner.setup()
        try:
            await web.SockSite(runner, self._socket, shutdown_timeout=2.0).start()
            ready()
            await ended.wait()
        finally:
            await runner.cleanup()


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
    except OSError as error:
        listener.close()
        what = f"cannot listen on port {port} ({error.strerror})"
        raise UsageError(what, where="--port", hint="take another, or 0 for a free one") from error
    return listener
