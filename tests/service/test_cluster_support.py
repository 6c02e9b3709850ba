"""Reports of the service about clusters of other versions."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web

from dra_spawner import __version__
from dra_spawner.kube.client.connect import ClusterAddress, connect
from dra_spawner.service.cluster_support import cluster_version_problem
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


async def test_clusters(tmp_path: Path) -> None:
    """A supported one, an old one, a new one, one that a provider names, and one that does not say."""
    answers = iter(SENTENCES)

    async def answer(_: web.Request) -> web.Response:
        return versions_answer(*next(answers))

    async with serving(answer) as url:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", {"server": url}, "token", "default")
        async with await connect(ClusterAddress(str(kubeconfig))) as api:
            assert {each: await cluster_version_problem(api) for each in SENTENCES} == SENTENCES


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
