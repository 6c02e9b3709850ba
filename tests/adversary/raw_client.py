"""A client that sends any bytes, one by one, and sees when the other side ends the connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class RawClient:
    """One connection to a server.

    Parameters
    ----------
    receive_bytes
        Bytes of the receive buffer, which fills if the test reads nothing; the system's default if 0.
    """

    def __init__(self, url: str, *, receive_bytes: int = 0) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 0)
        self._receive_bytes = receive_bytes
        self._socket = socket.socket()
        self.received = bytearray()

    async def __aenter__(self) -> Self:
        self._socket.setblocking(False)
        if self._receive_bytes:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_bytes)
        await asyncio.get_running_loop().sock_connect(self._socket, self._address)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()

    async def send(self, data: bytes) -> bool:
        """Send it all; False if the other side takes no more."""
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, data)
        except (ConnectionError, OSError):
            return False
        return True

    async def read_some(self) -> bool:
        """Read the available bytes; False at the end."""
        try:
            found = await asyncio.get_running_loop().sock_recv(self._socket, 2**16)
        except (ConnectionError, OSError):
            return False
        self.received += found
        return bool(found)

    async def until_closed(self, seconds: float) -> bytes:
        """All that is sent until the other side ends the connection, which it must within this time."""
        async with asyncio.timeout(seconds):
            while await self.read_some():
                pass
        return bytes(self.received)

    async def is_closed(self, seconds: float) -> bool:
        """Whether the other side ends the connection within this time."""
        with contextlib.suppress(TimeoutError):
            await self.until_closed(seconds)
            return True
        return False


def request(method: str, path: str, *headers: str, body: bytes = b"") -> bytes:
    """A request as it is sent, with `headers` and a length that is said there or nowhere."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


class Answer:
    """A server's answer, or nothing."""

    def __init__(self, raw: bytes) -> None:
        head, _, self.body = raw.removeprefix(b"HTTP/1.1 100 (Continue)\r\n\r\n").partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split()[1]) if first else 0
        self.headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
        self.raw = raw

    @property
    def message(self) -> str:
        return str(json.loads(self.body)["detail"])
