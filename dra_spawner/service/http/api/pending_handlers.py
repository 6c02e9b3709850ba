"""Handler of users' pending servers."""

from __future__ import annotations

from typing import Any

from dra_spawner import names
from dra_spawner.placeholders.controller.answers.pending_servers import PendingServer, pending_servers
from dra_spawner.placeholders.planner.cluster.view import age
from dra_spawner.scale_ahead.controller.scale_ahead_controller import ScaleAheadController
from dra_spawner.service.http.api.placeholder_handlers import PlaceholderHandler
from dra_spawner.service.http.requests.endpoints import CONTINUE, LIMIT_OR_ALL, Access, endpoint
from dra_spawner.service.http.schemas.placeholder_schemas import PENDING_SERVERS
from dra_spawner.simulator.model.claims import ObjectKey
from dra_spawner.simulator.model.cluster_objects import Kind


class PendingServersHandler(PlaceholderHandler):
    """``GET api/pending-servers``: users' servers without a node, each with its cause.

    Query: ``limit`` and ``continue``. A page begins at a number of servers, as the order is that of serving them.
    """

    @endpoint(
        "Users' servers without a node, each with its cause.",
        Access.READ,
        answer=PENDING_SERVERS,
        query=(LIMIT_OR_ALL, CONTINUE),
    )
    async def get(self) -> None:
        numbered = [(f"{number:08}", each) for number, each in enumerate(pending_json(self.controller))]
        found = self.page(numbered, lambda each: each[0])
        items = [each for _, each in found["items"]]
        self.write_json({**found, "items": items, "incomplete_because": self.context.incomplete_because()})


def pending_json(controller: ScaleAheadController) -> list[dict[str, Any]]:
    """Pending servers as JSON, in the order in which they are served."""
    return [_server_json(controller, each) for each in pending_servers(controller)]


def _server_json(controller: ScaleAheadController, server: PendingServer) -> dict[str, Any]:
    pod = server.pod
    observed = controller.watch.observed(Kind.POD, ObjectKey.of(pod))
    scheduled = observed.conditions.get("PodScheduled") if observed is not None else None
    shape = pod.labels.get(names.SHAPE, "")
    return {
        "name": pod.name,
        "namespace": pod.namespace,
        "shape": shape,
        "profiles": list(controller.names_of(shape)),
        "created": pod.created,
        "wait_seconds": round(age(pod.created, controller.now()).total_seconds()),
        "sentence": server.sentence,
        "cause": server.cause,
        "needs_node": server.needs_node,
        "is_known": server.is_known,
        "scheduler_message": scheduled.message if scheduled is not None else "",
    }
