"""A test leaves nothing on the control plane that would disturb the next test."""

from __future__ import annotations

from pathlib import Path

from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.kube.taint_rules import PLURAL as TAINT_RULES
from dra_spawner.kube.taint_rules import served_rules_api
from tests.cluster.background import BackgroundLoop
from tests.cluster.control_plane import ControlPlane
from tests.cluster.example_objects import gpu_class, gpu_slice, pod, share_template, taint_rule
from tests.cluster.fixtures import namespace_on
from tests.polling import eventually

RESOURCE_API = "resource.k8s.io/v1"
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


async def test_nothing_that_uses_or_closes_devices_outlives_its_test(
    control_plane: ControlPlane, background_loop: BackgroundLoop, tmp_path: Path
) -> None:
    """A rule of one test closed the devices of the next one, whose node had the same name."""
    async with namespace_on(control_plane, background_loop, tmp_path / "cluster") as cluster:
        api, other = cluster.admin, f"{cluster.namespace}-other"
        await api.create(resource_path("v1", "namespaces"), {"metadata": {"name": other}})
        version = await served_rules_api(api)
        cluster_wide = {
            resource_path("v1", "nodes"): {"metadata": {"name": "n"}},
            resource_path(RESOURCE_API, "resourceslices"): gpu_slice("n"),
            resource_path(RESOURCE_API, "deviceclasses"): gpu_class(),
        }
        if version is not None:
            cluster_wide[resource_path(version, TAINT_RULES)] = {**taint_rule("r", pool="n"), "apiVersion": version}
        for path, body in cluster_wide.items():
            await api.create(path, body)
        for name in (cluster.namespace, other):
            await api.create(resource_path(RESOURCE_API, "resourceclaimtemplates", name), share_template("t", "10Gi"))
            await api.create(resource_path("v1", "pods", name), pod("p", ["true"], template="t"))
            claims = resource_path(RESOURCE_API, "resourceclaims", name)

            async def is_made(claims: str = claims) -> bool:
                return bool((await api.list(claims))["items"])

            await eventually(is_made, "the pod's claim is made")
    async with await KubernetesApi.from_kubeconfig(control_plane.admin_kubeconfig) as admin:
        for path in (
            *cluster_wide,
            resource_path("v1", "pods"),
            resource_path(RESOURCE_API, "resourceclaims"),
        ):
            assert [each["metadata"]["name"] for each in (await admin.list(path))["items"]] == [], path
