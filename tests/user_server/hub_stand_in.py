"""A hub's answers about devices, for tests of programs in a server."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER: dict[str, Any] = {
    "version": 1,
    "node": "node-a",
    "warm": True,
    "place": "10 GiB of gpu-0 on node-a, already prepared",
    "devices": [
        {
            "claim": "gpu",
            "request": "gpu",
            "driver": "gpu.example.com",
            "pool": "node-a",
            "name": "gpu-0",
            "device_class": "gpu-share.example.com",
            "product": "Example 40",
            "share": [{"capacity": "memory", "amount": "10Gi", "total": "40Gi", "text": "10 GiB of 40 GiB"}],
            "enforcement": {"by": "none", "sentence": "Nothing enforces it."},
            "network": None,
            "health": {"state": "healthy", "sentence": "The machine reports that this device works."},
        },
        {
            "claim": "nic",
            "request": "nic",
            "driver": "dra.net",
            "pool": "node-a",
            "name": "nic-0",
            "network": {"interface": "net1", "hardware_address": "02:00:00:00:00:01", "addresses": ["10.42.0.7/24"]},
            "health": {"state": "unhealthy", "sentence": "The machine reports that this device does not work."},
        },
    ],
}

Respond = Callable[[BaseHTTPRequestHandler], None]


def json_answer(answer: object, status: int = 200) -> Respond:
    def respond(handler: BaseHTTPRequestHandler) -> None:
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return respond


@contextlib.contextmanager
def hub_that(respond: Respond) -> Iterator[dict[str, str]]:
    """The environment of a server whose hub responds so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            own = ("/base/hub/dra-spawner/devices", "/base/hub/dra-spawner/activity")
            if self.path in own and self.headers["Authorization"] == "token secret":
                with contextlib.suppress(OSError):
                    respond(self)
            else:
                self.send_error(418)

        do_POST = do_GET  # noqa: N815 (as http.server wants it)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield {
            "JUPYTERHUB_API_URL": f"http://127.0.0.1:{server.server_address[1]}/base/hub/api",
            "JUPYTERHUB_API_TOKEN": "secret",
            "JUPYTERHUB_USER": "ada",
        }
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
