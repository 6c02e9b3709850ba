"""Settings of the service that limit clients which are not authenticated yet."""

from __future__ import annotations

from traitlets import Float, HasTraits, Integer

from dra_spawner.service.http.api.placement_handler import MAX_BODY_BYTES
from dra_spawner.service.http.requests.limited_server import ServerLimits


class LimitTraits(HasTraits):
    """Mixed into the application."""

    max_connections = Integer(
        500,
        min=10,
        help="""
        Limit of open connections. One more closes the connection whose request began the longest ago, so probes are
        always answered. The process's limit of open files must be higher.
        """,
    ).tag(config=True)
    max_header_bytes = Integer(
        32768,
        min=1024,
        help="Limit of the header of a request, in bytes. A browser's header has all of the hub's cookies.",
    ).tag(config=True)
    header_seconds = Float(
        20.0,
        min=0.1,
        help="Limit of the seconds for the header of a request, and until an idle connection is closed.",
    ).tag(config=True)
    body_seconds = Float(10.0, min=0.1, help="Limit of the seconds for the body of a request.").tag(config=True)
    answer_seconds = Float(
        60.0,
        min=1.0,
        help="Limit of the seconds until the client has read its answer, after those for header and body.",
    ).tag(config=True)

    def server_limits(self) -> ServerLimits:
        """These settings, for the HTTP server."""
        return ServerLimits(
            connections=self.max_connections,
            header_bytes=self.max_header_bytes,
            header_seconds=self.header_seconds,
            body_bytes=MAX_BODY_BYTES,
            body_seconds=self.body_seconds,
            answer_seconds=self.answer_seconds,
        )
