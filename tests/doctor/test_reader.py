"""Facts of an installation from the reader, on the embedded cluster."""

from __future__ import annotations

import json
from typing import Any, cast

from dra_spawner import names
from dra_spawner.doctor.facts import Account, DoctorFacts, ServiceSettings
from dra_spawner.doctor.reader import DoctorReader, Questions, neighbours_of
from dra_spawner.kube.client.api import KubernetesApi, KubernetesError, resource_path
from dra_spawner.kube.client.api_errors import RequestTarget
from tests.cluster.under_test import ClusterUnderTest


async def read(cluster: ClusterUnderTest, **questions: Any) -> DoctorFacts:
    return await DoctorReader(cluster.admin, Questions(cluster.namespace, **questions)).read()


async def configure(cluster: ClusterUnderTest, text: str) -> None:
    """The chart's ConfigMap."""
    metadata = {"name": "dra-spawner-service", "labels": {names.APPLICATION: names.SERVICE}}
    path = resource_path("v1", "configmaps", cluster.namespace)
    await cluster.admin.delete(f"{path}/dra-spawner-service", missing_ok=True)
    await cluster.admin.create(path, {"metadata": metadata, "data": {"config.json": text}})


async def test_settings_are_those_of_the_chart(embedded_cluster: ClusterUnderTest) -> None:
    facts = await read(embedded_cluster)
    assert (facts.settings, facts.labels_of_namespaces) == (None, None)
    await configure(embedded_cluster, json.dumps({"lease_name": "mine", "placeholder_priority_class": "p"}))
    without = ServiceSettings(has_placeholders=False, lease_name="mine", priority_class="p")
    assert (await read(embedded_cluster)).settings == without
    await configure(embedded_cluster, json.dumps({"placeholders": {}, "user_namespaces": True}))
    facts = await read(embedded_cluster)
    assert facts.settings == ServiceSettings(user_namespaces=True)
    assert facts.labels_of_namespaces is not None
    assert embedded_cluster.namespace in facts.labels_of_namespaces
    for text in ("[]", "{", '{"lease_name": 3}'):
        await configure(embedded_cluster, text)
        settings = (await read(embedded_cluster)).settings
        assert settings is None or settings.lease_name == "3"
    given = ServiceSettings(lease_name="given")
    assert (await read(embedded_cluster, settings=given)).settings == given


async def test_facts_are_read_from_the_cluster(embedded_cluster: ClusterUnderTest) -> None:
    cluster = embedded_cluster
    shapes = {"name": "mine", "labels": {names.MANAGED_BY: names.MANAGER}, "annotations": {names.PUBLISHER: "hub"}}
    await cluster.admin.create(resource_path("v1", "configmaps", cluster.namespace), {"metadata": shapes})
    facts = await read(cluster)
    assert (facts.kubernetes, facts.kubernetes_patch) == ((1, 37), 2)
    assert facts.versions is not None
    assert "v1" in facts.versions
    assert (facts.classes, facts.slices, facts.control_plane, facts.lease) == ((), (), (), {})
    assert facts.shapes_config_maps == {"mine"}
    assert abs(facts.clocks["API server"]) < 30
    assert (facts.hub, facts.service, facts.rights) == (None, None, ())


async def test_neighbours_are_what_discovery_says() -> None:
    """A group can have a version without the kind, and a version whose answer fails."""
    documents: dict[str, Any] = {
        "/apis/kueue.x-k8s.io/v1beta1": ["localqueues"],
        "/apis/kueue.x-k8s.io/v1beta2": ["clusterqueues"],
        "/apis/scheduling.k8s.io/v1": ["priorityclasses"],
        "/apis/resource.k8s.io/v1": ["resourceclaims"],
    }

    class Discovery:
        async def get(self, path: str) -> Any:
            if path not in documents:
                raise KubernetesError(RequestTarget.from_path("get", path), status=503, reason="", message="")
            resources = [{"name": each} for each in documents[path]]
            return {"kind": "APIResourceList", "groupVersion": path.removeprefix("/apis/"), "resources": resources}

    groups = {
        "kueue.x-k8s.io": frozenset({"v1beta1", "v1beta2"}),
        "scheduling.k8s.io": frozenset({"v1", "v1beta1"}),
        "resource.k8s.io": frozenset({"v1"}),
    }
    assert await neighbours_of(cast(KubernetesApi, Discovery()), groups) == {("kueue.x-k8s.io", "clusterqueues")}


async def test_accounts_that_nobody_named_are_not_asked_about(embedded_cluster: ClusterUnderTest) -> None:
    """The service that a hub starts has no Deployment, and the hub's account."""
    assert "rights" not in str((await read(embedded_cluster)).unseen)
    named = await read(embedded_cluster, accounts={Account.HUB: "somebody"})
    assert [each.what for each in named.unseen if "rights" in each.what] == ["The rights of the hub's account"]
