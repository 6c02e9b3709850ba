"""An HTTP server with limits of connections, sizes and times, for clients that are not authenticated yet."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPConnection, HTTPInputError, HTTPMessageDelegate
from tornado.iostream import IOStream
from tornado.log import app_log
from tornado.web import Application

#: Limit of bytes that are read from a connection at once.
_CHUNK_BYTES = 2**14


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of every client.

    Attributes
    ----------
    connections
        Number of open connections. One more closes the connection whose request began the longest ago, so a probe is
        always answered. There is no limit by address: behind a proxy all clients have the same address.
    header_seconds
        Time for the header of a request, from the end of the previous request.
    answer_seconds
        Time until the client has read the answer.
    """

    connections: int = 500
    header_bytes: int = 2**15
    header_seconds: float = 20.0
    body_bytes: int = 3 * 2**16
    body_seconds: float = 10.0
    answer_seconds: float = 60.0

    @property
    def request_seconds(self) -> float:
        """Seconds for a whole request, from the end of the previous one."""
        return self.header_seconds + self.body_seconds + self.answer_seconds


class _InvalidBodies(logging.Filter):
    """Drops tornado's errors about invalid bodies that were read after their time was over.

    tornado logs each with a traceback, as if the server had a defect. The client gets no answer in either case.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HTTPInputError)


_INVALID_BODIES = _InvalidBodies()


class LimitedServer(HTTPServer):
    """Serves an application within `ServerLimits`."""

    def initialize(  # type: ignore[override]
        self, application: Application, limits: ServerLimits | None = None, **options: Any
    ) -> None:
        self._limits = limits = limits or ServerLimits()
        app_log.addFilter(_INVALID_BODIES)
        #: Timer of each connection, in the order in which their requests began.
        self._deadlines: dict[IOStream, asyncio.TimerHandle] = {}
        super().initialize(
            application,
            max_header_size=limits.header_bytes,
            max_body_size=limits.body_bytes,
            idle_connection_timeout=limits.header_seconds,
            body_timeout=limits.body_seconds,
            chunk_size=_CHUNK_BYTES,
            max_buffer_size=limits.header_bytes + limits.body_bytes + 2 * _CHUNK_BYTES,
            decompress_request=False,
            **options,
        )

    @property
    def open_connections(self) -> int:
        return len(self._deadlines)

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        while len(self._deadlines) >= self._limits.connections:
            oldest = next(iter(self._deadlines))
            self._forget(oldest)
            oldest.close()
        self._set_deadline(stream)
        super().handle_stream(stream, address)

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        self._set_deadline(_stream_of(server_conn))
        return super().start_request(server_conn, request_conn)

    def on_close(self, server_conn: object) -> None:
        self._forget(_stream_of(server_conn))
        super().on_close(server_conn)

    def _set_deadline(self, stream: IOStream) -> None:
        """Limit the whole request. tornado limits only header and body, not the time in which the answer is read."""
        self._forget(stream)
        if not stream.closed():
            loop = asyncio.get_running_loop()
            self._deadlines[stream] = loop.call_later(self._limits.request_seconds, stream.close)

    def _forget(self, stream: IOStream) -> None:
        deadline = self._deadlines.pop(stream, None)
        if deadline is not None:
            deadline.cancel()


def _stream_of(server_conn: Any) -> IOStream:
    stream: IOStream = server_conn.stream
    return stream
