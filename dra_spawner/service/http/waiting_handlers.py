"""Answers about users' servers that wait."""

from __future__ import annotations

from typing import Any

from dra_spawner import names
from dra_spawner.placeholders.controller.placeholder_controller import PlaceholderKeeper
from dra_spawner.placeholders.controller.waiting import WaitingServer, waiting_servers
from dra_spawner.placeholders.planner.view import age
from dra_spawner.service.http.passing_on import LeadersHandler
from dra_spawner.service.http.placeholder_handlers import KeeperHandler
from dra_spawner.simulator.claims import ObjectKey
from dra_spawner.simulator.cluster_objects import Kind

__all__ = ["WaitingHandler", "waiting_json"]


class WaitingHandler(KeeperHandler, LeadersHandler):
    """``GET api/waiting``: users' servers that have no node yet, each with its cause.

    Query: ``limit``.
    """

    address = "api/waiting"

    async def own_answer(self) -> dict[str, Any]:
        items = waiting_json(self.keeper)
        return {"items": items[: self.number("limit", len(items))], "total": len(items)}


def waiting_json(keeper: PlaceholderKeeper) -> list[dict[str, Any]]:
    """Each waiting server, in the order in which they are served."""
    return [_server_json(keeper, each) for each in waiting_servers(keeper)]


def _server_json(keeper: PlaceholderKeeper, server: WaitingServer) -> dict[str, Any]:
    pod = server.pod
    observed = keeper.watch.observed(Kind.POD, ObjectKey.of(pod))
    scheduled = observed.conditions.get("PodScheduled") if observed is not None else None
    shape = pod.labels.get(names.SHAPE, "")
    return {
        "name": pod.name,
        "namespace": pod.namespace,
        "shape": shape,
        "profiles": list(keeper.names_of(shape)),
        "created": pod.created,
        "waits_seconds": round(age(pod.created, keeper.now()).total_seconds()),
        "cause": server.cause,
        "needs_node": server.needs_node,
        "is_known": server.is_known,
        "scheduler_says": scheduled.message if scheduled is not None else "",
    }
