"""A server of calendars, which may be hostile."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

TEXT = "BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n"


class Server:
    """A server of calendars that remembers what it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[tuple[str, str]] = []
        self.targets: dict[str, str] = {}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, request.headers.get("Authorization", "")))
        if request.path in self.targets:
            return web.Response(status=302, headers={"Location": self.targets[request.path]})
        match request.path:
            case "/good.ics":
                return web.Response(text=TEXT)
            case "/tagged.ics" if request.headers.get("If-None-Match") == '"1"':
                return web.Response(status=304)
            case "/tagged.ics":
                return web.Response(text=TEXT, headers={"ETag": '"1"'})
            case "/gzip.ics":
                return self._encoded(gzip.compress(TEXT.encode()), "gzip")
            case "/bomb.ics":
                return self._encoded(gzip.compress(bytes(200_000_000)), "gzip")
            case "/part.ics":
                return self._encoded(gzip.compress(TEXT.encode())[:-9], "gzip")
            case "/no-gzip.ics":
                return self._encoded(b"BEGIN", "gzip")
            case "/brotli.ics":
                return self._encoded(b"BEGIN", "br")
            case "/empty.ics":
                return web.Response(status=204)
            case "/endless.ics":
                stream = web.StreamResponse()
                await stream.prepare(request)
                for _ in range(50):
                    await stream.write(b"x" * 100_000)
                return stream
        raise web.HTTPNotFound

    @staticmethod
    def _encoded(content: bytes, encoding: str) -> web.Response:
        return web.Response(body=content, headers={"Content-Encoding": encoding})


@asynccontextmanager
async def served() -> AsyncIterator[Server]:
    server = Server()
    app = web.Application()
    app.router.add_get("/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        await runner.cleanup()
