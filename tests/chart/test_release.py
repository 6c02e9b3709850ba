"""`helm install`, `upgrade` and `uninstall` against a real API server."""

from __future__ import annotations

import asyncio
import io

from dra_spawner.commands.removing.uninstall_command import UninstallOptions, run_uninstall
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import resource_path
from tests.chart.applied import create_object
from tests.chart.rendering import CHART, IMAGE, of_kind, rendered, run_helm
from tests.cluster.under_test import ClusterUnderTest
from tests.commands.removing.left_objects import marked_objects
from tests.polling import eventually

NAME = "dra-spawner"
VALUES: JsonObject = {
    **IMAGE,
    "placeholders": {"enabled": True},
    "userNamespaces": True,
    "hub": {"baseUrl": "/jupyter"},
    "service": {"replicas": None},
}
ALL_KINDS = (
    ("v1", "configmaps"),
    ("v1", "serviceaccounts"),
    ("v1", "services"),
    ("apps/v1", "deployments"),
    ("policy/v1", "poddisruptionbudgets"),
    ("networking.k8s.io/v1", "networkpolicies"),
    ("rbac.authorization.k8s.io/v1", "roles"),
    ("rbac.authorization.k8s.io/v1", "rolebindings"),
)
CLUSTER_KINDS = (
    ("rbac.authorization.k8s.io/v1", "clusterroles"),
    ("rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    ("scheduling.k8s.io/v1", "priorityclasses"),
    ("admissionregistration.k8s.io/v1", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings"),
)


async def ours(cluster: ClusterUnderTest) -> set[str]:
    """Kind and name of every object of the release."""
    found = set()
    for namespace, kinds in ((cluster.namespace, ALL_KINDS), (None, CLUSTER_KINDS)):
        for version, plural in kinds:
            listed = await cluster.admin.list(resource_path(version, plural, namespace))
            for obj in listed["items"]:
                by = obj["metadata"].get("annotations", {}).get("meta.helm.sh/release-namespace")
                if by == cluster.namespace:
                    found.add(f"{plural}/{obj['metadata']['name']}")
    return found


async def test_a_release_comes_is_upgraded_and_goes(real_cluster: ClusterUnderTest) -> None:
    cluster = real_cluster
    there = ("--kubeconfig", str(cluster.admin_kubeconfig), "--namespace", cluster.namespace)
    run_helm("install", NAME, str(CHART), *there, "--dry-run=server", values=VALUES)
    assert await ours(cluster) == set()
    before = (await marked_objects(cluster.admin, cluster.namespace)).keys()
    notes = run_helm("install", NAME, str(CHART), *there, values=VALUES)
    try:
        assert "Its page: /jupyter/services/dra-spawner/" in notes
        assert "baseUrl: /jupyter/" in notes
        assert "WARNING: the history ends with the pods" in notes
        assert "WARNING: the hub has" not in notes
        installed = await ours(cluster)
        assert len(installed) > 30
        # Settings made at run time stay.
        path = resource_path("apps/v1", "deployments", cluster.namespace, NAME)
        await cluster.admin.patch(path, {"spec": {"replicas": 3}})
        settings = cluster.path("configmaps", f"{NAME}-settings")
        await cluster.admin.patch(settings, {"data": {"settings.json": "{}"}})
        secret = {"metadata": {"name": "hub"}, "stringData": {"values.yaml": "hub: {baseUrl: /other/}"}}
        await cluster.admin.create(cluster.path("secrets"), secret)
        notes = run_helm("upgrade", NAME, str(CHART), *there, values={**VALUES, "networkPolicy": {"enabled": False}})
        assert "WARNING: the hub has hub.baseUrl /other/, this chart /jupyter." in notes
        assert (await cluster.admin.get(path))["spec"]["replicas"] == 3
        assert (await cluster.admin.get(settings))["data"] == {"settings.json": "{}"}
        # As `helm test` makes it; Helm leaves it there.
        pod = of_kind(rendered(VALUES, release=NAME, namespace=cluster.namespace, with_tests=True), "Pod")
        await create_object(cluster.admin, {**pod, "spec": {**pod["spec"], "nodeSelector": {"none": "none"}}})
        assert installed - await ours(cluster) == {f"networkpolicies/{NAME}"}
    finally:
        run_helm("uninstall", NAME, *there)

    async def is_gone() -> bool:
        return await ours(cluster) == set()

    await eventually(is_gone, "nothing of the release is left")
    options = UninstallOptions(kubeconfig=str(cluster.admin_kubeconfig), namespaces=(cluster.namespace,))
    output = io.StringIO()
    assert await asyncio.to_thread(run_uninstall, options, output, output) == 0, output.getvalue()
    assert f"Pod {cluster.namespace}/{NAME}-test" in output.getvalue()

    async def is_as_before() -> bool:
        # An object whose owner was just deleted goes a moment later.
        return (await marked_objects(cluster.admin, cluster.namespace)).keys() <= before

    await eventually(is_as_before, "nothing shows that the chart was there")
