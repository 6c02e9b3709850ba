"""The chart on a real kube-apiserver: its objects are valid, its rights suffice, and its policy refuses all else."""

from __future__ import annotations

import json

from dra_spawner import names
from dra_spawner.json_types import JsonObject
from dra_spawner.kube.api import resource_path
from dra_spawner.kube.api_connection import ApiRequest
from tests.chart.applied import kubeconfig_of, refusal
from tests.chart.installed import installed
from tests.chart.rendering import EVERYTHING, IMAGE, of_kind
from tests.cluster.policy import until_in_force
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import whole
from tests.placeholders.controller.objects import WHOLE, node, prepare, shape, user_pod
from tests.polling import eventually
from tests.service.replica import publish_shapes, replica

RELEASE = "gpus"
FULLNAME = "gpus-dra-spawner"
ACCOUNT = f"{FULLNAME}-service"
GPU = shape(WHOLE)
PLACEHOLDERS: JsonObject = {**IMAGE, "placeholders": {"enabled": True, "targets": {"gpu-whole": {"min": 1}}}}
PATCH = {"Content-Type": "application/merge-patch+json"}


async def test_every_object_is_valid(real_cluster: ClusterUnderTest) -> None:
    one_replica = {"service": {"replicas": 1}, "history": {"persistence": {"enabled": True}}}
    async with installed(real_cluster, {**EVERYTHING, **one_replica}, release=RELEASE) as objects:
        assert len(objects) > 30
        assert {"Deployment", "Pod", "PersistentVolumeClaim"} <= {each["kind"] for each in objects}


async def test_the_service_works_and_a_thief_does_not(real_cluster: ClusterUnderTest) -> None:
    cluster = real_cluster
    await prepare(cluster, *node("node-a", whole("gpu-0"), whole("gpu-1")))
    await publish_shapes(cluster, {"gpu-whole": GPU})
    async with installed(cluster, PLACEHOLDERS, release=RELEASE) as objects:
        policy = f"dra-spawner-{cluster.namespace}.{FULLNAME}-service"
        await until_in_force(cluster.admin, cluster.namespace, ACCOUNT, f"{policy}-makes-leases")
        spec = of_kind(objects, "Deployment")["spec"]["template"]
        # As the Deployment makes it; no kubelet starts it.
        pod_spec = {
            "serviceAccountName": ACCOUNT,
            "containers": [{"name": "service", "image": "hub:1"}],
            "nodeSelector": {names.HOSTNAME: "none"},
        }
        pod = await cluster.admin.create(
            cluster.path("pods"),
            {"metadata": {"name": "replica", "labels": spec["metadata"]["labels"]}, "spec": pod_spec},
        )
        settings = json.loads(of_kind(objects, "ConfigMap", "-service")["data"]["config.json"])
        kubeconfig = await kubeconfig_of(cluster, ACCOUNT, pod)
        async with replica(cluster, kubeconfig, pod_name="replica", **settings) as service:
            await service.until_warm(GPU, 1)
            answer = await service.place(GPU, "ada")
            await service.start(GPU, "ada", WHOLE, answer)
            await cluster.wait_running("ada")
            decisions = service.context.decisions
            await service.until(lambda: any(each.decision.code == "handed-over" for each in decisions.newest(1000)))
            # An action whose request was not answered in time is tried again.
            last = {
                (each.decision.kind, each.decision.subject): each.decision.outcome
                for each in reversed(decisions.newest(1000))
            }
            assert set(last.values()) == {"done"}
            await service.until(lambda: service.context.problems() == (), "it has no problem")

            async def is_selected() -> bool:
                selector = ",".join(
                    f"{name}={value}"
                    for name, value in of_kind(objects, "Service", "dra-spawner")["spec"]["selector"].items()
                )
                found = await cluster.admin.list(cluster.path("pods"), label_selector=selector)
                return [each["metadata"]["name"] for each in found["items"]] == ["replica"]

            await eventually(is_selected, "the Service selects the leader")
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
