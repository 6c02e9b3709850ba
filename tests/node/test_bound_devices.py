"""Drivers on a real kubelet that prepare a claim for one pod, or for one container: what a pod that joins gets."""

from __future__ import annotations

from typing import Any

import pytest

from dra_spawner.placeholders.availability_state import AvailabilityState
from tests.cluster.under_test import ClusterUnderTest
from tests.placeholders.controller.objects import shape
from tests.polling import eventually

from .devices import CPU_DRIVER, POD_NIC_DRIVER
from .images import QUICK_SERVER
from .objects import claim, claim_spec, environment, server_pod
from .real_node import RealNode
from .reserved_placeholders import QUICK_SECONDS, placeholders

Json = dict[str, Any]
CPUS = {"dra.cpu/cpu": "2"}


def device_class(driver: str) -> Json:
    selectors = [{"cel": {"expression": f'device.driver == "{driver}"'}}]
    metadata = {"name": driver}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": metadata,
        "spec": {"selectors": selectors},
    }


@pytest.fixture
async def bound_cluster(node_cluster: ClusterUnderTest) -> ClusterUnderTest:
    await node_cluster.publish(device_class(POD_NIC_DRIVER), device_class(CPU_DRIVER))
    return node_cluster


#: Prints the files that a driver has made in containers of a pod. Containers have process namespaces of their own.
LIST_MOVED = """
for process in /proc/[0-9]*; do
    if tr '\\0' '\\n' < $process/environ 2>/dev/null | grep -qx "HOSTNAME=$0"; then
        find $process/root/device -type f -printf '%f\\n' 2>/dev/null
    fi
done
true
"""


def moved_into(node: RealNode, pod: str) -> list[str]:
    """Devices that a driver has moved into a pod, as files of its container."""
    return node.run("sh", "-c", LIST_MOVED, pod).split()


async def test_a_pod_that_joins_a_claim_for_one_pod_runs_without_its_device(
    node: RealNode, bound_cluster: ClusterUnderTest
) -> None:
    """Nobody is told: it runs, and the claim's status still says what the first pod got."""
    cluster = bound_cluster
    await cluster.publish(claim("nic", POD_NIC_DRIVER), server_pod("first", claim="nic"))
    await cluster.wait_running("first")
    assert moved_into(node, "first") == ["nic-0"]
    await cluster.publish(server_pod("second", claim="nic"))
    await cluster.wait_running("second")
    assert moved_into(node, "second") == []
    found = await cluster.admin.get(cluster.path("resourceclaims", "nic"))
    assert found["status"]["devices"][0]["networkData"]["interfaceName"]


async def test_a_second_container_of_a_claim_for_one_container_never_runs(
    node: RealNode, bound_cluster: ClusterUnderTest
) -> None:
    cluster = bound_cluster
    await cluster.publish(claim("cpus", CPU_DRIVER, **CPUS), server_pod("first", claim="cpus"))
    await cluster.wait_running("first")
    await cluster.publish(server_pod("second", claim="cpus"))

    def is_refused(found: Json) -> bool:
        return "is already bound to pod and container" in str(found["status"].get("containerStatuses"))

    await cluster.wait_for(cluster.path("pods", "second"), is_refused)


async def test_a_server_gets_what_was_prepared_for_its_placeholder_alone(
    node: RealNode, bound_cluster: ClusterUnderTest
) -> None:
    """Though both fit on the node: the placeholder ends first, and the driver prepares for the server."""
    cluster, wants = bound_cluster, {"nic": claim_spec(POD_NIC_DRIVER)}
    wanted = shape(wants, cpu="100m", image=QUICK_SERVER)
    async with placeholders(cluster, wanted) as world:
        (placeholder,) = await world.until_warm(wanted)
        assert moved_into(node, placeholder.key.name) == ["nic-0"]
        reservation = await world.placed_user("ada", wanted, wants, cpu="100m", image=QUICK_SERVER)
        assert reservation.placement.state is AvailabilityState.AFTER_PLACEHOLDER
        world.set_replicas(wanted, 0, 0)
        await cluster.wait_running("ada", timeout_seconds=QUICK_SECONDS)
        assert moved_into(node, "ada") == ["nic-0"], "the very device"
        calls = node.drivers[POD_NIC_DRIVER].calls(claim=f"{cluster.namespace}/{reservation.claims['nic']}")
        assert [each.method for each in calls] == ["prepare", "unprepare", "prepare"]
        await world.until(lambda: world.ended("handed-over") == [placeholder.key.name])


async def test_a_server_joins_a_claim_that_no_container_of_its_placeholder_names(
    node: RealNode, bound_cluster: ClusterUnderTest
) -> None:
    cluster, wants = bound_cluster, {"cpus": claim_spec(CPU_DRIVER, **CPUS)}
    wanted = shape(wants, cpu="100m", image=QUICK_SERVER)
    async with placeholders(cluster, wanted) as world:
        (placeholder,) = await world.until_warm(wanted)
        reservation = await world.placed_user("ada", wanted, wants, cpu="100m", image=QUICK_SERVER)
        assert reservation.placement.state is AvailabilityState.READY
        world.set_replicas(wanted, 0, 0)
        running = await cluster.wait_running("ada", timeout_seconds=QUICK_SECONDS)
        assert environment(running)["DEVICE_MAIN"].endswith("/cpus")
        await eventually(
            lambda: world.ended("handed-over") == [placeholder.key.name], "the placeholder is deleted", QUICK_SECONDS
        )
        await world.until(lambda: placeholder.key not in world.watch.snapshot.pods, QUICK_SECONDS)
        assert environment(await cluster.wait_running("ada"))["DEVICE_MAIN"].endswith("/cpus"), "it keeps them"
        calls = node.drivers[CPU_DRIVER].calls(claim=f"{cluster.namespace}/{reservation.claims['cpus']}")
        assert [each.method for each in calls] == ["prepare"], "nothing was prepared again"
