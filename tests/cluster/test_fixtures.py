"""A test leaves nothing on the control plane that would disturb the next test."""

from __future__ import annotations

from pathlib import Path

from dra_spawner.kube.client.api import KubernetesApi, resource_path
from tests.cluster.background import BackgroundLoop
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import namespace_on

LEASES = "coordination.k8s.io/v1", "leases"


async def test_no_lease_outlives_its_test(
    control_plane: ControlPlane, background_loop: BackgroundLoop, tmp_path: Path
) -> None:
    """A namespace goes seconds after its test; a Lease in it would make another test's uninstall find a leader."""
    async with namespace_on(control_plane, background_loop, tmp_path / "cluster") as cluster:
        lease = {"metadata": {"name": "dra-spawner"}, "spec": {"holderIdentity": "killed", "leaseDurationSeconds": 60}}
        await cluster.admin.create(resource_path(*LEASES, cluster.namespace), lease)
    async with await KubernetesApi.from_kubeconfig(control_plane.admin_kubeconfig) as admin:
        leases = (await admin.list(resource_path(*LEASES)))["items"]
    assert [each for each in leases if each["metadata"]["namespace"] == cluster.namespace] == []
