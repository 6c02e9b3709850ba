"""Intel GPUs of the device-plugin age: from a profile to a pod on the node with the chosen cards."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.devcluster.kubelet.node_agent import node_manifest
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.profiles.intel_gas import parse_intel_gas
from dra_spawner.profiles.intel_gas.gas_language import GpuRequest
from dra_spawner.profiles.intel_gas.pods import rebuild
from dra_spawner.spawner.accounts.intel_gas_ledger import AssignedCards, GpuLedger, LedgerUnavailable, NoCards
from dra_spawner.spawner.hub_parts.hub_wide import forget_hub
from tests.cluster.fault_proxy import Fault, FaultProxy, Request
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.faulty_hub import Faulty, faults_at, hub_behind_proxy, with_a_user_each
from tests.presence import present
from tests.profiles.intel_gas.gpus import gpu_node
from tests.spawner.service_stand_in import service_of_the_hub


def node(name: str, cards: str = "0.1", **options: Any) -> dict[str, Any]:
    """A node with Intel GPUs, to be registered."""
    made = gpu_node(name, cards, **options)
    capacity = {key: value for key, value in made["status"]["allocatable"].items() if "/" in key}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        **node_manifest(name, capacity=capacity, labels=made["metadata"]["labels"]),
    }


class GpuHub(Faulty):
    """A hub's side on a cluster whose nodes have Intel GPUs."""

    async def start(self, name: str, intel_gas: dict[str, Any] | None = None) -> dict[str, Any]:
        """Start a user's server; its pod."""
        if intel_gas is not None:
            self.side.spawner_config.intel_gas = intel_gas
        await self.side.user(name).spawn("", {})
        return await self.pod(name)


@contextlib.asynccontextmanager
async def faulty_api(cluster: ClusterUnderTest) -> AsyncIterator[tuple[FaultProxy, KubernetesApi]]:
    async with FaultProxy(cluster.url) as proxy:
        kubeconfig = cluster.hub_kubeconfig_for(proxy.url)
        async with await KubernetesApi.from_kubeconfig(kubeconfig) as api:
            yield proxy, api


@pytest.fixture
async def gpus(embedded_cluster: ClusterUnderTest) -> AsyncIterator[GpuHub]:
    """Without a device plugin a control plane counts these cards only: `test_the_scheduler_counts_extended_resources`."""
    async with hub_behind_proxy(embedded_cluster) as (proxy, side):
        yield GpuHub(embedded_cluster, proxy, side)


def annotations_of(pod: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = pod["metadata"].get("annotations", {})
    return found


@pytest.mark.promise("A profile in Intel's older form gets its cards, tiles and mask.")
async def test_a_server_gets_limits_cards_tiles_mask_and_its_node(gpus: GpuHub):
    await gpus.cluster.publish(node("node-a", "0.1"), node("node-b", "3.5"))
    gpus.side.spawner_config.node_affinity_required = [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-b"]}]}
    ]
    pod = await gpus.start(
        "ada", {"count": 2, "millicores": 400, "memory": "1Gi", "tiles": 1, "deny": ["card9"], "hierarchy": "COMPOSITE"}
    )
    (notebook,) = pod["spec"]["containers"]
    limits = {
        name: value for name, value in notebook["resources"]["limits"].items() if name.startswith("gpu.intel.com")
    }
    assert limits == {
        "gpu.intel.com/i915": "2",
        "gpu.intel.com/millicores": "800",
        "gpu.intel.com/memory.max": "2147483648",
        "gpu.intel.com/tiles": "2",
    }
    found = annotations_of(pod)
    assert found["gas-container-cards"] == "card3,card5"
    assert found["gas-container-tiles"] == "card3:gt0,card5:gt0"
    assert found["gas-deny"] == "card9"
    assert found["gas-ts"] == found["hub.jupyter.org/intel-gas"]
    environment = {entry["name"]: entry.get("value") for entry in notebook["env"]}
    assert environment["ZE_FLAT_DEVICE_HIERARCHY"] == "COMPOSITE"
    assert environment["ZE_AFFINITY_MASK"] == "0.0,1.0"
    assert pod["spec"]["nodeName"] == "node-b"
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["node-b"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["node-b"]}]


async def test_servers_share_cards_until_they_are_full_even_after_the_hub_restarts(gpus: GpuHub):
    await gpus.cluster.publish(node("node-a"))
    half = {"millicores": 500}
    assert [annotations_of(await gpus.start(name, half))["gas-container-cards"] for name in ("ada", "bob")] == [
        "card0"
    ] * 2
    assert annotations_of(await gpus.start("eve"))["gas-container-cards"] == "card1"
    forget_hub()
    assert annotations_of(await gpus.start("dan"))["gas-container-cards"] == "card1", "rebuilt from the pods"
    rebuilt = rebuild(await gpus.items("pods"))
    assert rebuilt.warnings == ()
    assert {card: use.millicores for card, use in rebuilt.ledger.uses()["node-a"].items()} == {
        "card0": 1000,
        "card1": 1000,
    }
    await gpus.side.user("bob").stop("")
    await gpus.cluster.wait_gone(gpus.cluster.path("pods", "jupyter-bob"))
    forget_hub()
    assert annotations_of(await gpus.start("zoe"))["gas-container-cards"] == "card0", "given back"


async def test_starts_at_the_same_time_get_different_cards(gpus: GpuHub):
    await gpus.cluster.publish(node("node-a", "0.1.2.3"))
    names = ["ada", "bob", "eve", "dan"]
    gpus.side.spawner_config.intel_gas = {"millicores": 1000}
    pods = await asyncio.gather(*(gpus.start(name) for name in names))
    assert {annotations_of(pod)["gas-container-cards"] for pod in pods} == {"card0", "card1", "card2", "card3"}
    times = [int(annotations_of(pod)["gas-ts"]) for pod in pods]
    assert len(set(times)) == 4


async def test_without_capacity_a_pod_has_plain_limits_and_waits_for_the_scheduler(gpus: GpuHub, caplog):
    await gpus.cluster.publish(node("node-a"))
    pod = await gpus.start("ada", {"millicores": 600})
    assert annotations_of(pod)["gas-container-cards"] == "card0"
    await gpus.start("bob", {"millicores": 600})
    # 800 of 2000 are free on the node, but no card has 700 free.
    pod = await gpus.start("eve", {"millicores": 700})
    assert "gas-container-cards" not in annotations_of(pod)
    assert pod["spec"]["containers"][0]["resources"]["limits"]["gpu.intel.com/millicores"] == "700"
    assert "no cards fit on 1 nodes" in caplog.text


async def test_a_node_without_capacity_for_the_rest_of_the_pod_is_not_chosen(gpus: GpuHub):
    await gpus.cluster.publish(node("node-a"), node("node-b"))
    filler = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "filler"},
        "spec": {
            "nodeName": "node-a",
            "containers": [{"name": "main", "image": "example/a:1", "resources": {"requests": {"cpu": "7500m"}}}],
        },
    }
    await gpus.cluster.publish(filler)
    gpus.side.spawner_config.cpu_guarantee = 1
    assert (await gpus.start("ada", {"count": 1}))["spec"]["nodeName"] == "node-b"


async def test_a_node_that_a_person_drains_is_not_chosen(gpus: GpuHub):
    """It has free cards, and comes first by its name."""
    drained = node("node-a")
    drained["metadata"]["labels"][names.DRAINING] = names.ORDERED
    await gpus.cluster.publish(drained, node("node-b"))
    gpus.side.spawner_config.placement_wait_seconds = 1
    with service_of_the_hub("http://127.0.0.1:1"):
        pod = await gpus.start("ada", {"millicores": 400})
    assert pod["spec"]["nodeName"] == "node-b"
    assert annotations_of(pod)["gas-container-cards"] == "card0"


async def test_servers_that_are_being_started_use_capacity_of_their_node(embedded_cluster: ClusterUnderTest):
    cluster = embedded_cluster
    await cluster.start_kubelet(fake=True)
    await cluster.publish(node("node-a"), node("node-b"))
    ledger = GpuLedger(cluster.namespace, Quiet())
    nodes = []
    for name in ("ada", "bob"):
        pod = unborn(name, cluster.namespace)
        pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": 5.0}
        given = await ledger.assign(cluster.admin, request_of({"count": 1}), pod, timedelta(minutes=1))
        assert isinstance(given, AssignedCards)
        nodes.append(given.chosen.node)
    assert nodes == ["node-a", "node-b"]


async def test_where_gas_chose_for_a_pod_it_chooses_for_all(gpus: GpuHub):
    await gpus.cluster.publish(node("node-a"))
    by_gas = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "other", "annotations": {"gas-ts": "1", "gas-container-cards": "card0"}},
        "spec": {
            "containers": [{"name": "main", "image": "a:1", "resources": {"limits": {"gpu.intel.com/i915": "1"}}}]
        },
    }
    await gpus.cluster.publish(by_gas)
    wish = {"count": 2, "tiles": 1, "xe_link": True, "allow": ["card0", "card1"], "hierarchy": "FLAT"}
    pod = await gpus.start("ada", wish)
    found = {name: value for name, value in annotations_of(pod).items() if name.startswith("gas-")}
    assert found == {"gas-allow": "card0,card1", "gas-allocate-xelink": "true"}
    assert "affinity" not in pod["spec"]
    assert "ZE_AFFINITY_MASK" not in {entry["name"] for entry in pod["spec"]["containers"][0]["env"]}
    pod = await gpus.start("bob", {"count": 1, "scheduler": "none"})
    assert annotations_of(pod)["gas-container-cards"] == "card0"


async def test_the_scheduler_counts_extended_resources(cluster: ClusterUnderTest):
    """Also on the embedded cluster: a pod whose limits fit on no node is pending."""
    await cluster.start_kubelet(fake=True)
    large = {"name": "main", "image": "a:1", "resources": {"limits": {"gpu.intel.com/millicores": "1001"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large"}, "spec": {"containers": [large]}}
    await cluster.publish(node("node-a", "0"), pod)
    await cluster.wait_event("large", "FailedScheduling", text="Insufficient gpu.intel.com/millicores")


async def test_a_start_works_when_the_ledger_cannot_be_read(gpus: GpuHub):
    await gpus.cluster.publish(node("node-a"))
    first = await gpus.start("first", {"count": 1, "scheduler": "gas"})
    assert "gas-ts" not in annotations_of(first)
    faults = {"500": Fault.answer(500), "403": Fault.answer(403), "no answer": Fault.hold()}
    gpus.side.spawner_config.intel_gas = {"millicores": 50, "scheduler": "none"}

    async def start(user: str, fault: Fault, verb: str, resource: str) -> None:
        forget_hub()
        failed: list[Request] = []

        def is_of_ledger(request: Request) -> bool:
            """KubeSpawner's reflector lists pods with a selector, again and again; without an answer it would see none."""
            found = "labelSelector" not in request.path
            failed.extend([request] * found)
            return found

        gpus.proxy.fail(fault, verb=verb, resource=resource, times=None, matching=is_of_ledger)
        pod = await gpus.start(user)
        gpus.proxy.heal()
        assert failed
        assert pod["spec"]["containers"][0]["resources"]["limits"]["gpu.intel.com/millicores"] == "50"
        assert "gas-container-cards" not in annotations_of(pod)

    await with_a_user_each(faults_at(faults, [("list", "nodes"), ("list", "pods")]), start, at_once=1)


async def test_a_hook_that_replaces_annotations_does_not_lose_the_cards(gpus: GpuHub):
    def hook(spawner, pod):
        pod.metadata.annotations = {"own": "yes"}
        return pod

    await gpus.cluster.publish(node("node-a"))
    gpus.side.spawner_config.modify_pod_hook = hook
    found = annotations_of(await gpus.start("ada", {"count": 1}))
    assert (found["own"], found["gas-container-cards"]) == ("yes", "card0")


async def test_a_failed_start_gives_its_cards_back(gpus: GpuHub):
    await gpus.cluster.publish(node("node-a", "0"))
    gpus.proxy.fail(Fault.answer(422, "Invalid", "is invalid"), verb="create", resource="pods", times=None)
    with pytest.raises(Exception, match="The cluster refused this server"):
        await gpus.start("ada", {"millicores": 1000})
    gpus.proxy.heal()
    assert annotations_of(await gpus.start("bob"))["gas-container-cards"] == "card0"


# The ledger itself, on a cluster


class Quiet(logging.Logger):
    """Collects what is logged."""

    def __init__(self) -> None:
        super().__init__("quiet")
        self.lines: list[str] = []

    def handle(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def request_of(intel_gas: dict[str, Any]) -> GpuRequest:
    return present(parse_intel_gas(intel_gas))


def unborn(name: str, namespace: str) -> dict[str, Any]:
    containers = [{"name": "notebook", "resources": {"limits": {"gpu.intel.com/i915": "1"}}}]
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"containers": containers}}


async def test_unused_reservations_are_cleaned(embedded_cluster: ClusterUnderTest):
    cluster = embedded_cluster
    await cluster.start_kubelet(fake=True)
    await cluster.publish(node("node-a", "0"))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    log = Quiet()
    ledger = GpuLedger(cluster.namespace, log, now=lambda: now, jitter=random.Random(1).random)
    wish = request_of({"millicores": 1000})
    minute = timedelta(minutes=1)
    given = await ledger.assign(cluster.admin, wish, unborn("ada", cluster.namespace), minute)
    assert isinstance(given, AssignedCards)
    assert isinstance(await ledger.assign(cluster.admin, wish, unborn("bob", cluster.namespace), minute), NoCards)
    assert await ledger.clean_up(cluster.admin) == ()
    now += minute
    assert await ledger.clean_up(cluster.admin) == ((cluster.namespace, "ada"),)
    assert isinstance(await ledger.assign(cluster.admin, wish, unborn("bob", cluster.namespace), minute), AssignedCards)


async def test_cleaning_goes_on_at_random_times_whatever_happens(embedded_cluster: ClusterUnderTest):
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 4:
            raise asyncio.CancelledError

    chances = iter([0.0, 1.0, 0.5, 0.25])
    ledger = GpuLedger(embedded_cluster.namespace, Quiet(), jitter=lambda: next(chances))
    with pytest.raises(asyncio.CancelledError):
        await ledger.clean_periodically(embedded_cluster.admin, timedelta(minutes=20), sleep)
    assert slept == [600, 1800, 1200, 900]


async def test_a_ledger_that_cannot_read_says_so_and_one_that_could_goes_on(embedded_cluster: ClusterUnderTest):
    cluster = embedded_cluster
    await cluster.start_kubelet(fake=True)
    await cluster.publish(node("node-a"))
    wish = request_of({"millicores": 1000})
    log = Quiet()
    ledger = GpuLedger(cluster.namespace, log)
    async with faulty_api(cluster) as (proxy, api):
        proxy.fail(Fault.answer(500), verb="list", resource="pods", times=None)
        with pytest.raises(LedgerUnavailable):
            await ledger.assign(api, wish, unborn("ada", cluster.namespace), timedelta(1))
        proxy.heal()
        await ledger.assign(api, wish, unborn("ada", cluster.namespace), timedelta(1))
        proxy.fail(Fault.answer(500), verb="list", resource="pods", times=None)
        assert await ledger.clean_up(api) == ()
        given = await ledger.assign(api, wish, unborn("bob", cluster.namespace), timedelta(1))
    assert isinstance(given, AssignedCards)
    assert given.chosen.containers[0].cards == ("card1",), "ada has the other"
    assert "older data" in log.lines[-1]


async def test_gpus_of_other_namespaces_count_where_they_may_be_seen(embedded_cluster: ClusterUnderTest):
    cluster = embedded_cluster
    await cluster.start_kubelet(fake=True)
    await cluster.publish(node("node-a", "0"))
    await cluster.admin.create(resource_path("v1", "namespaces"), {"metadata": {"name": "elsewhere"}})
    limits = {"gpu.intel.com/i915": "1", "gpu.intel.com/millicores": "700"}
    other = {
        "metadata": {
            "name": "other",
            "annotations": {"gas-container-cards": "card0", "gas-ts": "1", "hub.jupyter.org/intel-gas": "1"},
        },
        "spec": {
            "nodeName": "node-a",
            "containers": [{"name": "main", "image": "a:1", "resources": {"limits": limits}}],
        },
    }
    await cluster.admin.create(resource_path("v1", "pods", "elsewhere"), other)
    wish = request_of({"millicores": 500})
    pod = unborn("ada", cluster.namespace)
    assert isinstance(
        await GpuLedger(cluster.namespace, Quiet()).assign(cluster.admin, wish, pod, timedelta(1)), NoCards
    )
    async with faulty_api(cluster) as (proxy, api):
        proxy.fail(Fault.answer(403, "Forbidden"), verb="list", resource="pods")
        given = await GpuLedger(cluster.namespace, log := Quiet()).assign(api, wish, pod, timedelta(1))
    assert isinstance(given, AssignedCards)
    assert log.lines == [f"Cards of Intel GPUs in namespaces other than {cluster.namespace} are unknown"]
