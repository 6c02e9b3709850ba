"""Handlers of the timeline: JSON, and the page."""

from __future__ import annotations

from typing import Final

from dra_spawner.common.counted_text import span
from dra_spawner.scale_ahead.controller.demand_settings import ScaleAheadMode
from dra_spawner.service.http.pages.override_pages import OverridePage
from dra_spawner.service.http.pages.page_text import moment
from dra_spawner.service.http.pages.timeline_chart import chart_svg
from dra_spawner.service.http.pages.timeline_figures import MAX_HOURS, read_timeline
from dra_spawner.service.http.requests.authentication import ApiHandler
from dra_spawner.service.http.requests.endpoints import HTML, Access, Query, endpoint
from dra_spawner.service.http.schemas.demand_schemas import TIMELINE
from dra_spawner.service.http.schemas.schema_parts import integer, text

_DEFAULT_HOURS: Final = 24
_WINDOWS: Final = {6: "6 hours", 24: "24 hours", MAX_HOURS: "7 days"}
#: Widths of the charts, for screens and for phones.
_WIDE: Final = 1040
_NARROW: Final = 380
_QUERY: Final = (
    Query("hours", "Length of the past part, in hours; 24 by default.", integer(24, minimum=1, maximum=MAX_HOURS)),
    Query("profile", "Only this choice, with the choices that share its placeholders.", text("gpu-slice")),
)


class TimelineHandler(ApiHandler):
    """``GET api/timeline``: launches, waits, placeholders, forecast and calendar entries in equal steps."""

    @endpoint(
        "Launches, waits, placeholders, forecast and calendar entries over time.",
        Access.READ,
        answer=TIMELINE,
        query=_QUERY,
    )
    async def get(self) -> None:
        hours = max(self.number("hours", _DEFAULT_HOURS, most=MAX_HOURS), 1)
        found = await read_timeline(self.context, hours, self.get_query_argument("profile", ""))
        self.write_json(found.json())


class TimelinePage(OverridePage):
    """``GET timeline``: the same as a picture and a table."""

    @endpoint("Page: the timeline.", Access.READ, media_type=HTML, is_page=True, query=_QUERY)
    async def get(self) -> None:
        asked, profile = self.get_query_argument("hours", ""), self.get_query_argument("profile", "")
        hours = int(asked) if asked in map(str, _WINDOWS) else _DEFAULT_HOURS
        controller = self.context.controller
        names = [each.name for each in controller.groups()] if controller is not None else []
        found = await read_timeline(self.context, hours, profile)
        said = found.json()
        mode = controller.scale_ahead.mode if controller is not None else ScaleAheadMode.OBSERVE
        await self.render(
            "timeline_page.html",
            found=found,
            hours=hours,
            windows=_WINDOWS,
            profiles=names if not profile or profile in names else [*names, profile],
            wide=chart_svg(found, _WIDE),
            narrow=chart_svg(found, _NARROW),
            steps=said["items"],
            since=said["placeholders_since"],
            is_advice=mode is not ScaleAheadMode.ACT,
            time_of=moment,
            duration=span,
        )
