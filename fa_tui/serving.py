"""Access to the server: its own pages, asked for by its own name, on this machine.

A browser lets any page send requests to 127.0.0.1. The token in the address keeps out who does not
know it; the Host check keeps out pages whose name was made to point here (DNS rebinding); the
Origin check keeps out other pages' WebSockets, which no browser rule stops.

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
    # the page names a font of another host: it is not asked for, and no address with a token goes
    # there
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
"""What a page has of its own: a title, an icon, and no splash over the terminal."""


def guard(host: str, title: str) -> Middleware:
    """Refuses requests that name another host or come from another page, and marks every answer as
    private.

    Args:
        host: the server's address and port, as in the address that is printed.
        title: of every page.
    """
    ours = f"http://{host}"
    headers = {name: value.format(host=host) for name, value in HEADERS.items()}

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        # every WebSocket of a browser says where it comes from; a page that is opened does not
        origin = request.headers.get("Origin", "" if request.path.endswith("/ws") else ours)
        if request.host != host or origin != ours:
            raise web.HTTPForbidden(
                text=f"Open the address as it was printed: {ours}/...\n", headers=headers
            )
        if request.path.endswith("/") and "/static/" in request.path:
            raise web.HTTPNotFound(headers=headers)  # no lists of files
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
    """Serves a program to browsers that know the address.

    Args:
        command: the program, word by word (textual-serve gives it to a shell: it is quoted here).
        port: where; 0 takes a free one.
        title: of the page.

    Raises:
        UsageError: the port is taken or not allowed.
    """

    def __init__(self, command: Sequence[str], port: int, title: str) -> None:
        self._socket = _listen(port)
        bound: int = self._socket.getsockname()[1]
        self.token = secrets.token_urlsafe(24)
        # without the token: the routes below add it
        address = f"http://{LOOPBACK}:{bound}"
        super().__init__(
            shlex.join(command), host=LOOPBACK, port=bound, title=title, public_url=address
        )

    @property
    def address(self) -> str:
        """What to open in the browser."""
        return f"{self.public_url}/{self.token}/"

    async def make_app(self) -> web.Application:
        """The guarded application: everything is under the token, and nothing else is anywhere."""
        app = web.Application(middlewares=[guard(f"{LOOPBACK}:{self.port}", self.title)])
        app.add_subapp(f"/{self.token}", await self._make_app())
        return app

    async def on_startup(self, app: web.Application) -> None:
        """Say nothing: the caller prints the address."""

    def serve(self, debug: bool = False, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until interrupted or terminated.

        Args:
            debug: as textual-serve takes it.
            ready: called when connections are taken.
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
