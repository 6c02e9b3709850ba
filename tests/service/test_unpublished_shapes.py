"""Servers of unpublished shapes, as of two options together: they get a placement all the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.placeholders.planner.targets.shapes import Shape, definition_of
from dra_spawner.simulator.model.claims import ObjectKey
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import shareable, whole
from tests.placeholders.controller.objects import SHARE, WHOLE, claim_spec, node, shape
from tests.service.replica import Replica, replica, server_objects, set_up

PART = shape(SHARE)
LARGE_CLAIM = {"gpu": claim_spec("gpu-share.example.com", "20Gi")}
LARGE = shape(LARGE_CLAIM, cpu="2")
TWO_CLAIMS = {"gpu": WHOLE["gpu"], "other": WHOLE["gpu"]}
TWO = shape(TWO_CLAIMS)

Json = dict[str, Any]


async def ask(service: Replica, wanted: Shape, pod: str, definition: str | None = None) -> tuple[int, Json]:
    """Ask as the hub does after the answer that the shape is not known."""
    text = definition_of(wanted) if definition is None else definition
    namespace = service.cluster.namespace
    return await service.ask({"shape": wanted.id, "pod": pod, "namespace": namespace, "definition": text})


async def start(cluster: ClusterUnderTest, wanted: Shape, name: str, claims: Mapping[str, Json], **kind: Any) -> None:
    """Create a user's pod with claims of its own and the definition of its shape."""
    *templates, pod = server_objects(name, wanted, claims, **kind)
    pod["metadata"]["annotations"] = {names.DEFINITION: definition_of(wanted)}
    await cluster.publish(*templates, pod)


@pytest.mark.promise("Placeholders are preempted for a server with any shape.")
async def test_placeholders_are_preempted_for_unpublished_shapes(cluster: ClusterUnderTest) -> None:
    await set_up(cluster, {"gpu-slice": PART}, *node("node-a", shareable("gpu-0")))
    async with replica(cluster, placeholders={"gpu-slice": {"min": 2}}) as service:
        await service.until_warm(PART, 2)
        status, answer = await service.ask({"shape": LARGE.id, "pod": "ada", "namespace": cluster.namespace})
        assert (status, answer["kind"]) == (404, "unknown")
        status, answer = await ask(service, LARGE, "ada")
        assert (status, answer["state"], answer["node"]) == (200, "free", "node-a")
        await start(cluster, LARGE, "ada", LARGE_CLAIM, cpu="2")
        await service.until_running("ada")
        status, answer = await ask(service, LARGE, "eve")
        assert (status, answer["state"], answer["node"], answer["claims"]) == (200, "after-preemption", "node-a", {})
        await start(cluster, LARGE, "eve", LARGE_CLAIM, cpu="2")
        await cluster.wait_running("eve")

        def deletions() -> list[str]:
            decisions = [each.decision for each in service.context.decisions.newest(100)]
            return [each.code for each in decisions if each.kind == "delete-placeholder"]

        # A request may be answered after its effect is seen.
        await service.until(lambda: len(deletions()) == 2, "both deletions are written down")
        assert deletions() == ["preempted"] * 2
        status, answer = await ask(service, LARGE, "eve", definition_of(PART))
        assert (status, answer["detail"]) == (400, f"definition: it is of shape {PART.id}, not of {LARGE.id}.")


async def test_a_placeholder_for_a_pending_server_waits_for_a_node(cluster: ClusterUnderTest) -> None:
    """The present leader has never been asked about this shape."""
    await set_up(cluster, {"gpu-whole": shape(WHOLE)}, *node("node-a", whole("gpu-0")))
    placeholders = {"gpu-whole": {"min": 1}}
    async with replica(cluster, placeholders=placeholders, node_kinds_complete=True) as service:
        await service.until_warm(shape(WHOLE), 1)
        status, answer = await ask(service, TWO, "ada")
        assert (status, answer["state"]) == (200, "never")
    async with replica(cluster, placeholders=placeholders) as service:
        await service.until(lambda: service.controller.latest is not None, "it leads")
        status, answer = await ask(service, TWO, "ada")
        assert (status, answer["state"]) == (200, "waits")
    await start(cluster, TWO, "ada", TWO_CLAIMS)
    async with replica(cluster, placeholders=placeholders) as service:
        await service.until(lambda: len(for_pending_pod(service)) == 1, "a placeholder is made for the pending pod")
        (pending,) = for_pending_pod(service)
        assert pending.is_pending
        assert len(pending.claims) == 2
        # A new node lacks the label: the server requires it, the placeholder does not.
        assert names.IMAGES_READY not in str(pending.pod.required_nodes)
        await cluster.publish(*node("node-b", whole("gpu-0"), whole("gpu-1")))
        await cluster.wait_running("ada")
        await service.until(lambda: not for_pending_pod(service), "no pod is pending any more")
        assert service.context.problems() == ()


def for_pending_pod(service: Replica) -> list[Any]:
    """Placeholders of the unpublished shape."""
    return [each for each in service.placeholders().values() if each.shape == TWO.id]


async def test_a_pod_with_a_wrong_definition_gets_no_placeholder(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    await set_up(cluster, {"gpu-whole": shape(WHOLE)}, *node("node-a", whole("gpu-0")))
    async with replica(cluster, placeholders={"gpu-whole": {"min": 1}}) as service:
        await service.until_warm(shape(WHOLE), 1)
        (pod,) = server_objects("eve", TWO, cpu="1000")
        pod["metadata"]["annotations"] = {names.DEFINITION: definition_of(PART)}
        await cluster.publish(pod)
        await service.until(
            lambda: ObjectKey(cluster.namespace, "eve") in service.controller.view().users, "the pod is seen"
        )
        latest = service.controller.latest
        await service.until(lambda: service.controller.latest is not latest, "it was decided")
        assert len(service.placeholders()) == 1
