"""Events about the executor's actions: readable, few, and without effect where the API server refuses them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.placeholders.controller.records.event_recorder import NODE_NAMESPACE, EventRecorder
from dra_spawner.placeholders.lifecycle import Cause
from dra_spawner.placeholders.planner.actions import AddConsumer, DeletePlaceholder, LabelNode
from dra_spawner.simulator.model.claims import ObjectKey
from tests.cluster.access import NODE_EVENT_RULES, PLACEHOLDER_RULES
from tests.cluster.accounts import service_kubeconfig
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, prepare, shape
from tests.polling import eventually
from tests.service.replica import publish_shapes, replica

#: Words that a hub's users do not read.
FOREIGN = ("pod", "claim", "placeholder", "node", "preempt", "schedul")


async def events(cluster: ClusterUnderTest, namespace: str = "") -> list[dict[str, Any]]:
    """Events of the service, as the API server has them."""
    path = resource_path(names.EVENTS_API, "events", namespace or cluster.namespace)
    items: list[dict[str, Any]] = (await cluster.admin.list(path))["items"]
    nodes = (await cluster.admin.list(resource_path("v1", "nodes")))["items"]
    # Events on nodes of other tests have the same names.
    there = {each["metadata"]["uid"] for each in nodes}
    return [
        each
        for each in items
        if each["reportingController"] == "hub.jupyter.org/dra-spawner"
        and (each["regarding"]["kind"] != "Node" or each["regarding"].get("uid") in there)
    ]


async def reasons(cluster: ClusterUnderTest, namespace: str = "") -> set[tuple[str, str]]:
    return {(each["regarding"]["name"], each["reason"]) for each in await events(cluster, namespace)}


async def test_a_handover_and_a_label_are_events_on_pod_and_node(cluster: ClusterUnderTest) -> None:
    gpu = shape(WHOLE)
    await prepare(cluster, *node("node-a", whole("gpu-0"), whole("gpu-1")))
    await publish_shapes(cluster, {"gpu-whole": gpu})
    kubeconfig = await service_kubeconfig(cluster, rules=(PLACEHOLDER_RULES, NODE_EVENT_RULES))
    async with replica(cluster, kubeconfig, placeholders={"gpu-whole": {"min": 1}}) as service:
        await service.until_warm(gpu, 1)
        answer = await service.place(gpu, "ada")
        placeholder = next(iter(service.controller.view().placeholders)).name
        await service.start(gpu, "ada", WHOLE, answer)
        await cluster.wait_running("ada")

        async def handover_is_shown() -> bool:
            expected = {("ada", "ClaimHandedOver"), (placeholder, "PlaceholderHandedOver")}
            return expected <= await reasons(cluster)

        await eventually(handover_is_shown, "events on the server and its placeholder")

        async def label_is_shown() -> bool:
            return ("node-a", "ReadyForUsers") in await reasons(cluster, NODE_NAMESPACE)

        await eventually(label_is_shown, "an event on the node")
    on_user = [each for each in await events(cluster) if each["regarding"]["name"] == "ada"]
    assert not [word for each in on_user for word in FOREIGN if word in each["note"].lower()], "users read them"
    (label,) = [each for each in await events(cluster, NODE_NAMESPACE) if each["reason"] == "ReadyForUsers"]
    assert (
        label["regarding"]["uid"]
        == (await cluster.admin.get(resource_path("v1", "nodes", None, "node-a")))["metadata"]["uid"]
    )
    assert label["note"].startswith("hub.jupyter.org/images-ready=true: ")


class Recorded:
    """A recorder with the test's own clock."""

    def __init__(self, api: KubernetesApi, watch: ClusterWatch, *namespaces: str) -> None:
        self.now = datetime.now(UTC)
        self.acts = 0
        self.recorder = EventRecorder(
            api, watch, instance="test", namespaces=namespaces, may_act=self._act, now=lambda: self.now
        )

    def _act(self) -> None:
        self.acts += 1

    async def flush(self, times: int = 1) -> None:
        for _ in range(times):
            await self.recorder.flush()


@pytest.fixture
def namespace(real_cluster: ClusterUnderTest) -> str:
    return real_cluster.namespace


def deletion(namespace: str, name: str = "placeholder-1", **changes: Any) -> DeletePlaceholder:
    fields: dict[str, Any] = {"cause": Cause.SURPLUS, "reason": "too many", **changes}
    return DeletePlaceholder(ObjectKey(namespace, name), f"uid-{name}", **fields)


async def test_equal_events_are_one_with_a_count(cluster: ClusterUnderTest) -> None:
    namespace = cluster.namespace
    async with await KubernetesApi.from_kubeconfig(cluster.admin_kubeconfig) as api:
        found = Recorded(api, ClusterWatch(api), namespace)
        consumer = AddConsumer(ObjectKey(namespace, "c"), ObjectKey(namespace, "ada"), "uid-ada", "handover")
        found.recorder.note(consumer)
        await found.flush()
        for _ in range(3):
            found.recorder.note(consumer)
        await found.flush()
        (event,) = await events(cluster)
        assert (event["regarding"]["uid"], event["series"]["count"]) == ("uid-ada", 4)
        assert found.acts == 2, "requests"
        found.now += timedelta(minutes=11)
        found.recorder.note(consumer)
        await found.flush()
        assert len(await events(cluster)) == 2, "after ten minutes another one"


async def test_a_flood_is_written_slowly_and_cut(real_cluster: ClusterUnderTest, namespace: str) -> None:
    async with await KubernetesApi.from_kubeconfig(real_cluster.admin_kubeconfig) as api:
        found = Recorded(api, ClusterWatch(api), namespace)
        for number in range(1000):
            found.recorder.note(deletion(namespace, f"placeholder-{number}"))
        await found.flush()
        assert len(await events(real_cluster)) == found.acts == 5
        await found.flush(times=100)
        assert len(await events(real_cluster)) == 200


async def test_a_refusal_pauses_events_for_a_time(real_cluster: ClusterUnderTest, namespace: str) -> None:
    kubeconfig = await service_kubeconfig(real_cluster, rules=())
    async with await KubernetesApi.from_kubeconfig(kubeconfig) as api:
        found = Recorded(api, ClusterWatch(api), namespace)
        for number in range(20):
            found.recorder.note(deletion(namespace, f"placeholder-{number}"))
        await found.flush()
        found.recorder.note(deletion(namespace, "another"))
        await found.flush(times=5)
        assert found.acts == 1
        found.now += timedelta(minutes=6)
        found.recorder.note(deletion(namespace, "later"))
        await found.flush()
        assert found.acts == 2, "it is tried again"
        assert await events(real_cluster) == []


async def test_no_event_is_written_about_objects_of_other_namespaces(
    real_cluster: ClusterUnderTest, namespace: str
) -> None:
    async with await KubernetesApi.from_kubeconfig(real_cluster.admin_kubeconfig) as api:
        found = Recorded(api, ClusterWatch(api), namespace)
        found.recorder.note(deletion("kube-system"))
        found.recorder.note(LabelNode("node-unknown", names.DRAINING, "true", "nobody is there"))
        await found.flush()
        assert found.acts == 0
