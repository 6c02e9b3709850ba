"""The chart on a real kube-apiserver: its objects are valid, and its policy refuses all that the service does not need."""

from __future__ import annotations

from dra_spawner import names
from dra_spawner.common.json_types import JsonObject
from dra_spawner.kube.client.api import resource_path
from dra_spawner.kube.client.api_connection import ApiRequest
from tests.chart.applied import refusal
from tests.chart.installed import installed
from tests.chart.rendering import EVERYTHING, IMAGE
from tests.cluster.policy import until_in_force
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import node, prepare, user_pod

RELEASE = "gpus"
FULLNAME = "gpus-dra-spawner"
ACCOUNT = f"{FULLNAME}-service"
PLACEHOLDERS: JsonObject = {**IMAGE, "placeholders": {"enabled": True, "targets": {"gpu-whole": {"min": 1}}}}
PATCH = {"Content-Type": "application/merge-patch+json"}


async def test_every_object_is_valid(real_cluster: ClusterUnderTest) -> None:
    one_replica = {"service": {"replicas": 1}, "history": {"persistence": {"enabled": True}}}
    async with installed(real_cluster, {**EVERYTHING, **one_replica}, release=RELEASE) as objects:
        assert len(objects) > 30
        assert {"Deployment", "Pod", "PersistentVolumeClaim"} <= {each["kind"] for each in objects}


async def test_a_thief_may_write_nothing_else(real_cluster: ClusterUnderTest) -> None:
    """What the service itself writes is in test_whole_chart; attempts against each rule are in tests/adversary."""
    cluster = real_cluster
    await prepare(cluster, *node("node-a", whole("gpu-0")))
    await cluster.publish(user_pod("ada", {}))
    async with installed(cluster, PLACEHOLDERS, release=RELEASE):
        policy = f"dra-spawner-{cluster.namespace}.{FULLNAME}-service"
        await until_in_force(cluster.admin, cluster.namespace, ACCOUNT, f"{policy}-makes-leases")
        # With the token of the account, nothing else can be written.
        nodes = resource_path("v1", "nodes", name="node-a")
        attempts = {
            "makes-pods": ApiRequest("create", "POST", cluster.path("pods"), body=user_pod("thief", {})),
            "changes-pods": ApiRequest("delete", "DELETE", cluster.path("pods", "ada")),
            "labels-nodes": ApiRequest(
                "patch", "PATCH", nodes, body={"metadata": {"labels": {"pool": "mine"}}}, headers=PATCH
            ),
            "makes-claims": ApiRequest(
                "create",
                "POST",
                resource_path(names.RESOURCE_API, "resourceclaims", cluster.namespace),
                body={"metadata": {"name": "mine"}, "spec": {}},
            ),
        }
        for rule, request in attempts.items():
            assert f"'{policy}-{rule}'" in await refusal(cluster, ACCOUNT, request), rule
        # Roles refuse accounts without the right to write; the policy is not about the account of another release.
        secrets = ApiRequest("get", "GET", cluster.path("secrets"))
        assert 'cannot list resource "secrets"' in await refusal(cluster, ACCOUNT, secrets)
        assert policy not in await refusal(cluster, "other-dra-spawner-service", attempts["makes-pods"])
