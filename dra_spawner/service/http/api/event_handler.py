"""Handler of the stream of changes."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from tornado.iostream import StreamClosedError

from dra_spawner.service.change_feed import TooManyStreams
from dra_spawner.service.http.requests.authentication import ApiHandler
from dra_spawner.service.http.requests.endpoints import EVENTS, Access, Query, endpoint
from dra_spawner.service.http.schemas.schema_parts import text

#: A stream ends then, and the client comes back: so its token is checked again, and the server's limit is kept.
_STREAM_SECONDS: Final = 45.0
_LONGEST_ID: Final = 40
#: An `EventSource` of a browser sends no header when it connects for the first time.
_AFTER: Final = Query("after", "As `Last-Event-ID`, which has precedence.", text("5f3a9c01-17"))


class EventsHandler(ApiHandler):
    """``GET api/events``: server-sent events. `Last-Event-ID` continues a stream."""

    _work: asyncio.Task[object] | None = None
    _is_closed = False

    @endpoint(
        "Server-sent events: which lists have changed, and each decision. `Last-Event-ID` continues a stream.",
        Access.READ,
        media_type=EVENTS,
        query=(_AFTER,),
        hub=True,
    )
    async def get(self) -> None:
        self._begin()
        self._work = asyncio.current_task()
        last_id = (self.request.headers.get("Last-Event-ID") or self.get_query_argument("after", ""))[:_LONGEST_ID]
        try:
            with self.context.feed.stream(last_id, _STREAM_SECONDS) as events, contextlib.suppress(StreamClosedError):
                async for each in events:
                    self.write(each)
                    await self.flush()
        except asyncio.CancelledError:
            if not self._is_closed:
                raise
        except TooManyStreams:
            self.refuse(503, "Too many streams are open.", Retry_After="10")

    def on_connection_close(self) -> None:
        """End the stream: it would find out only when it writes again."""
        self._is_closed = True
        if self._work is not None:
            self._work.cancel()

    async def head(self, *arguments: str) -> None:
        """Answer the headers alone."""
        self._begin()

    def _begin(self) -> None:
        self.set_header("Content-Type", EVENTS)
        self.set_header("X-Accel-Buffering", "no")
