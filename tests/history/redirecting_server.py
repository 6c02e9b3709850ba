"""A server of JSON that may redirect."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    """It redirects to `target`, if there is one, and remembers what it was asked."""

    target = ""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str]] = []
        self.address = f"127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization", "")))
        self.send_response(302 if self.server.target else 200)
        if self.server.target:
            self.send_header("Location", self.server.target)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def two_servers() -> Iterator[tuple[Server, Server]]:
    """Serve by two of them."""
    made = (Server(), Server())
    for each in made:
        threading.Thread(target=each.serve_forever, args=(0.01,), daemon=True).start()
    yield made
    for each in made:
        each.shutdown()
        each.server_close()
