"""The cluster does what was rehearsed: as many placeholders, as many nodes, and all placeholders have a node."""

from __future__ import annotations

import asyncio
import io
import json
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from dra_spawner import names
from dra_spawner.commands.rehearsing.rehearse_command import RehearseOptions, run_rehearse
from dra_spawner.kube.client.api import resource_path
from dra_spawner.service.context import Role
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, prepare, shape
from tests.service.replica import Json, Replica, publish_shapes, replica

LINE = "5 of gpu-whole tomorrow at 17:00"


async def rehearsed(cluster: ClusterUnderTest, line: str) -> Json:
    """The command's answer about the cluster."""
    output, messages = io.StringIO(), io.StringIO()
    kubeconfig = str(cluster.admin_kubeconfig)
    options = RehearseOptions(
        line, kubeconfig=kubeconfig, namespace=cluster.namespace, mode="act", has_autoscaler=True, as_json=True
    )
    code = await asyncio.to_thread(run_rehearse, options, io.BytesIO(), output, messages)
    assert code in (0, 1), messages.getvalue()
    found: Json = json.loads(output.getvalue())
    assert found["is_possible"] == (code == 0)
    return found


async def by_post(service: Replica, line: str) -> Json:
    """The service's answer."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{service.url}/rehearsals", data=json.dumps({"line": line})) as answer,
    ):
        assert answer.status == 200, await answer.text()
        found: Json = await answer.json()
        return found


@pytest.mark.promise("A cluster does what a rehearsal of a class says.")
async def test_a_cluster_does_what_was_rehearsed(embedded_cluster: ClusterUnderTest) -> None:
    cluster, gpu = embedded_cluster, shape(WHOLE)
    devices = (whole("gpu-0"), whole("gpu-1"))
    await prepare(cluster, *node("node-a", *devices))
    await publish_shapes(cluster, {"gpu-whole": gpu})
    found = await rehearsed(cluster, LINE)
    assert (found["is_possible"], found["on_present_nodes"]) == (True, 2)
    (order,) = found["orders"]
    assert (order["nodes"], order["servers"], order["template_node"]) == (2, 3, "node-a")
    async with replica(cluster, placeholders={"gpu-whole": {"min": 5, "max": 5}}, autoscaler=True) as service:
        await service.until_warm(gpu, 2)
        await service.until(lambda: len(service.placeholders()) == 5, "all placeholders")
        pending = [each for each in service.placeholders().values() if each.is_pending]
        assert len(pending) == order["servers"]
        # The service says the same, and knows that nodes are on order.
        again = await by_post(service, LINE)
        assert again["on_placeholders"] == 2
        assert [(each["nodes"], each["is_on_order"]) for each in again["orders"]] == [(2, True)]
        for number in range(order["nodes"]):
            assert any(each.is_pending for each in service.placeholders().values()), "all of these nodes are needed"
            await cluster.publish(*node(f"new-{number}", *devices))
            await service.until_warm(gpu, min(2 + 2 * (number + 1), 5))
        assert not [each for each in service.placeholders().values() if each.is_pending]
        done = await rehearsed(cluster, LINE)
        assert (done["on_placeholders"], done["orders"]) == (5, [])
    refused = await rehearsed(cluster, "9 of gpu-whole within 1 min now")
    assert not refused["is_possible"]
    assert [each["code"] for each in refused["problems"] if each["blocks"]] == ["too-late"]


async def test_a_cluster_that_is_scaled_to_zero(embedded_cluster: ClusterUnderTest) -> None:
    """The service that saw the last node proves it, a new one says that it does not know, or believes a description."""
    cluster, gpu = embedded_cluster, shape(WHOLE)
    last, devices = node("node-a", whole("gpu-0"), whole("gpu-1"))
    last["metadata"]["labels"] |= {names.INSTANCE_TYPE: "a100", names.IMAGES_READY: names.TRUE}
    await prepare(cluster, last, devices)
    await publish_shapes(cluster, {"gpu-whole": gpu})
    settings: Json = {"placeholders": {"gpu-whole": {"min": 0, "max": 50}}, "history": {"keep_days": 0}}
    async with replica(cluster, **settings) as service:
        ahead = service.controller.scale_ahead
        await service.until(lambda: "gpu-whole" in service.controller.published.shapes, "the hub's choices")
        await service.until(lambda: service.context.role is Role.LEADER, "it leads")
        ahead.begin(datetime.now(UTC) - timedelta(minutes=2))  # the first minute is over
        service.controller.advance_forecasts()
        await service.until(lambda: ahead.demand_of("gpu-whole") is not None, "the first minute")
        await cluster.admin.delete(
            resource_path(names.RESOURCE_API, "resourceslices", None, devices["metadata"]["name"])
        )
        await cluster.admin.delete(resource_path("v1", "nodes", None, "node-a"))
        await service.until(lambda: not service.controller.view().snapshot.nodes, "no node")
        found = await by_post(service, LINE)
        assert found["verdict"].startswith("Only if 3 nodes of a100 are added by "), "no autoscaler is known"
        assert found["on_present_nodes"] == 0
        (order,) = found["orders"]
        assert (order["kind"], order["nodes"], order["template_node"]) == ("a100", 3, "node-a")
    async with replica(cluster, **settings) as service:
        await service.until(lambda: "gpu-whole" in service.controller.published.shapes, "the hub's choices")
        found = await by_post(service, LINE)
        assert not found["is_possible"]
        assert found["verdict"].startswith("Not known whether 5 of 5 users can start on ")
        assert "no node is present or remembered" in found["problems"][0]["message"]
    kinds = [{"name": "a100", "slots": 4, "lead_minutes": 9}]
    async with replica(cluster, **settings, node_kinds=kinds) as service:
        await service.until(lambda: "gpu-whole" in service.controller.published.shapes, "the hub's choices")
        found = await by_post(service, LINE)
        assert found["verdict"].startswith("Only if 2 nodes of a100 are added by ")
        assert "and a node of a100 runs 4 servers: 5 users can start on " in found["verdict"]
