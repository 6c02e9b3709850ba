"""The ``cluster`` fixture: each test that asks for it runs on the embedded cluster and on a real control plane.

Under pytest-xdist each worker has a control plane of its own. Nodes, slices and classes have no namespace, so tests that
run at the same time on one control plane would use each other's devices; and it costs two seconds and 600 MB a worker.
Within a worker one control plane serves all tests, each in a fresh namespace.
"""

from __future__ import annotations

import secrets
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from dra_spawner.devcluster.embedded_cluster import EmbeddedCluster
from dra_spawner.devcluster.kubelet.kubelet import Kubelet
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from tests.polling import PATIENCE_SECONDS

from .access import hub_token
from .background import BackgroundLoop
from .control_plane import ControlPlane
from .harness_binary import NEWEST, BinaryUnavailable, chosen_release, control_plane_binary
from .under_test import ClusterUnderTest

ONLY_NEWEST = "the embedded cluster is compared with the newest release only"
#: Marks a test that compares the embedded cluster, which is the newest release, with a real one.
newest_only = pytest.mark.skipif(chosen_release() != NEWEST, reason=ONLY_NEWEST)

# Of the scheduler and the controller manager: tests are not for waiting on a rate limit.
_CLIENT_QPS = 500


@pytest.fixture(scope="session")
def background_loop() -> Iterator[BackgroundLoop]:
    """Where kubelets and embedded clusters run."""
    with BackgroundLoop("clusters") as loop:
        yield loop


@pytest.fixture(scope="session")
def control_plane_report(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Prints a message on the terminal, past pytest's capturing."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def report(text: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{text}", end="", file=sys.stderr, flush=True)

    return report


@pytest.fixture(scope="session")
def control_plane_path(control_plane_report: Callable[[str], None]) -> Path:
    """The control plane's binary; skips if there is none."""
    try:
        return control_plane_binary(control_plane_report)
    except BinaryUnavailable as error:
        pytest.skip(f"no real control plane: {error}")


@pytest.fixture(scope="session")
def control_plane(control_plane_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A running control plane for all tests of this process."""
    directory = tmp_path_factory.mktemp("control-plane")
    with ControlPlane(control_plane_path, directory, client_qps=_CLIENT_QPS) as plane:
        yield plane
        plane.check()
    # The logs stay as long as pytest keeps the directory.
    shutil.rmtree(directory / "etcd", ignore_errors=True)


@pytest_asyncio.fixture
async def real_cluster(
    control_plane: ControlPlane, background_loop: BackgroundLoop, tmp_path: Path
) -> AsyncIterator[ClusterUnderTest]:
    """A namespace on the real control plane, for tests that run on nothing else."""
    async with namespace_on(control_plane, background_loop, tmp_path / "cluster") as cluster:
        yield cluster


@asynccontextmanager
async def namespace_on(
    control_plane: ControlPlane,
    background_loop: BackgroundLoop,
    directory: Path,
    *,
    keeps_nodes: bool = False,
    clears: bool = True,
) -> AsyncIterator[ClusterUnderTest]:
    """A namespace of its own on a control plane; nodes and slices go with it unless they are kept.

    Without clearing everything stays, for a control plane that ends, too.
    """
    control_plane.check()
    kubeconfig = control_plane.admin_kubeconfig
    namespace = f"test-{secrets.token_hex(4)}"
    background_admin = await background_loop.await_(
        KubernetesApi.from_kubeconfig(kubeconfig, timeout_seconds=PATIENCE_SECONDS)
    )
    async with await KubernetesApi.from_kubeconfig(kubeconfig, timeout_seconds=PATIENCE_SECONDS) as admin:
        await admin.create(resource_path("v1", "namespaces"), {"metadata": {"name": namespace}})
        token = await hub_token(admin, namespace)
        directory.mkdir()
        cluster = ClusterUnderTest(
            kind="real",
            namespace=namespace,
            url=control_plane.url,
            admin=admin,
            admin_kubeconfig=kubeconfig,
            hub_kubeconfig=control_plane.write_kubeconfig(directory / "hub.kubeconfig", token, namespace=namespace),
            hub_token=token,
            admin_token=control_plane.admin_token,
            directory=directory,
            loop=background_loop,
            background_admin=background_admin,
            certificate_authority=control_plane.certificate_authority,
            keeps_nodes=keeps_nodes,
        )
        try:
            yield cluster
            control_plane.check()
        finally:
            if clears:
                await cluster.clear()
            await background_loop.await_(background_admin.close())


@pytest_asyncio.fixture
async def embedded_cluster(background_loop: BackgroundLoop, tmp_path: Path) -> AsyncIterator[ClusterUnderTest]:
    """An embedded cluster of its own for the test, for tests that run on nothing else.

    Nodes are served by the test's own kubelet stand-in, as on the real control plane.
    """
    directory = tmp_path / "embedded-cluster"
    directory.mkdir()
    embedded = EmbeddedCluster(directory / "embedded", run_pods=False)
    await background_loop.await_(embedded.start())

    def read_logs_from(kubelet: Kubelet) -> None:
        embedded.logs = kubelet.read_log

    try:
        background_admin = await background_loop.await_(
            KubernetesApi.from_kubeconfig(embedded.kubeconfig, timeout_seconds=PATIENCE_SECONDS)
        )
        async with await KubernetesApi.from_kubeconfig(embedded.kubeconfig, timeout_seconds=PATIENCE_SECONDS) as admin:
            namespace = f"test-{secrets.token_hex(4)}"
            await admin.create(resource_path("v1", "namespaces"), {"metadata": {"name": namespace}})
            cluster = ClusterUnderTest(
                kind="embedded",
                namespace=namespace,
                url=embedded.url,
                admin=admin,
                admin_kubeconfig=embedded.kubeconfig,
                hub_kubeconfig=embedded.kubeconfig,
                hub_token=embedded.token,
                admin_token=embedded.token,
                directory=directory,
                loop=background_loop,
                background_admin=background_admin,
                on_kubelet=read_logs_from,
            )
            try:
                yield cluster
            finally:
                # All objects go with the cluster, but processes do not.
                await cluster.stop_kubelet()
                await background_loop.await_(background_admin.close())
    finally:
        await background_loop.await_(embedded.stop())


@pytest.fixture(params=["embedded", "real"])
def cluster(request: pytest.FixtureRequest) -> ClusterUnderTest:
    """The cluster to test on: each test runs on both."""
    return request.getfixturevalue(f"{request.param}_cluster")
