"""Everything works with the rights that are shipped, and no more; a missing right is named as the rule to add."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dra_spawner import names
from dra_spawner.kube.client.api import KubernetesApi, resource_path
from dra_spawner.kube.client.api_errors import KubernetesError, RequestTarget
from dra_spawner.kube.client.rights import missing_right
from tests.all_of_them import all_of_them
from tests.cluster.access import PLACEHOLDER_RULES, RBAC_API, SERVICE_ACCOUNT, grant, shipped_objects
from tests.cluster.accounts import service_kubeconfig
from tests.cluster.under_test import ClusterUnderTest
from tests.integration.devices import PRIORITY_CLASS, shareable, whole
from tests.placeholders.controller.objects import SHARE, WHOLE, claim_spec, node, shape, user_pod
from tests.polling import eventually
from tests.service.replica import Replica, begin_round, replica, server_objects, set_up

GPU = shape(WHOLE)
PART = shape(SHARE)


@contextlib.asynccontextmanager
async def with_shipped_rights(cluster: ClusterUnderTest, **traits: Any) -> AsyncIterator[Replica]:
    async with replica(cluster, await service_kubeconfig(cluster), **traits) as found:
        yield found


async def test_everything_works_with_the_rights_that_are_shipped(real_cluster: ClusterUnderTest) -> None:
    cluster = real_cluster
    await set_up(cluster, {"gpu-whole": GPU, "gpu-slice": PART}, *node("node-a", whole("gpu-0"), shareable("gpu-1")))
    placeholders = {"gpu-whole": {"min": 1}, "gpu-slice": {"min": 4, "max": 4}}
    async with with_shipped_rights(cluster, placeholders=placeholders) as service:
        await service.until_warm(GPU, 1)
        await service.until_warm(PART, 4)
        # A handover: the claim is reserved, owned, gets a consumer, and the placeholder is deleted.
        answer = await service.place(GPU, "ada")
        await service.start(GPU, "ada", WHOLE, answer)
        await cluster.wait_running("ada")
        await service.until(lambda: "handed-over" in codes(service), "the placeholder goes")
        # Placeholders are preempted for another shape, and the pod is marked.
        large = {"gpu": claim_spec("gpu-share.example.com", "20Gi")}
        await cluster.publish(*server_objects("eve", shape(large), large))
        await cluster.wait_running("eve")
        assert_all_done(service)
    # An unused reservation ends, and the devices are free.
    async with with_shipped_rights(cluster, placeholders=placeholders, reservation_seconds=1) as service:
        await service.until(lambda: service.controller.leads, "it leads")
        await service.until(lambda: bool(service.controller.view().warm(PART.id)), "one is warm")
        assert (await service.place(PART, "nobody"))["state"] == "ready"
        await service.until(lambda: "expired" in codes(service), "the reservation expires")
        assert_all_done(service)


def assert_all_done(service: Replica) -> None:
    assert service.context.problems() == ()
    assert {each.decision.outcome for each in service.context.decisions.newest(1000)} == {"done"}


def codes(service: Replica) -> set[str]:
    return {each.decision.code for each in service.context.decisions.newest(1000)}


async def test_a_handover_on_a_full_node_with_the_rights_that_are_shipped(real_cluster: ClusterUnderTest) -> None:
    """The server's pod becomes a consumer of the warm claim, which needs another right."""
    cluster = real_cluster
    gpu = shape(WHOLE, cpu="5")
    await set_up(cluster, {"gpu-whole": gpu}, *node("node-a", whole("gpu-0")))
    async with with_shipped_rights(cluster, placeholders={"gpu-whole": {"min": 1, "max": 1}}) as service:
        await service.until_warm(gpu, 1)
        answer = await service.place(gpu, "ada")
        await service.start(gpu, "ada", WHOLE, answer, cpu="5")
        await cluster.wait_running("ada")
        outcomes = {each.decision.outcome for each in service.context.decisions.newest(1000)}
        assert outcomes == {"done"}


@pytest.mark.promise("A right that is missing is named.")
async def test_missing_rules_are_named(real_cluster: ClusterUnderTest) -> None:
    """Without any of the placeholders' rules, then with some of them taken away."""
    cluster = real_cluster
    await set_up(cluster, {"gpu-whole": GPU}, *node("node-a", whole("gpu-0")))
    kubeconfig = await service_kubeconfig(cluster, rules=())
    async with replica(cluster, kubeconfig, placeholders={"gpu-whole": {"min": 1}}) as service:
        rule = '{apiGroups: [""], resources: [configmaps], resourceNames: [dra-spawner-shapes], verbs: [list, watch]}'
        reported = f"its account lacks the rule {rule} in namespace {cluster.namespace}"
        # Before the first answer, the service reports that nothing is known yet.
        await service.until(
            lambda: any(reported in each for each in service.context.problems()), "the rule is reported"
        )
        settings = rule.replace("dra-spawner-shapes", "dra-spawner-settings")
        await service.until(
            lambda: [settings in each for each in service.context.problems()] == [False, True], "both are reported"
        )
    await grant(cluster.admin, cluster.namespace, PLACEHOLDER_RULES, SERVICE_ACCOUNT)
    await without(cluster, "clusterroles", None, "nodes")
    await without(cluster, "roles", cluster.namespace, "resourceclaims")
    async with replica(cluster, kubeconfig, placeholders={"gpu-whole": {"min": 1}}) as service:
        claims = f'{{apiGroups: ["resource.k8s.io"], resources: [resourceclaims], verbs: [create]}} in namespace {cluster.namespace}'
        nodes = '{apiGroups: [""], resources: [nodes], verbs: [patch]}'
        expected = {
            f"Placeholders: its account lacks the rule {claims}.",
            f"Placeholders: its account lacks the ClusterRole rule {nodes}.",
        }
        await service.until(lambda: set(service.context.problems()) == expected, "both are reported")
        # The write is not repeated again and again.
        count = service.context.decisions.count
        latest = service.controller.latest
        begin_round(service)
        await service.until(lambda: service.controller.latest is not latest, "it was decided again")
        assert service.context.decisions.count <= count + 1


async def without(cluster: ClusterUnderTest, plural: str, namespace: str | None, resource: str) -> None:
    """Take the rules about a resource out of a role of the placeholders."""
    (name,) = [
        obj["metadata"]["name"]
        for obj in shipped_objects(cluster.namespace, PLACEHOLDER_RULES)
        if f"{obj['kind'].lower()}s" == plural
    ]
    path = resource_path(RBAC_API, plural, namespace, name)
    role = await cluster.admin.get(path)
    role["rules"] = [rule for rule in role["rules"] if resource not in rule["resources"]]
    await cluster.admin.replace(path, role)
    user = f"system:serviceaccount:{cluster.namespace}:{SERVICE_ACCOUNT}"
    group = "" if resource == "nodes" else "resource.k8s.io"
    verb = {"nodes": "patch", "resourceclaims": "create"}.get(resource, "update")
    name, _, subresource = resource.partition("/")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user,
            "resourceAttributes": {
                "namespace": namespace or "",
                "verb": verb,
                "group": group,
                "resource": name,
                "subresource": subresource,
            },
        },
    }

    async def is_refused(api: KubernetesApi) -> bool:
        answer = await api.create(resource_path("authorization.k8s.io/v1", "subjectaccessreviews"), review)
        return not answer["status"]["allowed"]

    await eventually(lambda: is_refused(cluster.admin), f"the rule about {resource} is not granted any more")


async def test_a_handover_ends_well_without_the_right_to_add_a_consumer(real_cluster: ClusterUnderTest) -> None:
    """As after an upgrade to Kubernetes 1.36: the server runs, and a decision shows the missing right."""
    cluster = real_cluster
    gpu = shape(WHOLE, cpu="5")
    await set_up(cluster, {"gpu-whole": gpu}, *node("node-a", whole("gpu-0")))
    kubeconfig = await service_kubeconfig(cluster)
    await without(cluster, "clusterroles", None, "resourceclaims/binding")
    async with replica(cluster, kubeconfig, placeholders={"gpu-whole": {"min": 1, "max": 1}}) as service:
        await service.until_warm(gpu, 1)
        (placeholder,) = service.placeholders()
        answer = await service.place(gpu, "ada")
        pod = user_pod("ada", {"gpu": {"resourceClaimName": answer["claims"]["gpu"]}}, cpu="5")
        pod["metadata"]["labels"][names.SHAPE] = gpu.id
        # The scheduler would preempt the placeholder, and perhaps before the service acts.
        pod["spec"]["priorityClassName"] = PRIORITY_CLASS
        await cluster.publish(pod)

        def refused() -> set[str]:
            decisions = [each.decision for each in service.context.decisions.newest(100)]
            return {each.kind for each in decisions if "resourceclaims/binding" in each.outcome}

        await service.until(lambda: refused() == {"add-consumer"}, "a decision shows the missing right")
        await cluster.admin.delete(cluster.path("pods", placeholder.name), missing_ok=True)
        await cluster.wait_running("ada")
        assert refused() == {"add-consumer"}


LACKS = "its account lacks the"
NOT_ALLOWED = 'User "system:serviceaccount:hub:x" cannot create resource "pods" in API group "" in the namespace "hub"'
BINDING = (
    'claim "c" is invalid: status.allocation: Forbidden: changing status.allocation requires more: forbidden: User "x" '
    'cannot update resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
)


@all_of_them("status, message, expected", {
    "in a namespace": (
        403, f"pods is forbidden: {NOT_ALLOWED}",
        f'{LACKS} rule {{apiGroups: [""], resources: [pods], verbs: [create]}} in namespace hub',
    ),
    "of the cluster": (
        403, 'nodes "a" is forbidden: User "x" cannot patch resource "nodes" in API group "" at the cluster scope',
        f'{LACKS} ClusterRole rule {{apiGroups: [""], resources: [nodes], verbs: [patch]}}',
    ),
    "another reason": (403, 'pods "p" is forbidden: no PriorityClass with name placeholders was found', ""),
    "of a finer check": (
        422, BINDING,
        f'{LACKS} ClusterRole rule {{apiGroups: ["resource.k8s.io"], resources: [resourceclaims/binding], verbs: [update]}}',
    ),
    "another status": (409, "conflict", ""),
})  # fmt: skip
def test_rules_are_read_off_refusals(status: int, message: str, expected: str) -> None:
    error = KubernetesError(RequestTarget("create", "pods"), status=status, reason="Forbidden", message=message)
    assert missing_right(error) == expected
