"""Who may talk to the server: pages that it gave out itself, asked for by its own name, on this machine.

A browser lets any page send requests to 127.0.0.1. The token in the address keeps out whoever does not
know it; the Host check keeps out pages whose name was made to point here (DNS rebinding); the Origin
check keeps out other pages' WebSockets, which no browser rule stops.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web
from aiohttp.typedefs import Middleware

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HEADERS: Mapping[str, str] = {
    # the page names a font of another host: it is not asked for, and no address with a token goes there
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


def guard(host: str) -> Middleware:
    """Refuses requests that name another host or come from another page, and marks every answer as private.

    Args:
        host: the server's address and port, as in the address that was told.
    """
    ours = f"http://{host}"
    headers = {name: value.format(host=host) for name, value in HEADERS.items()}

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        # every WebSocket of a browser says where it comes from; a page that is opened does not
        origin = request.headers.get("Origin", "" if request.path.endswith("/ws") else ours)
        if request.host != host or origin != ours:
            raise web.HTTPForbidden(text=f"Open the address as it was told: {ours}/...\n", headers=headers)
        if request.path.endswith("/") and "/static/" in request.path:
            raise web.HTTPNotFound(headers=headers)  # no lists of files
        try:
            response = await handler(request)
        except web.HTTPException as error:
            error.headers.update(headers)
            raise
        if not response.prepared:
            response.headers.update(headers)
        return response

    return check
