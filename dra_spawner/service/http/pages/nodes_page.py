"""The page with pending servers, placeholders, decisions and nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tornado.httputil import url_concat

from dra_spawner.common.counted_text import percent, span
from dra_spawner.service.context import Role
from dra_spawner.service.figures.node_summaries import NodeSummary
from dra_spawner.service.http.api.handlers import wait_estimates_json
from dra_spawner.service.http.api.node_summary_handler import node_summaries, waiting_because
from dra_spawner.service.http.api.pending_handlers import pending_json
from dra_spawner.service.http.requests.authentication import PageHandler
from dra_spawner.service.http.requests.endpoints import HTML, Access, endpoint

#: Limit of pending servers on the page; the API has all.
_PENDING_SHOWN = 50
#: Limit of nodes in the table for browsers without scripts.
_PLAIN_NODES = 50
_LEAST_SHARE = 0.0005
_MARKS = {
    "ready": "ready",
    "late": "late",
    "waiting": "not for users yet",
    "newest": "newest",
    "draining": "draining",
    "emptying": "emptying",
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
    "draining": "a person ordered it: its placeholders are evicted, and no new server comes; servers that run stay",
    "emptying": "the node has no users' servers: its placeholders are evicted so that the autoscaler can remove it; a "
    "new server comes only if no other node fits it",
    "cordoned": "an administrator has closed the node to new pods",
    "not ready": "Kubernetes reports that the node does not work",
}
"""Meaning of each mark of a node."""


_KINDS = {
    "user": "users",
    "placeholder": "placeholders",
    "blocked": "blocked or closed",
    "unknown": "not known",
    "free": "free",
}
"""Words of the page for each part of a bar."""


class NodesPage(PageHandler):
    """``GET nodes``: the page."""

    @endpoint("Page: nodes, their devices, and who has them.", Access.READ, media_type=HTML, is_page=True)
    async def get(self) -> None:
        is_found = not self.context.unread_because()
        # With scripts, the nodes come from the API.
        nodes: Sequence[NodeSummary] = ()
        after = ""
        if is_found and not self.get_query_argument("live", ""):
            nodes, after = await node_summaries(self.context, self.get_query_argument("after", ""), _PLAIN_NODES)
        readiness = self.context.readiness()
        controller = self.context.controller
        pending = pending_json(controller) if controller is not None else []
        await self.render(
            "nodes.html",
            is_found=is_found,
            nodes=[each.content for each in nodes],
            waiting=waiting_because(self.context, [each.content["name"] for each in nodes]),
            pending=pending[:_PENDING_SHOWN],
            all_pending=len(pending),
            estimates=wait_estimates_json(self.context),
            span=span,
            text_of_marks=_MARKS,
            meanings=_MARK_MEANINGS,
            kinds=_KINDS,
            described=_described,
            percent=percent,
            readiness=readiness,
            problems=self._problems(),
            has_orders=controller is not None and controller.is_on,
            next_nodes=url_concat(self.web.url("nodes"), {"after": after}) if after else "",
        )

    def _problems(self) -> Sequence[str]:
        problems = self.context.problems()
        return problems if self.context.role is not Role.STANDBY else (*problems, self.context.incomplete_because())


def _described(device: Mapping[str, Any]) -> str:
    """Who has how much of a device, as text."""
    said = []
    for part in device["parts"]:
        who = ", ".join(part.get("users") or part["pods"]) or f"claim {part['claim']}"
        if part["kind"] == "placeholder":
            who = f"placeholder, reserved for {part['reserved_for']}" if "reserved_for" in part else "placeholder"
        amounts = ", ".join(f"{name} {amount}" for name, amount in part.get("amounts", {}).items())
        said.append(f"{who} {percent(part['share'])}{f' ({amounts})' if amounts else ''}")
    blocked = device.get("blocked", 0)
    free = 1 - sum(part["share"] for part in device["parts"]) - blocked
    why = "closed to new servers" if device.get("closed") else "blocked by other devices"
    said += [f"{why} {percent(blocked)}"] if blocked else []
    said += [f"free {percent(free)}"] if free > _LEAST_SHARE else []
    return f"{device['name']}: {'; '.join(said)}"
