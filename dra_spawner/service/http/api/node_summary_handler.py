"""Handler of nodes in short, as the page shows them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tornado.web import HTTPError

from dra_spawner import names
from dra_spawner.service.context import ServiceContext
from dra_spawner.service.figures.node_summaries import NodeSummary
from dra_spawner.service.http.api.placeholder_handlers import not_ready_because
from dra_spawner.service.http.requests.authentication import ApiHandler
from dra_spawner.service.http.requests.endpoints import CONTINUE, JSON, LIMIT, Access, endpoint
from dra_spawner.service.http.requests.paging import write_token
from dra_spawner.service.http.schemas.cluster_schemas import NODE_SUMMARIES

#: Limit of nodes with an explanation of why they are not ready: on a big cluster each takes milliseconds.
_EXPLANATIONS: Final = 10


class NodeSummariesHandler(ApiHandler):
    """``GET api/node-summaries``: nodes with marks, and a bar for each device."""

    @endpoint(
        "Nodes in short: marks, utilization, and which part of each device is whose, free or blocked.",
        Access.READ,
        answer=NODE_SUMMARIES,
        query=(LIMIT, CONTINUE),
    )
    async def get(self) -> None:
        found, after = await node_summaries(self.context, self.continues_after(), self.number("limit"))
        watch = self.context.watch
        assert watch is not None
        waiting = waiting_because(self.context, [each.content["name"] for each in found])
        items = [f"{each.text[:-1]},{_encoded(_waiting(waiting, each.content['name']))[1:]}" for each in found]
        more = _encoded({"continue": write_token(after), "total": len(watch.snapshot.nodes)})
        self.set_header("Content-Type", JSON)
        self.finish(f'{{"items":[{",".join(items)}],{more[1:]}'.encode())


async def node_summaries(context: ServiceContext, after: str, limit: int) -> tuple[Sequence[NodeSummary], str]:
    """Summaries of nodes after a name, and the last name if there are more.

    Raises
    ------
    HTTPError
        503 while the cluster is not read.
    """
    if because := context.unread_because():
        raise HTTPError(503, "%s", because)
    assert context.summaries is not None
    return await context.summaries.nodes(after=after, limit=limit)


def waiting_because(context: ServiceContext, nodes: Iterable[str]) -> dict[str, str]:
    """Nodes that are not ready for users; of the first of them the reason."""
    controller = context.controller
    if controller is None or not (controller.is_on and controller.policy.shapes):
        return {}
    view = controller.view()
    labels = {name: view.snapshot.nodes[name].node.labels for name in nodes if name in view.snapshot.nodes}
    waiting = [name for name, each in labels.items() if names.IMAGES_READY not in each]
    found = dict.fromkeys(waiting, "")
    return found | {name: not_ready_because(controller, view, name) for name in waiting[:_EXPLANATIONS]}


def _waiting(waiting: Mapping[str, str], name: str) -> Mapping[str, Any]:
    return {"is_waiting": name in waiting, "waiting_because": waiting.get(name, "")}


def _encoded(members: Mapping[str, Any]) -> str:
    return json.dumps(members, allow_nan=False, separators=(",", ":"))
