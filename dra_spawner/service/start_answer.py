"""Answers to the hub from the process's first moment, while the service's modules are imported.

JupyterHub exits if a managed service does not answer in time: 10 s of JupyterHub 5, 30 s of JupyterHub 6. On a busy
machine the imports alone take longer.
This module imports as little as possible.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import select
import socket
import threading
from collections.abc import Mapping
from typing import Final, Self
from urllib.parse import urlsplit

from tornado.netutil import bind_sockets

_POLL_SECONDS: Final = 0.1
_CLIENT_SECONDS: Final = 1.0
_HEADERS: Final = "Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\nCache-Control: no-store\r\n"
_TEXT: Final = "The service is starting. Please reload this page in a few seconds.\n"
_REST: Final = f"{_HEADERS}Retry-After: 2\r\nRefresh: 2\r\nContent-Length: {len(_TEXT)}\r\n\r\n{_TEXT}"
#: For the hub any status below 500 means that the service runs. Programs and probes get 503, so that they wait.
_TO_THE_HUB: Final = f"HTTP/1.1 200 OK\r\n{_REST}".encode()
_TO_OTHERS: Final = f"HTTP/1.1 503 Service Unavailable\r\n{_REST}".encode()


class StartAnswer:
    """Listens at once, and later gives its sockets to the service.

    Parameters
    ----------
    port, address
        Port and address to listen on; an empty address means all interfaces.
    prefix
        Path of the service's pages. The hub requests it without the last slash (``jupyterhub.objects.Server.wait_up``).

    Raises
    ------
    OSError
        If another process listens there.
    """

    def __init__(self, port: int, address: str, prefix: str) -> None:
        self._place = port, address
        self._questions = tuple(
            f"{method} {path} ".encode() for method in ("GET", "HEAD") for path in (prefix, prefix.rstrip("/"))
        )
        self._sockets = bind_sockets(port, address)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._answer_until_it_ends, name="start answer", daemon=True)
        self._thread.start()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self | None:
        """Listen at the address that the hub gives its service; None without an address, or if listening fails."""
        parts = urlsplit(environment.get("JUPYTERHUB_SERVICE_URL", ""))
        prefix = environment.get("JUPYTERHUB_SERVICE_PREFIX", "")
        with contextlib.suppress(OSError, ValueError):  # the service will report the error
            if parts.port and prefix:
                return cls(parts.port, interface_of(parts.hostname or ""), prefix)
        return None

    def hand_over(self, port: int, address: str) -> list[socket.socket]:
        """Stop answering, and return the open sockets; if the service listens elsewhere, close them and return none."""
        self._ends.set()
        self._thread.join()
        if self._place == (port, address):
            return self._sockets
        for each in self._sockets:
            each.close()
        return []

    def _answer_until_it_ends(self) -> None:
        while not self._ends.is_set():
            for each in select.select(self._sockets, [], [], _POLL_SECONDS)[0]:
                with contextlib.suppress(OSError), each.accept()[0] as client:
                    client.settimeout(_CLIENT_SECONDS)
                    asks = client.recv(4096)
                    client.sendall(_TO_THE_HUB if asks.startswith(self._questions) else _TO_OTHERS)


def interface_of(host: str) -> str:
    """The address to listen on for the host of a URL; empty for all interfaces."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return ""
