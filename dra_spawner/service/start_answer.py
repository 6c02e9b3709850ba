"""Answers a hub from the first moment of the process, while the service is still being imported.

JupyterHub 5 ends when a service that it manages does not answer within 10 s. On a busy machine the imports alone take
longer. This module imports as little as it can.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from collections.abc import Mapping
from typing import Final, Self
from urllib.parse import urlsplit

from tornado.netutil import bind_sockets

from dra_spawner.service.listening import interface_of

__all__ = ["StartAnswer"]

_LOOK_SECONDS: Final = 0.1
_CLIENT_SECONDS: Final = 1.0
_HEADERS: Final = "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\nCache-Control: no-store\r\n"
_TEXT: Final = "The service starts. Please reload this page in a few seconds.\n"
_REST: Final = f"{_HEADERS}Retry-After: 2\r\nRefresh: 2\r\nContent-Length: {len(_TEXT)}\r\n\r\n{_TEXT}"
#: The hub takes any answer below 500 to its own question for a service that runs; programs and probes are to wait.
_TO_THE_HUB: Final = f"HTTP/1.1 200 OK\r\n{_REST}".encode()
_TO_OTHERS: Final = f"HTTP/1.1 503 Service Unavailable\r\n{_REST}".encode()


class StartAnswer:
    """Listens at once, and hands its sockets over to the service.

    Parameters
    ----------
    port, address
        Where; an empty address is all interfaces.
    prefix
        Path of the page, which the hub asks for.

    Raises
    ------
    OSError
        If another process listens there.
    """

    def __init__(self, port: int, address: str, prefix: str) -> None:
        self._place = port, address
        self._questions = tuple(f"{method} {prefix} ".encode() for method in ("GET", "HEAD"))
        self._sockets = bind_sockets(port, address)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._answer_until_it_ends, name="start answer", daemon=True)
        self._thread.start()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self | None:
        """Answer at the address that a hub gives its service; None without one, or where one cannot listen."""
        parts = urlsplit(environment.get("JUPYTERHUB_SERVICE_URL", ""))
        prefix = environment.get("JUPYTERHUB_SERVICE_PREFIX", "")
        with contextlib.suppress(OSError, ValueError):  # of which the service itself will say more
            if parts.port and prefix:
                return cls(parts.port, interface_of(parts.hostname or ""), prefix)
        return None

    def hand_over(self, port: int, address: str) -> list[socket.socket]:
        """End, and return the sockets; none, and all closed, if the service listens elsewhere."""
        self._ends.set()
        self._thread.join()
        if self._place == (port, address):
            return self._sockets
        for each in self._sockets:
            each.close()
        return []

    def _answer_until_it_ends(self) -> None:
        while not self._ends.is_set():
            for each in select.select(self._sockets, [], [], _LOOK_SECONDS)[0]:
                with contextlib.suppress(OSError), each.accept()[0] as client:
                    client.settimeout(_CLIENT_SECONDS)
                    asks = client.recv(4096)
                    client.sendall(_TO_THE_HUB if asks.startswith(self._questions) else _TO_OTHERS)
