"""Settings of the service about what one client may take, before it is known who asks."""

from __future__ import annotations

from traitlets import Float, HasTraits, Integer

from dra_spawner.service.http.limited_server import ServerLimits
from dra_spawner.service.http.placement_handler import MOST_BODY_BYTES

__all__ = ["LimitTraits"]


class LimitTraits(HasTraits):
    """Mixed into the application."""

    most_connections = Integer(
        500,
        min=10,
        help="""
        Connections open at once. One more closes the one whose request began, or was awaited, the longest ago: whoever
        opens many closes their own, and probes are answered. The limit of open files of the process must be above it.
        """,
    ).tag(config=True)
    most_header_bytes = Integer(
        32768,
        min=1024,
        help="Bytes that the header of a request may have; all of the hub's cookies are in a browser's.",
    ).tag(config=True)
    header_seconds = Float(
        20.0,
        min=0.1,
        help="Seconds after which a connection is closed that has not sent a whole header: idle ones, too.",
    ).tag(config=True)
    body_seconds = Float(
        10.0, min=0.1, help="Seconds after which a connection is closed that has not sent the body of its request."
    ).tag(config=True)
    answer_seconds = Float(
        60.0,
        min=1.0,
        help="Seconds, besides those for header and body, in which a client must have read its answer.",
    ).tag(config=True)

    def server_limits(self) -> ServerLimits:
        """All of it, for the room below."""
        return ServerLimits(
            connections=self.most_connections,
            header_bytes=self.most_header_bytes,
            header_seconds=self.header_seconds,
            body_bytes=MOST_BODY_BYTES,
            body_seconds=self.body_seconds,
            answer_seconds=self.answer_seconds,
        )
