"""Simulations of more users, one more node and a lost node, on a copy of the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, shape
from tests.service.replica import Replica, replica, set_up

GPU = shape(WHOLE)


async def ask(service: Replica, **question: Any) -> tuple[int, Any]:
    return (await service.send("POST", "what-if", {"profile": "gpu-whole", **question}))[:2]


@pytest.mark.promise("A what-if question is answered without a change of the cluster.")
async def test_users_and_nodes_that_may_come_and_go(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    nodes = [node(name, whole("gpu-0"), whole("gpu-1")) for name in ("node-a", "node-b")]
    await set_up(cluster, {"gpu-whole": GPU}, *nodes[0], *nodes[1])
    async with replica(cluster, placeholders={"gpu-whole": {"min": 1}}) as service:
        await service.until_warm(GPU, 1)
        status, found = await ask(service, users=4)
        assert (status, found["starting"], found["on_placeholders"], found["because"]) == (200, 4, 1, ""), found
        _, found = await ask(service, users=5)
        assert (found["starting"], found["because"] != "") == (4, True)
        assert found["sentence"].startswith("4 of 5 more users of gpu-whole can start; 1 cannot: ")
        _, found = await ask(service, users=7, added_nodes=[{"like": "node-a", "count": 1}])
        assert found["starting"] == 6
        answer = await service.place(GPU, "ada")
        pod = await service.start(GPU, "ada", WHOLE, answer)
        await service.until_running(pod["metadata"]["name"])
        await service.until_warm(GPU, 1)
        lost = answer["node"]
        _, found = await ask(service, users=0, lost_nodes=[lost])
        assert (found["lost_servers"], found["moved_servers"], found["starting"]) == (1, 1, 0), found
        assert found["sentence"] == "1 of 1 servers on lost nodes fit elsewhere."
        assert lost in service.controller.view().snapshot.nodes, "the cluster itself is as before"
        for question in ({"lost_nodes": ["Node-C"]}, {"added_nodes": [{"like": "Node-C", "count": 1}]}):
            status, problem = await ask(service, **question)
            assert (status, problem["detail"]) == (404, "There is no node Node-C.")
        status, problem = await ask(service, added_nodes=[{"kind": "b100", "count": 1}])
        assert (status, problem["detail"]) == (404, "No node of the kind b100 is present or remembered.")
        wrong: dict[str, Any]
        for wrong in (
            {"users": -1},
            {"users": True},
            {"lost_nodes": "n"},
            {"added_nodes": [{}]},
            {"added_nodes": [{"like": "node-a", "kind": "a", "count": 1}]},
            {"x": 1},
        ):
            status, problem = await ask(service, **wrong)
            assert (status, problem["detail"][-1]) == (400, ".")
