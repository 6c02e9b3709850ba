"""One GPU out on a real control plane: its sharers are placed elsewhere, and no other server is touched."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dra_spawner.dra.model.devices import DeviceId
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.kube.taint_rules import PLURAL, served_rules_api
from dra_spawner.placeholders.planner.targets.device_drains import needed_changes, rules_of
from dra_spawner.placeholders.planner.targets.overrides import Override, OverrideKind
from tests.cluster.control_plane import ControlPlane
from tests.cluster.under_test import ClusterUnderTest
from tests.devcluster.cluster_objects import DRIVER, NAMESPACE, claim, device_class, gpu_slice, pod, shareable
from tests.integration.warm_placeholders import WarmPlaceholders, warm_placeholders
from tests.kube.random_changes import node
from tests.polling import eventually
from tests.presence import present

API = "resource.k8s.io/v1"
CLAIMS = resource_path(API, "resourceclaims", NAMESPACE)
PODS = resource_path("v1", "pods", NAMESPACE)
SHARERS = [f"s{number}" for number in range(7)]
OTHERS = [f"o{number}" for number in range(50)]
EVERYWHERE = [{"operator": "Exists"}]


async def test_seven_sharers_are_placed_elsewhere_and_fifty_others_stay(
    control_plane_path: Path, tmp_path: Path
) -> None:
    plane = ControlPlane(
        control_plane_path,
        tmp_path / "plane",
        client_qps=500,
        feature_gates={"DRADeviceTaintRules": True},
        api_server_arguments=("--runtime-config=resource.k8s.io/v1beta2/devicetaintrules=true",),
    )
    await asyncio.to_thread(plane.start)
    try:
        async with await KubernetesApi.from_kubeconfig(plane.admin_kubeconfig) as api, ClusterWatch(api) as watch:
            await drained(api, watch)
    finally:
        await asyncio.to_thread(plane.stop)


@contextlib.asynccontextmanager
async def one_good_gpu(cluster: ClusterUnderTest) -> AsyncIterator[WarmPlaceholders]:
    """A node with two GPUs: one has a placeholder, and a rule closes the other."""
    version = await served_rules_api(cluster.admin)
    if version is None:
        pytest.skip("Kubernetes 1.36 serves no rules by default")
    path = resource_path(version, PLURAL)
    selector = {"driver": DRIVER, "pool": "node-a", "device": "gpu-0"}
    spec = {"deviceSelector": selector, "taint": {"key": "power", "effect": "NoSchedule"}}
    await cluster.admin.create(path, {"metadata": {"name": "power"}, "spec": spec})
    try:
        async with warm_placeholders(cluster) as hub, hub.with_placeholders(1, gpus=2):
            yield hub
            await hub.stop()
    finally:
        await cluster.admin.delete(f"{path}/power", missing_ok=True)


async def test_a_start_beside_a_closed_device_is_a_handover(real_cluster: ClusterUnderTest) -> None:
    async with one_good_gpu(real_cluster) as hub:
        assert hub.world is not None
        ((warm_claim,),) = (each.claims for each in hub.world.warm(hub.shape))
        assert await hub.spawn() is None
        claim = await hub.claim_of()
        assert claim["metadata"]["name"] == warm_claim.name
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert result["device"] == "gpu-1"


async def test_a_start_of_another_choice_gets_the_good_device_at_once(real_cluster: ClusterUnderTest) -> None:
    """The service does not take the closed device for free, and wait until it believes the scheduler."""
    async with one_good_gpu(real_cluster) as hub:
        hub.side.spawner_config.cpu_guarantee = 0.5
        policy = present(hub.world).policy
        # Longer than a start may take.
        present(hub.world).policy = replace(policy, grace=replace(policy.grace, scheduler=timedelta(hours=1)))
        assert await hub.spawn() is None
        (result,) = (await hub.claim_of())["status"]["allocation"]["devices"]["results"]
        assert result["device"] == "gpu-1"


async def drained(api: KubernetesApi, watch: ClusterWatch) -> None:
    version = await served_rules_api(api)
    assert version is not None
    await api.create(resource_path("v1", "nodes"), node("n"))
    await api.create(resource_path(API, "deviceclasses"), device_class())
    gpus = [shareable(f"gpu-{number}") for number in range(10)]
    await api.create(resource_path(API, "resourceslices"), gpu_slice("n", *gpus))

    async def start(name: str, memory: str = "5Gi") -> None:
        await api.create(CLAIMS, claim(name, memory))
        await api.create(PODS, pod(name, claim=name, tolerations=EVERYWHERE))

    async def pods() -> dict[str, Any]:
        return {each["metadata"]["name"]: each for each in (await api.list(PODS))["items"]}

    async def placed(*wanted: str) -> bool:
        found = await pods()
        return all(found[name]["spec"].get("nodeName") for name in wanted)

    async def device_of(name: str) -> str:
        found = await api.get(f"{CLAIMS}/{name}")
        (result,) = found["status"]["allocation"]["devices"]["results"]
        return str(result["device"])

    # The seven fill the first GPU.
    for name in SHARERS:
        await start(name, "10Gi" if name == "s0" else "5Gi")
    await eventually(lambda: placed(*SHARERS), "the sharers are placed")
    assert {await device_of(name) for name in SHARERS} == {"gpu-0"}
    for name in OTHERS:
        await start(name)
    await eventually(lambda: placed(*OTHERS), "the others are placed")
    before = {name: (each["metadata"]["uid"], await device_of(name)) for name, each in (await pods()).items()}
    assert "gpu-0" not in {before[name][1] for name in OTHERS}

    now = datetime.now(UTC)
    setting = Override(
        OverrideKind.DEVICES, f"{DRIVER}/n/gpu-0", "user ada", now, reason="fan", evict_at=now + timedelta(hours=1)
    )

    async def write(at: datetime) -> None:
        path = resource_path(version, PLURAL)
        changes = needed_changes(rules_of({setting.name: setting}, at, "jhub", ""), (await api.list(path))["items"])
        for each in changes.created:
            await api.create(path, {**each, "apiVersion": version})
        for each in changes.replaced:
            await api.replace(f"{path}/{each['metadata']['name']}", {**each, "apiVersion": version})

    await write(now)
    device = DeviceId(DRIVER, "n", "gpu-0")

    def is_closed() -> bool:
        slices = watch.snapshot.slices.values()
        return any(each.taints for item in slices for each in item.devices if each.id == device)

    await eventually(is_closed, "the watch sees the rule")
    await start("later")
    await eventually(lambda: placed("later"), "a new server is placed")
    assert await device_of("later") != "gpu-0"
    assert not any(each["metadata"].get("deletionTimestamp") for each in (await pods()).values())

    # After the deadline.
    await write(now + timedelta(hours=1))

    async def ending() -> set[str]:
        found = await pods()
        return {
            name for name in before if name not in found or found[name]["metadata"].get("deletionTimestamp") is not None
        }

    async def sharers_end() -> bool:
        return set(SHARERS) <= await ending()

    await eventually(sharers_end, "the sharers are evicted")
    assert await ending() == set(SHARERS)
    for name in SHARERS:
        await api.delete(f"{PODS}/{name}", grace_period_seconds=0)
        await api.delete(f"{CLAIMS}/{name}")
        await start(f"{name}-again")
    again = [f"{name}-again" for name in SHARERS]
    await eventually(lambda: placed(*again), "the sharers are placed again")
    assert "gpu-0" not in {await device_of(name) for name in again}
    found = await pods()
    assert {name: (found[name]["metadata"]["uid"], await device_of(name)) for name in OTHERS} == {
        name: before[name] for name in OTHERS
    }
