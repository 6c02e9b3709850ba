"""Reports of the service about clusters of other versions."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web

from dra_spawner import __version__
from dra_spawner.dra.errors import AllocationError
from dra_spawner.dra.model.objects import ResourceClaim
from dra_spawner.kube.client.connect import ClusterAddress, connect
from dra_spawner.kube.cluster_watch import ClusterWatch
from dra_spawner.names import RESOURCE_API
from dra_spawner.service.cluster_support import cluster_version_problem, learn_release
from dra_spawner.simulator.model.cluster_objects import Kind
from tests.cluster.control_plane import write_kubeconfig
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.service_process import ServiceProcess
from tests.local_server import serving
from tests.polling import eventually

OLD = f"Kubernetes 1.33 is not supported: dra-spawner {__version__} needs 1.34 or later."


def versions_answer(version: str, status: int = 200) -> web.Response:
    body = {"gitVersion": version} if status == 200 else {"kind": "Status", "code": status, "reason": "Forbidden"}
    return web.json_response(body, status=status)


NEWER = f"Kubernetes 1.99 is newer than 1.37, the newest version that dra-spawner {__version__} is tested with."
SENTENCES = {
    ("v1.33.4", 200): OLD,
    ("v1.37.2", 200): "",
    ("strange", 200): "",
    ("v1.33.4", 403): "",
    ("v1.99.0", 200): NEWER,
}

SHARED = {
    "apiVersion": RESOURCE_API,
    "kind": "ResourceSlice",
    "metadata": {"name": "s"},
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "d", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}],
    },
}


async def test_clusters(tmp_path: Path) -> None:
    """A supported one, an old one, a new one, one that a provider names, and one that does not say."""
    answers = iter(SENTENCES)

    async def answer(_: web.Request) -> web.Response:
        return versions_answer(*next(answers))

    async with serving(answer) as url:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"server": url}, "token", "default")
        async with await connect(ClusterAddress(str(kubeconfig))) as api:
            assert {each: await cluster_version_problem(api) for each in SENTENCES} == SENTENCES


async def test_devices_are_decided_as_in_the_clusters_release(tmp_path: Path) -> None:
    """Also after an upgrade of the cluster, while nobody answers, and in a release that nobody knows."""
    answers = iter([("v1.36.3", 200), ("v1.37.2+k3s1", 200), ("", 503), ("v1.38.0", 200), ("v1.99.0", 200)])

    async def answer(_: web.Request) -> web.Response:
        return versions_answer(*next(answers))

    async with serving(answer) as url:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"server": url}, "token", "default")
        async with await connect(ClusterAddress(str(kubeconfig))) as api:
            watch = ClusterWatch(api)
            watch.put(Kind.RESOURCE_SLICE, SHARED)
            named = {"metadata": {"name": "gpu"}, "spec": {}}
            watch.put(Kind.DEVICE_CLASS, {"apiVersion": RESOURCE_API, "kind": "DeviceClass", **named})
            watch.put(Kind.NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
            found = []
            for _ in range(5):
                version, problem = watch.version, await learn_release(api, watch, {})
                # A negative size makes room in 1.36, and is an error later.
                fits = isinstance(_allocated(watch), tuple)
                found.append((watch.snapshot.rules.release, fits, watch.version > version, bool(problem)))
    assert found == [
        ((1, 36), True, True, False),
        ((1, 37), False, True, False),
        ((1, 37), False, False, False),
        ((1, 38), False, True, True),
        ((1, 38), False, False, True),
    ]


def _allocated(watch: ClusterWatch) -> object:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "capacity": {"requests": {"memory": "-5Gi"}}}}
    claim = ResourceClaim.from_json({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}})
    try:
        return watch.snapshot.state.devices.allocate("n1", [claim])
    except AllocationError as error:
        return error


async def test_feature_gates_are_followed(tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.Response:
        return versions_answer("v1.37.2")

    async with serving(answer) as url:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"server": url}, "token", "default")
        async with await connect(ClusterAddress(str(kubeconfig))) as api:
            watch = ClusterWatch(api)
            found = []
            for gates in ({}, {"DRAFractionalCapacityRange": True}):
                await learn_release(api, watch, gates)
                found.append(watch.snapshot.rules.features.fractional_capacity_range)
    assert found == [False, True]


async def test_the_clusters_of_the_tests_are_supported(cluster: ClusterUnderTest) -> None:
    assert await cluster_version_problem(cluster.admin) == ""


async def test_the_service_reports_an_old_cluster_and_goes_on(tmp_path: Path) -> None:
    """An upgrade of the cluster solves the problem; a service that ends would be restarted again and again."""

    async def answer(request: web.Request) -> web.Response:
        return versions_answer("v1.33.4", 200 if request.path == "/version" else 404)

    async with serving(answer) as url:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"server": url}, "token", "default")
        async with ServiceProcess(tmp_path, f"--kubeconfig={kubeconfig}") as service:

            async def has_named_version() -> bool:
                return "Kubernetes 1.33 is not supported" in service.log.read_text()

            await eventually(has_named_version, "the version is named")
            status, _ = await service.answer("/readyz")
            assert status == 503
