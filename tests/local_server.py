"""HTTP servers in the test's process, and a client."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import aiohttp
from aiohttp import web
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """The address, without a slash at its end; the handler answers all requests."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return await handler(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with serving_app(app) as url:
        yield url


@contextlib.asynccontextmanager
async def serving_app(
    app: web.Application, *, encryption: ssl.SSLContext | None = None, **options: Any
) -> AsyncIterator[str]:
    """The address of an aiohttp application."""
    # With a limit of zero, aiohttp waits for ever for an answer that is under way.
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, **options)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=encryption).start()
        yield f"http{'s' if encryption is not None else ''}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def serving_tornado(server: HTTPServer) -> AsyncIterator[str]:
    """The address of a Tornado server."""
    (listening,) = bind_sockets(0, "127.0.0.1")
    server.add_sockets([listening])
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.stop()
        await server.close_all_connections()


async def get(address: str) -> tuple[int, str]:
    """Status and text of the answer."""
    async with aiohttp.ClientSession() as session, session.get(address) as answer:
        return answer.status, await answer.text()
