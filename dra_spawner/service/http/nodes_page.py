"""The page with pending servers, placeholders, decisions and nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tornado.escape import to_unicode
from tornado.httputil import url_concat

from dra_spawner.placeholders.controller.demand_settings import ScaleAheadMode
from dra_spawner.placeholders.planner.demand.estimates import Source
from dra_spawner.service.context import Role, ServiceContext
from dra_spawner.service.http.authentication import PageHandler
from dra_spawner.service.http.endpoints import HTML, Access, endpoint
from dra_spawner.service.http.forecast_handler import expected_json, forecasts_json
from dra_spawner.service.http.handlers import decision_json, wait_estimates_json
from dra_spawner.service.http.node_summary_handler import node_summaries, waiting_because
from dra_spawner.service.http.page_frame import scopes_of
from dra_spawner.service.http.pending_handlers import pending_json
from dra_spawner.service.http.placeholder_handlers import (
    limited_json,
    placeholders_json,
    profiles_json,
    safeguard_json,
)
from dra_spawner.service.node_summaries import NodeSummary

__all__ = ["NodesPage"]

#: Limits of the rows on the page; the API has all.
_PLACEHOLDERS_SHOWN = 100
_DECISIONS_SHOWN = 20
_PENDING_SHOWN = 50
#: Limit of calendar entries.
_EXPECTED_SHOWN = 10
#: Limit of nodes in the table for browsers without scripts.
_PLAIN_NODES = 50
_LEAST_SHARE = 0.0005
_AVAILABILITY_WORDS = {
    "warm": "at once, on a warm placeholder",
    "fresh": "now, on free devices",
    "preempt": "in a moment, placeholders are preempted",
    "scale-up": "when a node has room",
    "never": "never",
}
"""Words of the page for each `PlacementKind`."""


_MARKS = {
    "ready": "ready",
    "late": "late",
    "waiting": "not for users yet",
    "newest": "newest",
    "draining": "draining",
    "cordoned": "cordoned",
    "not-ready": "not ready",
}
"""Words of the page for each mark of a node."""


_MARK_MEANINGS = {
    "ready": "the node has the images of all choices that can run on it, and all devices of its kind",
    "late": "an image or a device is missing, but the node is open: servers run on it, or ready_deadline_seconds are "
    "over",
    "not for users yet": "an image or a device is missing: the service places no servers on the node",
    "newest": "placeholders prefer this node, so that they start on an empty node",
    "draining": "its placeholders are evicted, and no new server comes: by an order, or because the node has no users' "
    "servers and the autoscaler can remove it",
    "cordoned": "an administrator has closed the node to new pods",
    "not ready": "Kubernetes reports that the node does not work",
}
"""Meaning of each mark of a node."""


_KINDS = {
    "user": "users",
    "placeholder": "placeholders",
    "blocked": "blocked by partitions",
    "unknown": "not known",
    "free": "free",
}
"""Words of the page for each part of a bar."""


_DEMAND_MEANINGS = {
    "expected": "launches, less servers that end, within the lead time",
    "lead time": "from the order of a node until users are let in, as nodes have shown it",
    "deviations": "a safety for bursts; how many is learned, so that the wanted share of launches (hit_rate) is warm",
    "held": "demand has fallen; the number falls when nothing in the last lead times was higher",
    Source.REACTIVE: "launches go on at their recent rate",
    Source.SEASONAL: "launches at this time of the last weeks",
    Source.RECURRING: "a rush at this time that at least two of the last weeks had",
    Source.CALENDAR: "users of an entry who have not come yet",
    Source.PENDING: "servers that are about to take placeholders",
    Source.FLOOR: "min of the setting placeholders",
    Source.FIXED: "a number that demand_policies says",
    Source.WEBHOOK: "the last answer of a program that demand_policies names",
}
"""Words of forecasts, for the page."""


class NodesPage(PageHandler):
    """``GET`` of the prefix: the page."""

    @endpoint("The page.", Access.READ, media_type=HTML, is_page=True)
    async def get(self) -> None:
        watch = self.context.watch
        # With scripts, the nodes come from the API.
        nodes: Sequence[NodeSummary] = ()
        after = ""
        if watch is not None and not self.get_query_argument("live", ""):
            nodes, after = await node_summaries(self.context, self.get_query_argument("after", ""), _PLAIN_NODES)
        readiness = self.context.readiness()
        shown = self._rows()
        await self.render(
            "nodes.html",
            nodes=[each.content for each in nodes],
            waiting=waiting_because(self.context, [each.content["name"] for each in nodes]),
            profiles=await profiles_json(self.context),
            words=_AVAILABILITY_WORDS,
            shown=shown,
            estimates=wait_estimates_json(self.context),
            resume=self._resume_address() if shown.capped else "",
            span=_span,
            demand_meanings=_DEMAND_MEANINGS,
            begins=_begins,
            begins_in=lambda entry: _begins_in(entry, self._now()),
            unrehearsed=lambda entry: _unrehearsed(entry, self._now()),
            words_of_marks=_MARKS,
            meanings=_MARK_MEANINGS,
            kinds=_KINDS,
            described=_described,
            age=_age(watch.staleness_seconds()) if watch is not None else "never",
            percent=lambda value: f"{value:.0%}",
            readiness=readiness,
            problems=self._problems(),
            next_nodes=url_concat(self.web.url(""), {"after": after}) if after else "",
        )

    def _now(self) -> datetime:
        controller = self.context.controller
        return controller.now() if controller is not None else self.context.now()

    def _problems(self) -> Sequence[str]:
        problems = self.context.problems()
        return problems if self.context.role is not Role.STANDBY else (*problems, self.context.incomplete_because())

    def _rows(self) -> _PageRows:
        context, controller = self.context, self.context.controller
        placeholders = placeholders_json(controller, context) if controller is not None else []
        pending = pending_json(controller) if controller is not None else []
        return _PageRows(
            placeholders[:_PLACEHOLDERS_SHOWN],
            len(placeholders),
            safeguard_json(controller) if controller is not None else None,
            pending[:_PENDING_SHOWN],
            len(pending),
            [decision_json(each) for each in context.decisions.newest(_DECISIONS_SHOWN)],
            *_forecasts(context),
            [each for each in limited_json(controller) if each["is_resumable"]] if controller is not None else [],
        )

    def _resume_address(self) -> str:
        """Address of the page's forms that resume placeholders; empty without the right, or without a login cookie."""
        auth = self.web.hub_auth
        if auth is None or self.request.headers.get("Authorization"):
            return ""
        if not auth.check_scopes(set(scopes_of(Access.OPERATE, self.web)), self.hub_user):
            return ""
        return url_concat(self.web.url("api/placeholders/resume"), {"_xsrf": to_unicode(self.xsrf_token)})


@dataclass(frozen=True, slots=True)
class _PageRows:
    """Rows of the page, in the API's form, and the numbers of all placeholders and pending servers."""

    placeholders: Sequence[Mapping[str, Any]]
    all_placeholders: int
    safeguard: Mapping[str, Any] | None
    pending: Sequence[Mapping[str, Any]]
    all_pending: int
    decisions: Sequence[Mapping[str, Any]]
    forecasts: Sequence[Mapping[str, Any]]
    expected: Sequence[Mapping[str, Any]]
    all_expected: int
    capped: Sequence[Mapping[str, Any]]
    """Choices whose placeholders an administrator can resume."""


def _forecasts(
    context: ServiceContext,
) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]], int]:
    """Forecasts, unless the mode is `observe`, the next calendar entries, and their number."""
    controller = context.controller
    if controller is None or controller.scale_ahead.settings.mode is ScaleAheadMode.OBSERVE:
        return (), (), 0
    expected = expected_json(controller, context.scale_ahead)
    return forecasts_json(controller), expected[:_EXPECTED_SHOWN], len(expected)


def _described(device: Mapping[str, Any]) -> str:
    """Who has how much of a device, as text."""
    said = []
    for part in device["parts"]:
        who = ", ".join(part.get("users") or part["pods"]) or f"claim {part['claim']}"
        if part["kind"] == "placeholder":
            who = f"placeholder, reserved for {part['reserved_for']}" if "reserved_for" in part else "placeholder"
        amounts = ", ".join(f"{name} {amount}" for name, amount in part.get("amounts", {}).items())
        said.append(f"{who} {part['share']:.0%}{f' ({amounts})' if amounts else ''}")
    blocked = device.get("blocked", 0)
    free = 1 - sum(part["share"] for part in device["parts"]) - blocked
    said += [f"blocked by partitions {blocked:.0%}"] if blocked else []
    said += [f"free {free:.0%}"] if free > _LEAST_SHARE else []
    return f"{device['name']}: {'; '.join(said)}"


def _age(seconds: float) -> str:
    if seconds == float("inf"):
        return "not complete yet"
    return "now" if seconds < 60 else f"{seconds:.0f} s ago"


def _begins(entry: Mapping[str, Any]) -> str:
    """The begin of a calendar entry, in its own time zone."""
    return f"{datetime.fromisoformat(entry['begins']):%a %Y-%m-%d %H:%M} {entry['zone']}"


def _begins_in(entry: Mapping[str, Any], now: datetime) -> str:
    seconds = (datetime.fromisoformat(entry["begins"]) - now).total_seconds()
    return f"in {_span(seconds)}" if seconds > 0 else f"{_span(-seconds)} ago"


def _unrehearsed(entry: Mapping[str, Any], now: datetime) -> str:
    """Why an entry has no rehearsal."""
    left = datetime.fromisoformat(entry["begins"]) - now
    if left > timedelta(days=1):
        return "rehearsed from a day before it begins"
    return "not rehearsed yet" if left > timedelta(0) else "it has begun"


def _span(seconds: float) -> str:
    """A duration, rounded to one unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
