"""What the service says of clusters that it cannot work with."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from aiohttp import web

from dra_spawner import __version__
from dra_spawner.kube.api import KubernetesApi
from dra_spawner.kube.connect import ClusterAddress, connect
from dra_spawner.service.cluster_support import lacks_device_claims, newer_cluster
from tests.cluster.control_plane import write_kubeconfig
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.service_process import ServiceProcess
from tests.local_server import serving
from tests.polling import eventually


def server_of(version: str, *, has_claims: bool, status: int = 404) -> AbstractAsyncContextManager[str]:
    """An API server that has little more than a version."""

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/version":
            return web.json_response({"gitVersion": version})
        if request.path == "/apis/resource.k8s.io/v1" and has_claims:
            return web.json_response({"kind": "APIResourceList", "resources": []})
        return web.json_response({"kind": "Status", "code": status, "reason": "NotFound"}, status=status)

    return serving(answer)


async def api_of(url: str, directory: Path) -> KubernetesApi:
    return await connect(
        ClusterAddress(str(write_kubeconfig(directory / "kubeconfig", {"server": url}, "token", "default")))
    )


@pytest.mark.parametrize(
    ("version", "has_claims", "status", "lacks", "newer"),
    [
        pytest.param(
            "v1.33.4",
            False,
            404,
            f"Kubernetes 1.33 is not supported: dra-spawner {__version__} needs 1.34 or later.",
            f"Kubernetes 1.33 is not supported: dra-spawner {__version__} needs 1.34 or later.",
            id="too-old",
        ),
        pytest.param(
            "v1.36.0",
            False,
            404,
            "Kubernetes v1.36.0 serves no resource.k8s.io/v1: this API group was switched off at the API server.",
            "",
            id="switched-off",
        ),
        pytest.param("v1.36.3", True, 404, "", "", id="supported"),
        pytest.param("strange", True, 404, "", "", id="of-a-provider"),
        pytest.param("v1.35.0", False, 403, "", "", id="not-allowed-to-ask"),
        pytest.param(
            "v1.99.0",
            True,
            404,
            "",
            f"Kubernetes 1.99 is newer than 1.36, the newest version that dra-spawner {__version__} is tested with.",
            id="newer",
        ),
    ],
)
async def test_clusters(version: str, has_claims: bool, status: int, lacks: str, newer: str, tmp_path: Path) -> None:
    async with server_of(version, has_claims=has_claims, status=status) as url, await api_of(url, tmp_path) as api:
        assert await lacks_device_claims(api) == lacks
        assert await newer_cluster(api) == newer


async def test_the_clusters_of_the_tests_are_supported(cluster: ClusterUnderTest) -> None:
    assert await lacks_device_claims(cluster.admin) == ""
    assert await newer_cluster(cluster.admin) == ""


async def test_the_service_says_so_and_waits(tmp_path: Path) -> None:
    """An upgrade of the cluster ends it; a service that ends would be started again and again."""
    async with server_of("v1.33.4", has_claims=False) as url:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"server": url}, "token", "default")
        async with ServiceProcess(tmp_path, f"--kubeconfig={kubeconfig}") as service:

            async def has_said_so() -> bool:
                return "Kubernetes 1.33 is not supported" in service.log.read_text()

            await eventually(has_said_so, "the version is named")
            status, _ = await service.answer("/readyz")
            assert status == 503
